package child

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// Stop makes a process that the test has started stand still, and returns when it
// does: the signal alone leaves its threads a moment, in which they may answer
// others. Wait still tells how the process ends.
func Stop(t testing.TB, p *os.Process) {
	t.Helper()
	if err := p.Signal(unix.SIGSTOP); err != nil {
		t.Errorf("stop process %d: %v", p.Pid, err)
		return
	}
	var info unix.Siginfo
	for {
		err := unix.Waitid(unix.P_PID, p.Pid, &info, unix.WSTOPPED|unix.WEXITED|unix.WNOWAIT, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil || info.Code != codeStopped {
			t.Errorf("process %d does not stand still: %v, code %d", p.Pid, err, info.Code)
		}
		return
	}
}

// codeStopped is CLD_STOPPED of waitid(2).
const codeStopped = 5
