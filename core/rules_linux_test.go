package core

import (
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

// readableFunc asks the kernel whether the descriptor of e is readable.
func readableFunc(t *rapid.T, e *Engine) func() bool {
	fd, err := e.FD()
	wantNil(t, err)
	return func() bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return err == nil && n > 0
	}
}
