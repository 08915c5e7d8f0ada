package sys

import (
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// leaveBy lets multicast leave by the interface that the socket's address is on.
// A kernel that refuses says so again when something is sent to a group.
func (u *UDP) leaveBy() {
	if a := u.local.Addr(); a.Is4() {
		_ = unix.SetsockoptInet4Addr(u.fd, unix.IPPROTO_IP, unix.IP_MULTICAST_IF, a.As4())
	} else if u.iface != 0 {
		_ = unix.SetsockoptInt(u.fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_IF, int(u.iface))
	}
}

// ShowHeaders lets received messages have their header. It is for kernels that
// can: all that matter.
func (u *UDP) ShowHeaders() {
	if u.local.Addr().Is4() {
		_ = unix.SetsockoptInt(u.fd, unix.IPPROTO_IP, unix.IP_RECVTOS, 1)
		_ = unix.SetsockoptInt(u.fd, unix.IPPROTO_IP, unix.IP_RECVTTL, 1)
		return
	}
	_ = unix.SetsockoptInt(u.fd, unix.IPPROTO_IPV6, unix.IPV6_RECVTCLASS, 1)
	_ = unix.SetsockoptInt(u.fd, unix.IPPROTO_IPV6, unix.IPV6_RECVHOPLIMIT, 1)
}

// Join opens a socket that receives what is sent to a multicast group, on the
// interface of u. FD of u is readable when it has something, too. It sends
// nothing and has no FD of its own; it is to be closed before u.
//
// Others may join the same group: each gets each message.
func (u *UDP) Join(group netip.AddrPort, o UDPOptions) (*UDP, error) {
	g := &UDP{fd: -1, epoll: -1, local: group, zone: u.iface}
	if err := u.join(g, o); err != nil {
		g.closeAll()
		return nil, err
	}
	return g, nil
}

func (u *UDP) join(g *UDP, o UDPOptions) error {
	if err := g.openGroup(o); err != nil {
		return err
	}
	if err := g.member(u); err != nil {
		return err
	}
	g.ShowHeaders()
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(g.fd)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(u.epoll, unix.EPOLL_CTL_ADD, g.fd, &ev))
}

// openGroup is open for a socket that shares its address.
func (u *UDP) openGroup(o UDPOptions) error {
	family := unix.AF_INET6
	if u.local.Addr().Is4() {
		family = unix.AF_INET
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.IPPROTO_UDP)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	u.fd = fd
	if err := set(fd, "SO_REUSEADDR", unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return err
	}
	if err := u.setOptions(family); err != nil {
		return err
	}
	u.grow(unix.SO_RCVBUF, unix.SO_RCVBUFFORCE, o.RecvBuffer)
	if o.Merge {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_UDP, unix.UDP_GRO, 1)
	}
	return os.NewSyscallError("bind", unix.Bind(fd, u.sockaddr()))
}

// member makes the group socket a member on the interface of u, and of nothing
// that others have joined.
func (u *UDP) member(of *UDP) error {
	a := u.local.Addr()
	if !a.Is4() {
		_ = unix.SetsockoptInt(u.fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_ALL, 0)
		m := unix.IPv6Mreq{Multiaddr: a.As16(), Interface: of.iface}
		if err := unix.SetsockoptIPv6Mreq(u.fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, &m); err != nil {
			return fmt.Errorf("join on interface %d: %w", of.iface, err)
		}
		return nil
	}
	_ = unix.SetsockoptInt(u.fd, unix.IPPROTO_IP, unix.IP_MULTICAST_ALL, 0)
	m := unix.IPMreq{Multiaddr: a.As4(), Interface: of.local.Addr().As4()}
	if err := unix.SetsockoptIPMreq(u.fd, unix.IPPROTO_IP, unix.IP_ADD_MEMBERSHIP, &m); err != nil {
		return fmt.Errorf("join on the interface of %v: %w", of.local.Addr(), err)
	}
	return nil
}
