package notify

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A Set is an epoll descriptor over an eventfd, a timerfd and what was added.
//
// Signal and Interrupt may be called from any goroutine; all else belongs to
// one goroutine at a time. The eventfd never leaves the process.
type Set struct {
	epoll, event, timer int

	file  *os.File           // owns epoll; through it Go's poller knows the descriptor
	conn  syscall.RawConn    // of file
	ready func(uintptr) bool // made once, so that Wait allocates nothing
	found [1]unix.EpollEvent
	eager eagerness
}

// New opens a Set. Close gives its three descriptors back.
func New() (*Set, error) {
	s := &Set{epoll: -1, event: -1, timer: -1, eager: eagerness{short: 1}}
	if err := s.open(); err != nil {
		s.closeAll()
		return nil, err
	}
	return s, nil
}

func (s *Set) open() (err error) {
	if s.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return fmt.Errorf("create an epoll descriptor: %w", err)
	}
	if s.event, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return fmt.Errorf("create an eventfd: %w", err)
	}
	if s.timer, err = unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK); err != nil {
		return fmt.Errorf("create a timerfd: %w", err)
	}
	if err := errors.Join(s.Add(s.event), s.Add(s.timer)); err != nil {
		return err
	}
	// Only a non-blocking descriptor is handed to Go's poller.
	if err := unix.SetNonblock(s.epoll, true); err != nil {
		return fmt.Errorf("make the epoll descriptor non-blocking: %w", err)
	}
	s.file = os.NewFile(uintptr(s.epoll), "notification")
	if s.conn, err = s.file.SyscallConn(); err != nil {
		return fmt.Errorf("hand the epoll descriptor to the poller: %w", err)
	}
	s.ready = func(uintptr) bool { return s.Readable() }
	return nil
}

// FD returns the descriptor. It is the same for the life of the Set, and is
// readable while there is something to clear or a source is readable.
func (s *Set) FD() int { return s.epoll }

// Add makes the Set readable whenever fd is. The caller keeps fd.
func (s *Set) Add(fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("watch descriptor %d: %w", fd, err)
	}
	return nil
}

// Remove undoes Add.
func (s *Set) Remove(fd int) error {
	if err := unix.EpollCtl(s.epoll, unix.EPOLL_CTL_DEL, fd, nil); err != nil {
		return fmt.Errorf("stop watching descriptor %d: %w", fd, err)
	}
	return nil
}

// one is what Signal adds to the eventfd: it reads the same in either byte
// order, and so does the first byte of a sum.
var one = [8]byte{1, 0, 0, 0, 0, 0, 0, 1}

// Signal makes the Set readable. It never blocks: a counter that is full is
// readable already.
func (s *Set) Signal() { _, _ = unix.Write(s.event, one[:]) }

// Clear takes back every Signal and an expired timer.
func (s *Set) Clear() error {
	_, err := s.TakeSignals()
	if err == nil {
		_, err = take(s.timer)
	}
	return err
}

// TakeSignals takes back every Signal, and says how many there were: less than
// 256. It leaves the timer alone.
func (s *Set) TakeSignals() (n int, err error) { return take(s.event) }

// take reads what makes a descriptor readable, and returns the first byte of it.
func take(fd int) (int, error) {
	var b [8]byte
	switch _, err := unix.Read(fd, b[:]); err {
	case nil:
		return int(b[0]), nil
	case unix.EAGAIN, unix.EINTR:
		return 0, nil
	default:
		return 0, fmt.Errorf("clear descriptor %d: %w", fd, err)
	}
}

// SetTimer makes the Set readable once after d, replacing an earlier timer.
// A d of zero or less is due at once.
func (s *Set) SetTimer(d time.Duration) error {
	ts := unix.ItimerSpec{Value: unix.NsecToTimespec(max(int64(d), 1))}
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(s.timer, 0, &ts, nil))
}

// StopTimer forgets the timer, expired or not.
func (s *Set) StopTimer() error {
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(s.timer, 0, &unix.ItimerSpec{}, nil))
}

// Readable reports whether the descriptor is readable now.
func (s *Set) Readable() bool {
	for {
		n, err := unix.EpollWait(s.epoll, s.found[:], 0)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// Wait parks the calling goroutine until the Set is readable. It returns
// ErrInterrupted once Interrupt was called, until Resume. It allocates nothing.
//
// When waits of late were short it looks for up to 20 microseconds before it
// parks, and may then find the Set readable beside an Interrupt.
func (s *Set) Wait() error {
	if s.look() {
		return nil
	}
	return s.Park()
}

// Park is Wait that does not look: for who has looked already, or should not.
func (s *Set) Park() error {
	start := time.Now()
	err := s.conn.Read(s.ready)
	s.eager.parked(time.Since(start))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrInterrupted
	}
	return err
}

// Interrupt makes Wait return now, and at once when it is called again.
func (s *Set) Interrupt() { _ = s.file.SetReadDeadline(time.Unix(1, 0)) }

// Resume undoes Interrupt.
func (s *Set) Resume() { _ = s.file.SetReadDeadline(time.Time{}) }

// Close closes the descriptors of the Set, not those that were added.
func (s *Set) Close() error {
	err := s.file.Close()
	s.epoll = -1
	s.closeAll()
	return err
}

func (s *Set) closeAll() {
	for _, fd := range [...]*int{&s.epoll, &s.event, &s.timer} {
		if *fd >= 0 {
			_ = unix.Close(*fd)
			*fd = -1
		}
	}
}
