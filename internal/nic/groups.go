package nic

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/roce"
)

// groupQPN is the queue pair that datagrams to a multicast group name.
const groupQPN = numbers - 1

// A group is a multicast group, and the queue pairs that are attached to it. It
// never changes.
type group struct {
	ip      [16]byte
	members []*QP
}

// groups are those of a device. The receive path looks without a lock.
type groups struct {
	mu  sync.Mutex // orders changes
	all atomic.Pointer[[]group]

	refs references
}

func (g *groups) find(ip [16]byte) *group {
	all := g.all.Load()
	if all == nil {
		return nil
	}
	for i := range *all {
		if (*all)[i].ip == ip {
			return &(*all)[i]
		}
	}
	return nil
}

// replace puts the members of a group into the place of those before; none end
// it. The caller holds mu.
func (g *groups) replace(ip [16]byte, members []*QP) {
	var all []group
	if old := g.all.Load(); old != nil {
		all = slices.DeleteFunc(slices.Clone(*old), func(o group) bool { return o.ip == ip })
	}
	if len(members) > 0 {
		all = append(all, group{ip: ip, members: members})
	}
	g.all.Store(&all)
}

// Attach lets the queue pair, which is of UD, get what is sent to a multicast
// group. To attach it twice is to attach it once.
func (q *QP) Attach(ip netip.Addr) error {
	if q.transport != roce.UD || q.num == management {
		return fmt.Errorf("attach a queue pair that is not of UD: %w", ErrInvalid)
	}
	if err := q.Lock(); err != nil {
		return err
	}
	defer q.Unlock()
	g := &q.d.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.find(ip.As16())
	if old == nil {
		if err := q.d.link.Join(ip); err != nil {
			return err
		}
		g.replace(ip.As16(), []*QP{q})
	} else if !slices.Contains(old.members, q) {
		g.refs.provide(g.members() + 1)
		g.replace(old.ip, append(slices.Clone(old.members), q))
	}
	return nil
}

// members returns how many there are in all groups.
func (g *groups) members() (n int) {
	for _, o := range *g.all.Load() {
		n += len(o.members)
	}
	return n
}

// Detach ends Attach.
func (q *QP) Detach(ip netip.Addr) error {
	g := &q.d.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.find(ip.As16())
	if old == nil || !slices.Contains(old.members, q) {
		return fmt.Errorf("queue pair is not attached to %v: %w", ip, ErrInvalid)
	}
	return q.d.detach(old, q)
}

// detach takes q from a group. The caller holds the lock of the groups.
func (d *Device) detach(old *group, q *QP) error {
	left := slices.DeleteFunc(slices.Clone(old.members), func(o *QP) bool { return o == q })
	d.groups.replace(old.ip, left)
	if len(left) > 0 {
		return nil
	}
	return d.link.Leave(netip.AddrFrom16(old.ip).Unmap())
}

// attached reports whether the queue pair is attached to any group.
func (q *QP) attached() bool {
	g := &q.d.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	all := g.all.Load()
	return all != nil && slices.ContainsFunc(*all, func(o group) bool { return slices.Contains(o.members, q) })
}

// disband detaches all queue pairs. The link is closed.
func (g *groups) disband() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all.Store(new([]group))
}
