package peevent

import (
	"errors"

	"golang.org/x/sys/unix"
)

// A poller is an epoll set with one descriptor, as any program may have one for
// its sockets.
type poller struct{ set int }

// newPoller makes a set that waits for fd to become readable.
func newPoller(fd int) (*poller, error) {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	e := &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, e); err != nil {
		return nil, errors.Join(err, unix.Close(set))
	}
	return &poller{set}, nil
}

// wait blocks until the descriptor is readable, without limit. Signals, which
// Go's scheduler sends too, do not end it.
func (p *poller) wait() error {
	var ready [1]unix.EpollEvent
	for {
		switch _, err := unix.EpollWait(p.set, ready[:], -1); err {
		case unix.EINTR:
		default:
			return err
		}
	}
}

func (p *poller) close() error { return unix.Close(p.set) }
