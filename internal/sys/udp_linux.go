package sys

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A UDP is a UDP socket that is bound and not connected, and an epoll
// descriptor that watches it.
//
// Its packets carry the IPv4 identification 0 and don't-fragment: it never is
// connected, and its path MTU discovery is set to DO. Segments of a larger send
// carry 0, 1, 2 and so on.
//
// Calls may come from any goroutine, except that Close must not run at the same
// time as a Send or a Recv of a batch; it may run during Wait.
type UDP struct {
	fd, epoll int
	local     netip.AddrPort
	zone      uint32
	iface     uint32 // for multicast
	canCut    bool

	ready func(uintptr) bool // made once, so that Wait allocates nothing
	found [1]unix.EpollEvent

	mu     sync.Mutex
	room   bool            // the epoll set also looks for room to send
	closed bool            // Close was called
	file   *os.File        // owns epoll from the first Wait on
	conn   syscall.RawConn // of file
}

// OpenUDP opens a socket that is bound to local, whose zone it leaves to the
// options. The error holds a unix.Errno: EADDRINUSE, EADDRNOTAVAIL.
func OpenUDP(local netip.AddrPort, o UDPOptions) (*UDP, error) {
	u := &UDP{fd: -1, epoll: -1, local: local, zone: o.Zone, iface: o.Interface}
	if err := errors.Join(u.open(o), u.watch()); err != nil {
		u.closeAll()
		return nil, err
	}
	return u, nil
}

func (u *UDP) open(o UDPOptions) error {
	family := unix.AF_INET6
	if u.local.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	u.fd = fd
	if err := u.setOptions(family); err != nil {
		return err
	}
	u.leaveBy()
	u.grow(unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, o.RecvBuffer)
	u.grow(unix.SO_SNDBUF, unix.SO_SNDBUFFORCE, o.SendBuffer)
	// A kernel without these answers with an error, and does without.
	_, err = unix.GetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_SEGMENT)
	u.canCut = err == nil
	if o.Merge {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	}
	return os.NewSyscallError("bind", unix.Bind(fd, u.sockaddr()))
}

// setOptions sets what the invariant CRC of packets depends on.
func (u *UDP) setOptions(family int) error {
	if family == unix.AF_INET {
		return set(u.fd, "IP_MTU_DISCOVER", unix.IPPROTO_IP, unix.IP_MTU_DISCOVER, unix.IP_PMTUDISC_DO)
	}
	return errors.Join(
		set(u.fd, "IPV6_V6ONLY", unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1),
		set(u.fd, "IPV6_MTU_DISCOVER", unix.IPPROTO_IPV6, unix.IPV6_MTU_DISCOVER, unix.IPV6_PMTUDISC_DO),
		// RoCE senders do not compute the UDP checksum.
		set(u.fd, "UDP_NO_CHECK6_RX", unix.IPPROTO_UDP, unix.UDP_NO_CHECK6_RX, 1))
}

func set(fd int, name string, level, opt, value int) error {
	if err := unix.SetsockoptInt(fd, level, opt, value); err != nil {
		return fmt.Errorf("set %s: %w", name, err)
	}
	return nil
}

// grow asks for a buffer of n bytes: first with the privilege to pass the
// system's limit, then without, which gives as much as the limit allows.
func (u *UDP) grow(opt, force, n int) {
	if n > 0 && unix.SetsockoptInt(u.fd, unix.SOL_SOCKET, force, n) != nil {
		_ = unix.SetsockoptInt(u.fd, unix.SOL_SOCKET, opt, n)
	}
}

func (u *UDP) sockaddr() unix.Sockaddr {
	a, port := u.local.Addr(), int(u.local.Port())
	if a.Is4() {
		return &unix.SockaddrInet4{Port: port, Addr: a.As4()}
	}
	return &unix.SockaddrInet6{Port: port, Addr: a.As16(), ZoneId: u.zone}
}

// watch makes the epoll set.
func (u *UDP) watch() (err error) {
	if u.fd < 0 {
		return nil // open failed, and has said so
	}
	if u.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(u.fd)}
	if err := unix.EpollCtl(u.epoll, unix.EPOLL_CTL_ADD, u.fd, &ev); err != nil {
		return os.NewSyscallError("epoll_ctl", err)
	}
	if err := unix.SetNonblock(u.epoll, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	u.ready = func(fd uintptr) bool { return u.readable(int(fd)) }
	return nil
}

