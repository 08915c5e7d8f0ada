package faults

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestWhatACommandRefuses: what a side says when it cannot begin. The codes of
// the calls behind it are tested in package comch.
func TestWhatACommandRefuses(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	first := gantry(t, dir, "secure-channel", "--side", "dpu")
	if !eventually(10*time.Second, first.listens) {
		t.Fatal("the first server does not listen")
	}
	for what, c := range map[string]struct{ args, says string }{
		"a second server of the name":    {"secure-channel --side dpu", "another process is the DPU side"},
		"a client without a server":      {"secure-channel --side host -p 07:00.1 --wait 50ms", "nobody came to the dpu side"},
		"a server without a client":      {"secure-channel --side dpu -p 03:00.1 --wait 50ms", "nobody came to the host side"},
		"a function that does not exist": {"secure-channel -p 99:00.0", "99:00.0"},
	} {
		p := gantry(t, dir, strings.Fields(c.args)...)
		p.ends(1, 10*time.Second)
		if !strings.Contains(p.said(), c.says) {
			t.Errorf("%s: got %q, want it to have %q", what, p.said(), c.says)
		}
	}
	first.signal(syscall.SIGTERM)
	first.ends(1, 10*time.Second)
}
