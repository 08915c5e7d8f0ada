package link

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/gantry-rdma/gantry/internal/frame"
)

// A membership are the multicast groups that one end of a pair is in.
type membership struct {
	mu     sync.Mutex
	joined atomic.Pointer[[][16]byte] // replaced, under mu
	copies atomic.Pointer[kept]       // for frames that go to both ends; made with the first group
}

func (m *membership) has(group [16]byte) bool {
	all := m.joined.Load()
	return all != nil && slices.Contains(*all, group)
}

// change replaces the list by what edit makes of a copy of it.
func (m *membership) change(edit func([][16]byte) [][16]byte) {
	var all [][16]byte
	if old := m.joined.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = edit(all)
	m.joined.Store(&all)
}

// provide makes the copies.
func (m *membership) provide() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.copies.Load() == nil {
		k := new(kept)
		k.init(nil, false)
		m.copies.Store(k)
	}
}

// SeeHeaders does nothing: frames have what their sender asked for.
func (m *Memory) SeeHeaders() {}

// Join lets frames to a multicast group come in.
func (m *Memory) Join(group netip.Addr) error {
	if err := checkGroup(group, m.local.AddrPort().Addr()); err != nil {
		return err
	}
	m.group.provide()
	m.peer.group.provide()
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	m.group.change(func(all [][16]byte) [][16]byte { return append(all, group.As16()) })
	return nil
}

// Leave ends Join.
func (m *Memory) Leave(group netip.Addr) error {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	if !m.group.has(group.As16()) {
		return fmt.Errorf("leave %v, which was not joined: %w", group, syscall.EINVAL)
	}
	m.group.change(func(all [][16]byte) [][16]byte {
		i := slices.Index(all, group.As16())
		return slices.Delete(all, i, i+1)
	})
	return nil
}

// groupRun is how many frames to a group are sent at once.
const groupRun = 16

// sendGroup sends frames to the ends that are in the group they are for. The
// frames themselves go to the other end if it is, and copies to this one.
func (m *Memory) sendGroup(run []*frame.Frame) (taken int) {
	for group := run[0].Peer; taken < len(run); {
		some := run[taken:min(taken+groupRun, len(run))]
		n := m.sendSome(some, group)
		if taken += n; n < len(some) {
			break
		}
	}
	return taken
}

func (m *Memory) sendSome(run []*frame.Frame, group frame.Addr) (taken int) {
	far, near := m.peer.group.has(group.IP), m.group.has(group.IP)
	switch {
	case far && near:
		return m.sendBoth(run, group)
	case far:
		return m.sendTo(m.peer, &m.peer.in[0], run, &group)
	case near:
		return m.sendTo(m, &m.in[1], run, &group)
	}
	m.sent.drop(run)
	return len(run)
}

// sendBoth copies first: once the other end has a frame it is too late. What
// there is no room for at this end is lost, as on any network.
func (m *Memory) sendBoth(run []*frame.Frame, group frame.Addr) (taken int) {
	var copies [groupRun]*frame.Frame
	n := 0
	for _, f := range run {
		if c, ok := m.group.copies.Load().free.Pop(); ok {
			c.fill(f)
			copies[n] = &c.Frame
			n++
		}
	}
	taken = m.sendTo(m.peer, &m.peer.in[0], run, &group)
	came := m.sendTo(m, &m.in[1], copies[:min(n, taken)], &group)
	for _, c := range copies[came:n] {
		c.Owner.FrameBack(c)
	}
	return taken
}
