package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// program starts this test program as the command gantry, which ends with the
// test.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, out, errOut *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	gantry := filepath.Join(dir, "gantry") // by this name it is the command
	if err := os.Symlink(self, gantry); err != nil {
		t.Skipf("no symbolic links: %v", err)
	}
	out, errOut = new(bytes.Buffer), new(bytes.Buffer)
	cmd = child.Command(t, gantry, args...)
	cmd.Stdout, cmd.Stderr = out, errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, out, errOut
}

// awaitEnd waits for a program that is to end soon. One that does not prints
// its goroutines.
func awaitEnd(t *testing.T, cmd *exec.Cmd) error {
	t.Helper()
	late := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Signal(syscall.SIGQUIT) })
	err := cmd.Wait()
	if !late.Stop() {
		t.Fatalf("%v does not end: %s", cmd.Args[1:], cmd.Stderr)
	}
	return err
}

// A server that stands still, with its TCP connection open, is found out by
// the transport, within the time that timeout and retry count promise.
func TestPerfServerFreezes(t *testing.T) {
	p := perfPlaces()
	server, _, serverSays := program(t, "perf", "--listen", "-p", p["PERF_PORT"], "--addr", p["PERF_ADDR_A"])
	client, _, says := program(t, "perf", "write_bw", p["PERF_ADDR_A"], "-p", p["PERF_PORT"], "--addr", p["PERF_ADDR_B"],
		"-D", "60", "-u", "12", "--retry_count", "3", "--pcap", filepath.Join(t.TempDir(), "begun.pcapng"))
	timer := time.NewTimer(1500 * time.Millisecond)
	<-timer.C
	child.Stop(t, server.Process)
	start := time.Now()
	err := awaitEnd(t, client)
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	if code := client.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("exit code %d (%v), want %d", code, err, exitFailed)
	}
	if got := says.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "does not answer any more") && !strings.Contains(got, "no answer for") {
		t.Errorf("got %q, want one sentence that says that the server does not answer; the server: %q", got, serverSays)
	}
}
