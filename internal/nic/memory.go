package nic

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// The errors that set-up calls wrap.
var (
	ErrInvalid     = errors.New("invalid argument")
	ErrNoMemory    = errors.New("a limit is reached")
	ErrBusy        = errors.New("still in use")
	ErrClosed      = errors.New("closed")
	ErrUnsupported = errors.ErrUnsupported
)

// A PD is a protection domain: queue pairs reach only memory of their own.
type PD struct {
	d     *Device
	users atomic.Int32 // whatever Free has to wait for
}

// NewPD returns a protection domain.
func (d *Device) NewPD() *PD {
	d.pds.Add(1)
	return &PD{d: d}
}

// Hold keeps the domain busy until Release, for what only its owner knows of.
func (p *PD) Hold() { p.users.Add(1) }

// Release ends Hold.
func (p *PD) Release() { p.users.Add(-1) }

// Free gives the domain up. It is busy while it has regions or queue pairs, or
// is held.
func (p *PD) Free() error {
	if n := p.users.Load(); n != 0 {
		return fmt.Errorf("protection domain with %d users: %w", n, ErrBusy)
	}
	p.d.pds.Add(-1)
	return nil
}

// A region is what a key stands for. It never changes: to change a region is
// to put another into its place.
type region struct {
	mem    []byte
	base   uint64 // the address of mem[0]
	key    uint32 // index<<8 | generation
	access qp.Access
	dead   bool // invalidated: the key is kept from reuse and opens nothing
	pd     *PD
	mr     *MR
	window *MW // that has this place in the table
}

// span returns n bytes at addr, or false when they are not all inside.
func (r *region) span(addr uint64, n int) ([]byte, bool) {
	off, size := addr-r.base, uint64(len(r.mem))
	if off > size || uint64(n) > size-off {
		return nil, false
	}
	return r.mem[off : off+uint64(n) : off+uint64(n)], true
}

// An MR is a registered region of memory. Its methods may be called from any
// goroutine.
type MR struct {
	d  *Device
	mu sync.Mutex             // orders changes; lookups take no lock
	r  atomic.Pointer[region] // nil: deregistered

	windows int // bound to it; under the lock of the table of regions
}

// Register makes b known to the queue pairs of p. A peer reaches it only
// with the rights in access. Remote writes and atomics need the local one.
func (p *PD) Register(b []byte, access qp.Access) (*MR, error) {
	if err := checkRegion(b, access); err != nil {
		return nil, err
	}
	d := p.d
	gen := d.keys.generation.Add(1)
	m := &MR{d: d}
	r := d.keys.regions.add(d.limits.MR+int(d.mws.Load()), anyNumber, func(n uint32) *region {
		return &region{mem: b, base: baseOf(b, access), key: n<<8 | gen&0xff, access: access, pd: p, mr: m}
	})
	if r == nil {
		return nil, fmt.Errorf("register a region, %d exist: %w", d.limits.MR, ErrNoMemory)
	}
	m.r.Store(r)
	p.users.Add(1)
	return m, nil
}

// baseOf returns the address that the first byte of a region has.
func baseOf(b []byte, access qp.Access) uint64 {
	if access&ZeroBased != 0 {
		return 0
	}
	return uint64(sys.Addr(b))
}

func anyNumber(uint32) bool { return true }

func checkRegion(b []byte, access qp.Access) error {
	if len(b) == 0 {
		return fmt.Errorf("register no bytes: %w", ErrInvalid)
	}
	if access&(qp.RemoteWrite|qp.RemoteAtomic) != 0 && access&qp.LocalWrite == 0 {
		return fmt.Errorf("register for remote write or atomic without local write: %w", ErrInvalid)
	}
	if access&qp.RemoteFlushPersistent == 0 {
		return nil
	}
	switch durable, err := sys.Durable(b); {
	case err != nil:
		return fmt.Errorf("register for persistent flush: %w", err)
	case !durable:
		return fmt.Errorf("register for persistent flush memory that is not a shared mapping of a file: %w", ErrInvalid)
	}
	return nil
}

// Key returns the key of the region, for local and for remote use, or 0 after
// Deregister. Another one takes its place when the region is registered again.
func (m *MR) Key() uint32 {
	r := m.r.Load()
	if r == nil {
		return 0
	}
	return r.key
}

// Bytes returns the memory.
func (m *MR) Bytes() []byte {
	r := m.r.Load()
	if r == nil {
		return nil
	}
	return r.mem
}

// Addr returns the address of the first byte.
func (m *MR) Addr() uint64 {
	r := m.r.Load()
	if r == nil {
		return 0
	}
	return r.base
}

