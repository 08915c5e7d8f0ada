package sys

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A question for the route to an IPv6 address is a header, of the message and of
// the route, and the address as an attribute.
const (
	routeKindAt   = unix.SizeofNlMsghdr + 7 // type of the struct rtmsg
	routeQuestion = unix.SizeofNlMsghdr + unix.SizeofRtMsg + unix.SizeofRtAttr + 16
)

// AwaitDelivery returns when the system delivers what is sent to an address of
// its own here, and does not route it elsewhere or drop it, or when the patience
// is at an end. It reports whether the system does. The error says that the
// system does not tell.
//
// An IPv4 address is delivered to as soon as it can be seen. An IPv6 address can
// be seen and bound to before: the system adds the route to it later, in a
// worker.
func AwaitDelivery(a netip.Addr, patience time.Duration) (bool, error) {
	if a.Unmap().Is4() {
		return true, nil
	}
	limit := time.Now().Add(patience)
	if here, err := delivers(a); here || err != nil {
		return here, err
	}
	news, err := openRoutes(unix.RTMGRP_IPV6_ROUTE)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(news) }()
	for {
		here, err := delivers(a)
		left := time.Until(limit)
		if here || err != nil || left <= 0 {
			return here, err
		}
		var change [1]byte // what has changed, the next question says
		fds := [1]unix.PollFd{{Fd: int32(news), Events: unix.POLLIN}}
		_, _ = unix.Poll(fds[:], int(left/time.Millisecond)+1)
		_, _, _ = unix.Recvfrom(news, change[:], unix.MSG_DONTWAIT)
	}
}

// openRoutes opens a socket for questions about routes, and for news of groups.
func openRoutes(groups uint32) (fd int, err error) {
	if fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE); err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("bind", err)
	}
	return fd, nil
}

// delivers reports whether packets to an IPv6 address stay here.
func delivers(a netip.Addr) (bool, error) {
	fd, err := openRoutes(0)
	if err != nil {
		return false, err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, askRoute(a), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return false, os.NewSyscallError("sendto", err)
	}
	var answer [1024]byte
	n, _, err := unix.Recvfrom(fd, answer[:], unix.MSG_DONTWAIT) // it is there when Sendto returns
	if err != nil {
		return false, os.NewSyscallError("recvfrom", err)
	}
	return delivered(answer[:n])
}

// askRoute returns the question for the route to a.
func askRoute(a netip.Addr) []byte {
	to, b := a.As16(), make([]byte, 0, routeQuestion)
	native := binary.NativeEndian
	b = native.AppendUint32(b, routeQuestion)
	b = native.AppendUint16(b, unix.RTM_GETROUTE)
	b = native.AppendUint16(b, unix.NLM_F_REQUEST)
	b = append(b, make([]byte, 8)...) // sequence number, and port of the socket
	b = append(b, unix.AF_INET6, 128)
	b = append(b, make([]byte, unix.SizeofRtMsg-2)...)
	b = native.AppendUint16(b, unix.SizeofRtAttr+16)
	b = native.AppendUint16(b, unix.RTA_DST)
	return append(b, to[:]...)
}

// delivered reads the answer.
func delivered(b []byte) (bool, error) {
	if len(b) < unix.SizeofNlMsghdr+unix.SizeofRtMsg {
		return false, fmt.Errorf("route: an answer of %d bytes: %w", len(b), unix.EBADMSG)
	}
	switch native := binary.NativeEndian; native.Uint16(b[4:]) {
	case unix.RTM_NEWROUTE:
		return b[routeKindAt] == unix.RTN_LOCAL, nil
	case unix.NLMSG_ERROR:
		errno := unix.Errno(-int32(native.Uint32(b[unix.SizeofNlMsghdr:])))
		if errno == unix.ENETUNREACH || errno == unix.EHOSTUNREACH {
			return false, nil // there is no route at all
		}
		return false, fmt.Errorf("route: %w", errno)
	}
	return false, fmt.Errorf("route: an answer of another kind: %w", unix.EBADMSG)
}
