// Package child starts the other processes of a test, none of which is waited
// for without a limit, and none of which outlives its test.
package child

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const (
	life  = time.Minute      // of a process: what works takes seconds, on slow machines too
	grace = 3 * time.Second  // to print its goroutines
	spare = 15 * time.Second // which a test needs to report, before its own time is over
)

// hung is set when a process had to end. What hangs once often hangs again, and
// the run is to be over before its time is: then processes have a quarter.
var hung atomic.Bool

// Command is [exec.Command] for a test. The process lives for a minute at most,
// or nearly as long as the test has left; when it has to die, a Go program
// prints its goroutines, and the test fails. So whoever waits for the process,
// or reads what it says, comes to an end. It is killed when the test ends.
func Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	return Within(t, life, name, args...)
}

// Within is [Command] for a process that may live for another time: a build.
func Within(t testing.TB, d time.Duration, name string, args ...string) *exec.Cmd {
	t.Helper()
	if hung.Load() {
		d /= 4
	}
	switch x := t.(type) {
	case *testing.T:
		if end, ok := x.Deadline(); ok {
			d = min(d, max(time.Until(end)-spare, grace))
		}
	case *testing.B:
		d *= 10 // it runs as often as it is asked to
	}
	ctx, cancel := context.WithTimeout(context.Background(), d)
	c := Until(ctx, name, args...)
	late, end := false, c.Cancel
	c.Cancel = func() error {
		if late = ctx.Err() == context.DeadlineExceeded; late {
			hung.Store(true)
			t.Errorf("process %d has to end after %v: %.120s", c.Process.Pid, d.Round(time.Millisecond), fmt.Sprint(c.Args))
		}
		return end()
	}
	t.Cleanup(func() {
		cancel()
		_ = c.Wait() // an error of exec where the test has waited, or has not started it
		if says, ok := c.Stderr.(*bytes.Buffer); late && ok {
			t.Logf("process %d said:\n%s", c.Process.Pid, says)
		}
	})
	return c
}

// Until is [exec.CommandContext]. When the time of ctx is over, a Go program
// prints its goroutines before it dies.
func Until(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.WaitDelay = grace // then it is killed, and its pipes are closed
	c.Cancel = func() error {
		if ctx.Err() == context.DeadlineExceeded {
			if err := c.Process.Signal(syscall.SIGQUIT); err == nil {
				return nil
			}
		}
		return c.Process.Kill()
	}
	return c
}
