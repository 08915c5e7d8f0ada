package faults

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// contained is a process in a container of its own: it sees no process, no
// network and no System V memory of others. The files are the same.
func contained(t *testing.T, dir string, args ...string) *process {
	t.Helper()
	c := exec.Command(program, args...)
	c.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS,
	}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return begin(t, args[0]+" in a container", c, dir)
}

// needNamespaces skips a test where there can be no containers.
func needNamespaces(t *testing.T) {
	t.Helper()
	c := child.Command(t, program, "version")
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
	}
	if err := c.Run(); err != nil {
		t.Skipf("this system lets the user make no namespaces: %v", err)
	}
}

// TestTwoContainersThatShareTheDirectory: a path that is mounted into both is
// all that they need. The sides may also be one inside and one outside.
func TestTwoContainersThatShareTheDirectory(t *testing.T) {
	needNamespaces(t)
	outside := func(t *testing.T, dir string, args ...string) *process { return gantry(t, dir, args...) }
	for name, starts := range map[string][2]func(*testing.T, string, ...string) *process{
		"both in one":    {contained, contained},
		"the DPU in one": {contained, outside},
	} {
		for i := range pairs {
			p := &pairs[i]
			t.Run(p.name+" "+name, func(t *testing.T) {
				dir := workshop(t)
				run := filepath.Join(dir, "run")
				dpu, host := p.sides(dir, true)
				d, h := starts[0](t, run, dpu...), starts[1](t, run, host...)
				d.ends(0, 20*time.Second)
				h.ends(0, 20*time.Second)
				if p.check != nil && !t.Failed() {
					if err := p.check(dir); err != nil {
						t.Error(err)
					}
				}
				wantClean(t, run, 0)
			})
		}
	}
}