// A Change says what Reregister replaces. What is nil stays.
type Change struct {
	PD     *PD
	Mem    []byte
	Access *qp.Access
}

// Reregister changes the region. It gets a new generation of its key; the old
// one opens nothing any more, also where a peer has it. When it returns no
// packet refers to the old memory; busy means that some still do, and that
// the key is changed, or that a window is bound to the region, and nothing is.
func (m *MR) Reregister(c Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.r.Load()
	if old == nil {
		return fmt.Errorf("region: %w", ErrClosed)
	}
	next := *old
	next.dead = false
	if c.Access != nil {
		next.access = *c.Access
	}
	if c.Mem != nil {
		next.mem = c.Mem
	}
	if err := checkRegion(next.mem, next.access); err != nil {
		return err
	}
	next.base = baseOf(next.mem, next.access)
	if c.PD != nil {
		next.pd = c.PD
	}
	next.key = next.key&^0xff | (next.key+1)&0xff
	if err := m.replace(&next); err != nil {
		return err
	}
	next.pd.users.Add(1)
	old.pd.users.Add(-1)
	return m.d.settle()
}

// replace puts another region into the place of that of m, unless windows are
// bound to it.
func (m *MR) replace(next *region) error {
	t := &m.d.keys.regions
	t.mu.Lock()
	defer t.mu.Unlock()
	if m.windows > 0 {
		return fmt.Errorf("region with %d memory windows: %w", m.windows, ErrBusy)
	}
	s := *t.slots.Load()
	s[next.key>>8&uint32(len(s)-1)].Store(next)
	m.r.Store(next)
	return nil
}

// Deregister makes the key invalid and waits until no packet refers to the
// memory. Busy means that some peer is slow to take packets: the key is dead,
// but the memory must stay. Call it again then. While a window is bound to it,
// the region is busy too, and nothing has changed.
func (m *MR) Deregister() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.r.Load()
	if r == nil {
		return fmt.Errorf("region: %w", ErrClosed)
	}
	if !r.dead {
		tomb := *r
		tomb.dead = true
		if err := m.replace(&tomb); err != nil {
			return err
		}
	}
	if err := m.d.settle(); err != nil {
		return err
	}
	m.d.keys.regions.remove(r.key >> 8)
	r.pd.users.Add(-1)
	m.r.Store(nil)
	return nil
}

// keys are the memory keys of a device.
type keys struct {
	regions    table[region]
	generation atomic.Uint32
}

// A keyFault says why a key does not open what was asked for.
type keyFault uint8

const (
	keyGood keyFault = iota
	keyUnknown
	keyStale
	keyDomain
	keyRight
	keyRange
)

// open returns n bytes at addr of the region with that key.
func (k *keys) open(pd *PD, key uint32, addr uint64, n int, need qp.Access) ([]byte, keyFault) {
	r := k.regions.at(key >> 8)
	switch {
	case r == nil || r.key>>8 != key>>8:
		return nil, keyUnknown
	case r.key != key || r.dead:
		return nil, keyStale
	case r.pd != pd:
		return nil, keyDomain
	case r.access&need != need:
		return nil, keyRight
	}
	b, ok := r.span(addr, n)
	if !ok {
		return nil, keyRange
	}
	return b, keyGood
}

// openRemote is open for a request to q, which may come through a window.
func (k *keys) openRemote(q *QP, key uint32, addr uint64, n int, need qp.Access) ([]byte, keyFault) {
	b, fault := k.open(q.pd, key, addr, n, need)
	if fault == keyStale {
		if w := k.window(key); w != nil {
			return w.open(q, key, addr, n, need)
		}
	}
	return b, fault
}

// invalidate makes a key open nothing until its region is registered again, or
// its window bound again. A peer may do so only with regions that are open to
// peers. Nobody may with a region that a window is bound to.
func (k *keys) invalidate(q *QP, key uint32, byPeer bool) bool {
	t := &k.regions
	t.mu.Lock()
	defer t.mu.Unlock()
	s := *t.slots.Load()
	slot := &s[key>>8&uint32(len(s)-1)]
	r := slot.Load()
	switch {
	case r == nil || r.key>>8 != key>>8:
		return false
	case r.window != nil:
		return r.window.withdraw(q, key)
	case r.key != key || r.dead || r.pd != q.pd || r.mr.windows > 0 || byPeer && r.access&remoteRights == 0:
		return false
	}
	tomb := *r
	tomb.dead = true
	slot.Store(&tomb)
	return true
}
