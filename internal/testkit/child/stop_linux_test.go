package child

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

// What stands still says nothing more; continued, it goes on where it was, and
// how it ends is still there to be waited for. One that has ended cannot stand
// still.
func TestStop(t *testing.T) {
	c, _ := play(t, "counts", life)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	c.Stdout = w
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	b := make([]byte, 1<<12)
	for range 20 {
		if _, err := io.ReadFull(r, b); err != nil { // it counts
			t.Fatal(err)
		}
		Stop(t, c.Process)
		if state := stateOf(t, c.Process.Pid); strings.Trim(state, "T") != "" {
			t.Fatalf("its threads are %s, want T for all", state)
		}
		if err := c.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil { // until it has ended
		t.Fatal(err)
	}
	x := &witness{TB: t}
	Stop(x, c.Process)
	if !strings.Contains(x.said.String(), "does not stand still") {
		t.Errorf("of one that has ended it said %q", &x.said)
	}
	if err := c.Wait(); err == nil || c.ProcessState.Exited() {
		t.Errorf("got %v, want that it was killed", err)
	}
}

// stateOf returns the letters for what the threads of a process are at.
func stateOf(t *testing.T, pid int) (letters string) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/stat", pid, task.Name()))
		if err != nil {
			t.Fatal(err)
		}
		letters += string(b[bytes.LastIndexByte(b, ')')+2])
	}
	return letters
}
