package sys

import (
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Doorbell is one end of a pair through which two processes wake each other.
// Its descriptor is readable when the other end rang since the last Drain, and
// when the other end is gone.
//
// The ends are two different sockets: what a process does to its own, even if
// it is hostile, neither takes a ring away from the other end nor changes how
// that end behaves. Who made the pair may have kept both, so no call here waits.
//
// All methods may be called from any goroutine.
type Doorbell struct {
	fd int
	// users counts the calls that use the descriptor, and has the bit closed.
	// The last one out closes it, so that no call meets a number used anew.
	users atomic.Int64
}

// closed is the bit of Doorbell.users.
const closed = 1 << 62

// drainReads is how often one Drain reads: a peer that never stops ringing
// cannot keep it.
const drainReads = 4

var ringByte = [1]byte{1}

// NewDoorbell makes a pair. One end is for this process; FD of the other is to
// be sent to the other process, and then the other to be closed here.
func NewDoorbell() (mine, theirs *Doorbell, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return &Doorbell{fd: fds[0]}, &Doorbell{fd: fds[1]}, nil
}

// DoorbellFromFD makes a Doorbell of an end that another process sent. It takes
// the descriptor over, and closes it when it is not of a Unix stream socket.
func DoorbellFromFD(fd int) (*Doorbell, error) {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	kind := -1
	if err == nil {
		kind, err = unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	}
	if err == nil && (family != unix.AF_UNIX || kind != unix.SOCK_STREAM) {
		err = unix.EPROTOTYPE
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("doorbell: %w", os.NewSyscallError("getsockopt", err))
	}
	return &Doorbell{fd: fd}, nil
}

// Ring makes the other end readable. An end that is full of rings is readable
// already. It is ErrGone when the other end, or this one, is closed. It never
// blocks and allocates nothing.
func (d *Doorbell) Ring() error {
	if !d.enter() {
		return ErrGone
	}
	_, errno := d.transfer(unix.SYS_SENDTO, ringByte[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	d.leave()
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR: // a signal comes only to a call that waits
		return nil
	case unix.EPIPE, unix.ECONNRESET, unix.ENOTCONN:
		return ErrGone
	}
	return errno
}

// Drain takes the rings that came, and reports how many and whether the other
// end, or this one, is gone. A number of rings that is large may need several
// calls; the descriptor stays readable until then. It never blocks and
// allocates nothing.
func (d *Doorbell) Drain() (n int, gone bool) {
	if !d.enter() {
		return 0, true
	}
	defer d.leave()
	var b [64]byte
	for range drainReads {
		k, errno := d.transfer(unix.SYS_RECVFROM, b[:], unix.MSG_DONTWAIT)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
			return n, false
		case errno != 0 || k == 0:
			return n, true
		}
		if n += k; k < len(b) {
			break // a ring that comes now makes it readable again
		}
	}
	return n, false
}

// transfer sends or receives. The flags ask not to wait, rather than the
// descriptor, since the other process may have a share in one that it sent.
func (d *Doorbell) transfer(call uintptr, b []byte, flags int) (int, unix.Errno) {
	n, _, errno := unix.Syscall6(call, uintptr(d.fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(flags), 0, 0)
	return int(n), errno
}

// enter keeps the descriptor open until leave; false means that it is closed.
func (d *Doorbell) enter() bool {
	if d.users.Add(1) < closed {
		return true
	}
	d.leave()
	return false
}

func (d *Doorbell) leave() {
	if d.users.Add(-1) == closed {
		d.finish()
	}
}

// finish closes the descriptor, once: who finds the closed bit alone and takes
// it away does it.
func (d *Doorbell) finish() {
	if d.users.CompareAndSwap(closed, closed|closed>>1) {
		_ = unix.Close(d.fd)
	}
}

// FD returns the descriptor, for a poller to watch and for sending. It stays
// with d; it must leave the poller before Close.
func (d *Doorbell) FD() int { return d.fd }

// Close closes this end, once calls in progress are done; the other end sees
// it. Closing twice is harmless.
func (d *Doorbell) Close() error {
	for {
		n := d.users.Load()
		if n >= closed {
			return nil
		}
		if d.users.CompareAndSwap(n, n+closed) {
			break
		}
	}
	if d.users.Load() == closed {
		d.finish()
	}
	return nil
}