// polled returns the epoll set as Go's poller knows it, or nil if the socket is
// closed. It is handed to the poller when somebody waits for the first time:
// from then on a thread is woken for each message that comes, also while
// nobody waits.
func (u *UDP) polled() syscall.RawConn {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	if u.file == nil {
		u.file = os.NewFile(uintptr(u.epoll), "udp")
		u.conn, _ = u.file.SyscallConn() // an error is for a file that is closed
	}
	return u.conn
}

// readable reports whether there is a message, or room that was waited for.
func (u *UDP) readable(epoll int) bool {
	for {
		n, err := unix.EpollWait(epoll, u.found[:], 0)
		if err != unix.EINTR {
			return n > 0
		}
	}
}

// FD returns a descriptor that is readable when a message is there, and when
// there is room after WatchRoom.
func (u *UDP) FD() int { return u.epoll }

// CanCut reports whether the kernel cuts one large send into datagrams.
func (u *UDP) CanCut() bool { return u.canCut }

// Wait parks the calling goroutine until FD is readable, and reports false when
// the socket is closed. One goroutine at a time. It allocates nothing.
func (u *UDP) Wait() bool {
	c := u.polled()
	return c != nil && c.Read(u.ready) == nil
}

// WatchRoom makes FD readable also when there is room to send, until HasRoom
// finds some.
func (u *UDP) WatchRoom() {
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.room {
		u.room = true
		u.events(unix.EPOLLIN | unix.EPOLLOUT)
	}
}

// HasRoom reports whether there is room to send, and if so ends WatchRoom.
func (u *UDP) HasRoom() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	fds := [1]unix.PollFd{{Fd: int32(u.fd), Events: unix.POLLOUT}}
	if n, err := unix.Poll(fds[:], 0); err != nil || n == 0 {
		return false
	}
	if u.room {
		u.room = false
		u.events(unix.EPOLLIN)
	}
	return true
}

// events sets what the epoll set looks for. It cannot fail for a descriptor
// that is in the set.
func (u *UDP) events(events uint32) {
	ev := unix.EpollEvent{Events: events, Fd: int32(u.fd)}
	_ = unix.EpollCtl(u.epoll, unix.EPOLL_CTL_MOD, u.fd, &ev)
}

// RecvBuffer returns the size of the receive buffer as the kernel accounts it:
// twice what the application asked for, because its own records count too.
func (u *UDP) RecvBuffer() int { return u.option(unix.SO_RCVBUF) }

// SendBuffer returns the size of the send buffer.
func (u *UDP) SendBuffer() int { return u.option(unix.SO_SNDBUF) }

func (u *UDP) option(opt int) int {
	n, _ := unix.GetsockoptInt(u.fd, unix.SOL_SOCKET, opt)
	return n
}

// Drops returns how many datagrams the kernel has dropped because the receive
// buffer was full.
func (u *UDP) Drops() uint64 {
	var info [16]uint32 // the kernel fills as many as it knows
	n := uint32(unsafe.Sizeof(info))
	_, _, e := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(u.fd), unix.SOL_SOCKET, unix.SO_MEMINFO,
		uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&n)), 0)
	if e != 0 {
		return 0
	}
	return uint64(info[unix.SK_MEMINFO_DROPS])
}

// Close closes the socket and ends Wait. A second Close does nothing.
func (u *UDP) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	u.closed = true
	var err error
	switch {
	case u.file != nil:
		err = u.file.Close()
	case u.epoll >= 0: // a group has none
		err = os.NewSyscallError("close", unix.Close(u.epoll))
	}
	return errors.Join(err, os.NewSyscallError("close", unix.Close(u.fd)))
}

// closeAll undoes what was done when opening failed.
func (u *UDP) closeAll() {
	if u.epoll >= 0 {
		_ = unix.Close(u.epoll)
	}
	if u.fd >= 0 {
		_ = unix.Close(u.fd)
	}
}
