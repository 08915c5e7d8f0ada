package kit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// inside marks a process that has a network namespace of its own.
const inside = "GANTRY_INTEROP_INSIDE"

// Inside reports whether this process was started by Enter.
func Inside() bool { return os.Getenv(inside) != "" }

// Possible returns an error that wraps ErrCannot where users may not make TAP
// interfaces at all. Whether there can be a namespace shows in Enter.
func Possible() error {
	f, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", err, ErrCannot)
	}
	return f.Close()
}

// Enter runs this program again, with the same arguments, in a network
// namespace of its own, which ends with it. An ordinary user gets a user
// namespace as well. It returns the exit status.
func Enter(ctx context.Context) (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	c := exec.CommandContext(ctx, self, os.Args[1:]...)
	c.Env = append(os.Environ(), inside+"=1")
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGTERM}
	if uid := os.Getuid(); uid != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	if err := c.Start(); err != nil {
		return 0, fmt.Errorf("a network namespace: %w: %w", err, ErrCannot)
	}
	err = c.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// Network gives the interface of a wire its addresses and a queue that is as long
// as the wire's own, and sets loopback up.
func (i *Image) Network(ctx context.Context, name string, mtu int, addrs ...string) error {
	ip, err := i.tools.program("ip")
	if err != nil {
		return err
	}
	steps := [][]string{{"link", "set", "lo", "up"}, {"link", "set", name, "mtu", strconv.Itoa(mtu), "txqueuelen", strconv.Itoa(queueLength), "up"}}
	for _, a := range addrs {
		steps = append(steps, []string{"addr", "add", a, "dev", name, "nodad"})
	}
	for _, s := range steps {
		c := exec.CommandContext(ctx, ip, s...)
		c.Env = i.tools.environ()
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", s, err, out)
		}
	}
	return nil
}
