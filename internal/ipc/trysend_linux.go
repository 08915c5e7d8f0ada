package ipc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// TrySend is Send that never waits: it is ErrFull when there is no room.
func (c *Conn) TrySend(p []byte, fds ...int) error {
	if len(p) == 0 || len(p) > MaxMessage || len(fds) > MaxFDs {
		return fmt.Errorf("send %d bytes and %d descriptors: %w", len(p), len(fds), ErrMessage)
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	raw, err := c.u.SyscallConn()
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	var sendErr error
	err = raw.Control(func(fd uintptr) {
		sendErr = unix.Sendmsg(int(fd), p, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		for sendErr == unix.EINTR {
			sendErr = unix.Sendmsg(int(fd), p, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		}
	})
	switch {
	case err != nil:
		return fmt.Errorf("send: %w", err)
	case errors.Is(sendErr, unix.EAGAIN), errors.Is(sendErr, unix.ENOBUFS):
		return fmt.Errorf("send: %w", ErrFull)
	case errors.Is(sendErr, unix.EPIPE), errors.Is(sendErr, unix.ECONNRESET):
		return fmt.Errorf("send: %w", ErrGone)
	}
	return sendErr
}
