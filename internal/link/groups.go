package link

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// A source is a socket to receive from: that of the link, or that of a group.
// The ICRC covers the address that a packet was sent to, so each has its own
// flows.
type source struct {
	sock  *sys.UDP
	local frame.Addr
	flows flows
}

func (s *source) init(sock *sys.UDP, local netip.AddrPort) {
	s.sock, s.local = sock, frame.AddrOf(local)
	s.flows.local, s.flows.incoming = local, true
}

// groups are the multicast groups of a link.
type groups struct {
	options sys.UDPOptions // of their sockets
	joined  []*source
}

// receive asks the kernel for up to n messages of one source, and says whether
// there may be more. Where there are groups, each source has its turn.
func (u *UDP) receive(n int) (count int, more bool) {
	r := &u.recv
	if len(u.groups.joined) == 0 {
		r.from = &r.own
		count, _ = r.batch.Recv(u.sock, n) // an error of a packet is like no packet
		return count, count == n
	}
	for range len(u.groups.joined) + 1 {
		r.from = &r.own
		if i := r.turn % (len(u.groups.joined) + 1); i > 0 {
			r.from = u.groups.joined[i-1]
		}
		r.turn++
		if count, _ = r.batch.Recv(r.from.sock, n); count > 0 {
			return count, true
		}
	}
	return 0, false
}

// SeeHeaders lets received frames have TOS and TTL.
func (u *UDP) SeeHeaders() {
	u.recv.mu.Lock()
	defer u.recv.mu.Unlock()
	if !u.closed.Load() {
		u.sock.ShowHeaders()
	}
}

// Join lets frames to a multicast group come in, on the interface that has the
// address of the link. The error wraps a syscall.Errno.
func (u *UDP) Join(group netip.Addr) error {
	local := u.local.AddrPort()
	if err := checkGroup(group, local.Addr()); err != nil {
		return err
	}
	u.recv.mu.Lock()
	defer u.recv.mu.Unlock()
	if u.closed.Load() {
		return fmt.Errorf("join %v: link is closed: %w", group, syscall.EBADF)
	}
	to := netip.AddrPortFrom(group.Unmap(), local.Port())
	sock, err := u.sock.Join(to, u.groups.options)
	if err != nil {
		return fmt.Errorf("multicast group %v at %v: %w", group, local.Addr(), err)
	}
	s := new(source)
	s.init(sock, to)
	u.groups.joined = append(u.groups.joined, s)
	return nil
}

// checkGroup reports what is wrong with a group for a link with that address.
func checkGroup(group, local netip.Addr) error {
	switch g := group.Unmap(); {
	case !g.IsMulticast():
		return fmt.Errorf("%v is no multicast group: %w", group, syscall.EINVAL)
	case g.Is4() != local.Is4():
		return fmt.Errorf("multicast group %v at %v: not of one address family: %w", group, local, syscall.EINVAL)
	}
	return nil
}

// Leave ends Join. Frames that are received stay valid.
func (u *UDP) Leave(group netip.Addr) error {
	u.recv.mu.Lock()
	defer u.recv.mu.Unlock()
	g := &u.groups
	i := slices.IndexFunc(g.joined, func(s *source) bool { return s.local.AddrPort().Addr() == group.Unmap() })
	if i < 0 {
		return fmt.Errorf("leave %v, which was not joined: %w", group, syscall.EINVAL)
	}
	s := g.joined[i]
	g.joined = slices.Delete(g.joined, i, i+1)
	return s.sock.Close()
}

func (g *groups) close() (err error) {
	for _, s := range g.joined {
		err = errors.Join(err, s.sock.Close())
	}
	g.joined = nil
	return err
}
