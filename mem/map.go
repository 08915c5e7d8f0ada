package mem

import (
	"fmt"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// DefaultMaxDevices is how many devices a map takes unless SetMaxDevices says
// otherwise.
const DefaultMaxDevices = 16

// alignment in bytes, below which hardware warns: a cache line.
const alignment = 64

// A Map is a range of memory that devices may work on.
//
// It is made stopped: give it memory (one of SetRange, Allocate, MapFile) and
// devices, then Start it. Only a started map gives bufs. After Stop it can be
// changed, except for its memory, and started again. Destroy ends it; every
// later call that can fail is ErrBadState.
//
// A nil Map is ErrInvalidValue. A Map belongs to one goroutine, unless
// EnableThreadSafety was called; Bytes, Range, HasDevice and the other
// questions may be asked from anywhere while it is started.
type Map struct {
	// state holds the bit started and, in a thread-safe map, how many loans
	// of bufs are out. They share a word so that no loan can slip in while
	// the map is being stopped.
	state atomic.Int64

	base     Addr   // the first byte, as the owner of the memory counts
	mem      []byte // the same bytes, where this process has them
	devs     []*device.Device
	access   Access
	faulting bool
	foreign  bool // imported: it can be revoked at any moment
	safe     bool // thread-safe: bufs are not counted
	bufs     int  // live bufs, unless safe

	// Only set-up looks at the rest.
	pages      *sys.Pages // memory to give back, if it is ours
	readOnly   bool       // nobody can write, whatever the access
	accessSet  bool
	maxDevs    int
	wasStarted bool
	destroyed  bool
	free       FreeFunc
	freeOpaque any
	freeArmed  bool // the map was started since free was set
	userWord   uint64
	userAny    any
	sealed     sealed
	exports    []*export // until Stop
	imported   *imported // nil unless it is
}

// started is the bit of Map.state; the bits below it count loans.
const started = 1 << 62

// A FreeFunc is told at Destroy that b, the whole range of a map, is no longer
// used, so that the owner can free or re-use it. Memory that the map owns goes
// away when the function returns.
type FreeFunc func(b []byte, opaque any)

// NewMap makes a stopped map without memory and devices.
func NewMap() (*Map, error) {
	return &Map{access: LocalReadWrite, maxDevs: DefaultMaxDevices}, nil
}

// Start makes the map usable. A map without memory is ErrInvalidValue, and one
// that is started already is ErrNotPermitted. Devices are not needed to start,
// but a task accepts only memory that its device was added to.
func (m *Map) Start() error {
	switch {
	case m == nil:
		return fmt.Errorf("start a nil map: %w", core.ErrInvalidValue)
	case m.destroyed:
		return fmt.Errorf("start a destroyed map: %w", core.ErrBadState)
	case m.imported != nil:
		return fmt.Errorf("start map: it is imported, which is started for good: %w", core.ErrNotPermitted)
	case m.Started():
		return fmt.Errorf("start map: it is started: %w", core.ErrNotPermitted)
	case m.mem == nil:
		return fmt.Errorf("start map: it has no memory range: %w", core.ErrInvalidValue)
	}
	m.wasStarted = true
	m.freeArmed = m.free != nil
	if m.shareable() && m.access&PCIReadWrite != 0 {
		// Who can write shared memory can also punch holes into it.
		m.faulting = true
	}
	m.state.Add(started)
	return nil
}

// Stop makes the map changeable again, and ends its exports. It is
// ErrNotPermitted while bufs of the map are alive; in a thread-safe map, while
// any is lent. Stopping a stopped map succeeds. An imported map, which cannot
// be started again, is ErrNotPermitted.
func (m *Map) Stop() error {
	switch {
	case m == nil:
		return fmt.Errorf("stop a nil map: %w", core.ErrInvalidValue)
	case m.destroyed:
		return fmt.Errorf("stop a destroyed map: %w", core.ErrBadState)
	case m.imported != nil:
		return fmt.Errorf("stop map: it is imported: %w", core.ErrNotPermitted)
	case !m.Started():
		return nil
	case m.bufs > 0:
		return fmt.Errorf("stop map: %d bufs are alive: %w", m.bufs, core.ErrNotPermitted)
	case !m.state.CompareAndSwap(started, 0):
		return fmt.Errorf("stop map: bufs are lent to tasks in flight: %w", core.ErrNotPermitted)
	}
	m.withdraw()
	return nil
}

// Destroy stops the map if need be, tells the free callback, lets go of the
// devices and frees the memory that the map owns, or has mapped. It fails as
// Stop does, and then changes nothing. An imported map leaves its owner; it is
// ErrNotPermitted while bufs of it are alive, revoked or not.
//
// A thread-safe map can be destroyed while bufs that are not lent are alive.
// They can still be returned, but their memory must not be touched: if the map
// owned it, it is gone.
func (m *Map) Destroy() error {
	if m != nil && m.imported != nil && !m.destroyed {
		if m.bufs > 0 {
			return fmt.Errorf("destroy map: %d bufs are alive: %w", m.bufs, core.ErrNotPermitted)
		}
		m.imported.end()
	} else if err := m.Stop(); err != nil {
		return err
	}
	m.destroyed = true
	if m.freeArmed {
		m.free(m.mem, m.freeOpaque)
	}
	for _, d := range m.devs {
		d.Drop()
	}
	m.devs, m.free, m.freeOpaque = nil, nil, nil
	pages := m.pages
	m.mem, m.pages = nil, nil
	if pages == nil {
		return nil
	}
	if err := pages.Free(); err != nil {
		return fmt.Errorf("destroy map: %w: %w", core.ErrOperatingSystem, err)
	}
	return nil
}

// Started reports whether the map is started: whether its memory may be used.
func (m *Map) Started() bool { return m.state.Load()&started != 0 }

// lend counts a loan of a buf of a thread-safe map. False means that the map
// is stopped, and that nothing was lent.
func (m *Map) lend() bool {
	if m.state.Add(1)&started == 0 {
		m.state.Add(-1)
		return false
	}
	return true
}

// giveBack ends a loan.
func (m *Map) giveBack() { m.state.Add(-1) }
