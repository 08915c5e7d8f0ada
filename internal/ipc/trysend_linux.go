package ipc

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// TrySend is Send that never waits: it is ErrFull when there is no room.
func (c *Conn) TrySend(p []byte, fds ...int) error {
	rights, err := parcel(p, fds)
	if err != nil {
		return err
	}
	raw, err := c.u.SyscallConn()
	if err != nil {
		return fmt.Errorf("send: %w", err)
	}
	var sendErr error = unix.EINTR
	err = raw.Control(func(fd uintptr) {
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
