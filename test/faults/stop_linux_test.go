package faults

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// met waits until two sides have memory of each other, and reports whether that
// came to be.
func met(sides ...*process) bool {
	return eventually(10*time.Second, func() bool {
		return sides[0].mappings() > 1 && sides[1].mappings() > 1
	})
}

// TestStoppedAndContinued stops either side for a while, again and again: the
// other one waits, and in the end nothing is missing.
func TestStoppedAndContinued(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seed, 2))
	dir := filepath.Join(t.TempDir(), "run")
	args := []string{"secure-channel", "--json", "-s", "1000", "-n", "1500000", "--side"}
	sides := []*process{gantry(t, dir, append(args, "dpu")...), gantry(t, dir, append(args[:len(args):len(args)], "host")...)}
	if !met(sides...) {
		t.Fatal("the sides do not meet")
	}
	for range 8 * *long {
		p := sides[rng.IntN(2)]
		p.signal(syscall.SIGSTOP) // it may have ended
		<-time.After(time.Duration(rng.IntN(100)) * time.Millisecond)
		p.signal(syscall.SIGCONT)
		<-time.After(time.Duration(rng.IntN(20)) * time.Millisecond)
	}
	for _, p := range sides {
		p.ends(0, 60*time.Second)
		var d struct{ Sent, Received int }
		if err := json.Unmarshal([]byte(p.printed()), &d); err != nil || d.Sent != 1500000 || d.Received != 1500000 {
			t.Errorf("%s: %d sent, %d received: %v", p.name, d.Sent, d.Received, err)
		}
	}
}

// TestTheOtherSideSleepsWhileOneIsStopped and can be interrupted then.
func TestTheOtherSideSleepsWhileOneIsStopped(t *testing.T) {
	t.Parallel()
	for i, stopped := range []string{"dpu", "host"} {
		t.Run(stopped, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "run")
			args := []string{"secure-channel", "-s", "1000", "-n", "4000000000", "--side"}
			sides := []*process{gantry(t, dir, append(args, "dpu")...), gantry(t, dir, append(args[:len(args):len(args)], "host")...)}
			if !met(sides...) {
				t.Fatal("the sides do not meet")
			}
			sides[i].stop()
			other := sides[1-i]
			if !eventually(5*time.Second, func() bool { return other.load(300*time.Millisecond) < 0.3 }) {
				t.Errorf("the other side takes %.2f of a CPU all the time", other.load(time.Second))
			}
			other.signal(syscall.SIGINT)
			other.ends(1, 10*time.Second)
			sides[i].signal(syscall.SIGCONT)
			sides[i].ends(1, 10*time.Second)
			wantClean(t, dir, 0)
		})
	}
}

// TestAHandshakeWithAStoppedProcessEnds: by the time that the user gave, and by
// that of the handshake when it is earlier.
func TestAHandshakeWithAStoppedProcessEnds(t *testing.T) {
	t.Parallel()
	for wait, most := range map[string]time.Duration{"1s": 4 * time.Second, "60s": 9 * time.Second} {
		for _, command := range []string{"secure-channel", "dma-copy"} {
			t.Run(command+" "+wait, func(t *testing.T) {
				t.Parallel()
				dir := workshop(t)
				run := filepath.Join(dir, "run")
				dpu, host := []string{command, "--side", "dpu"}, []string{command, "--side", "host", "--wait", wait}
				if command == "dma-copy" {
					dpu, host = append(dpu, "-f", filepath.Join(dir, "to")), append(host, "-f", filepath.Join(dir, "small"))
				}
				d := gantry(t, run, dpu...)
				if !eventually(10*time.Second, d.listens) {
					t.Fatal("the DPU side does not listen")
				}
				d.stop()
				h := gantry(t, run, host...)
				h.ends(1, most)
				d.signal(syscall.SIGCONT)
				h = gantry(t, run, host...) // the one that was stopped is as good as ever
				h.ends(0, 30*time.Second)
				d.ends(0, 30*time.Second)
			})
		}
	}
}

// TestALockedDirectoryIsAnError: who locks the directory and stops there holds
// up nobody for long.
func TestALockedDirectoryIsAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	gantry(t, dir, "secure-channel", "--side", "dpu").ends(1, 10*time.Second)
	if err := unix.Close(fd); err != nil {
		t.Fatal(err)
	}
	p := gantry(t, dir, "secure-channel", "--side", "dpu", "--wait", "100ms")
	p.ends(1, 10*time.Second) // nobody comes
	if !strings.Contains(p.said(), "nobody came") {
		t.Errorf("the next one says %q", p.said())
	}
}
