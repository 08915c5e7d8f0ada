package mem

import (
	"fmt"
	"slices"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
)

// changeable reports why what cannot be done now: the map is nil, destroyed,
// started, or imported. The last two answer whenStarted.
func (m *Map) changeable(what string, whenStarted core.Status) error {
	switch {
	case m == nil:
		return fmt.Errorf("%s of a nil map: %w", what, core.ErrInvalidValue)
	case m.destroyed:
		return fmt.Errorf("%s: the map is destroyed: %w", what, core.ErrBadState)
	case m.imported != nil:
		return fmt.Errorf("%s: the map is imported: %w", what, whenStarted)
	case m.Started():
		return fmt.Errorf("%s: the map is started: %w", what, whenStarted)
	}
	return nil
}

// AddDevice lets d use the map, and holds d until RemoveDevice or Destroy.
//
// It is ErrNotPermitted while the map is started, ErrInvalidValue for a nil
// device, ErrAlreadyExists for one that was added, ErrNoMemory above
// MaxDevices, and ErrBadState for a closed one.
func (m *Map) AddDevice(d *device.Device) error {
	if err := m.changeable("add device", core.ErrNotPermitted); err != nil {
		return err
	}
	switch {
	case d == nil:
		return fmt.Errorf("add device: it is nil: %w", core.ErrInvalidValue)
	case m.HasDevice(d):
		return fmt.Errorf("add device: the map has it: %w", core.ErrAlreadyExists)
	case len(m.devs) == m.maxDevs:
		return fmt.Errorf("add device: the map has %d, the limit is %d: %w", len(m.devs), m.maxDevs, core.ErrNoMemory)
	}
	if err := d.Hold(); err != nil {
		return fmt.Errorf("add device: %w", err)
	}
	m.devs = append(m.devs, d)
	return nil
}

// RemoveDevice undoes AddDevice. It is ErrNotPermitted while the map is
// started, ErrInvalidValue for a nil device, and ErrNotFound for one that the
// map does not have.
func (m *Map) RemoveDevice(d *device.Device) error {
	if err := m.changeable("remove device", core.ErrNotPermitted); err != nil {
		return err
	}
	if d == nil {
		return fmt.Errorf("remove device: it is nil: %w", core.ErrInvalidValue)
	}
	i := slices.Index(m.devs, d)
	if i < 0 {
		return fmt.Errorf("remove device: the map does not have it: %w", core.ErrNotFound)
	}
	m.devs = slices.Delete(m.devs, i, i+1)
	d.Drop()
	return nil
}

// HasDevice reports whether d was added. It looks through the few devices of
// the map and allocates nothing: tasks ask it each time.
func (m *Map) HasDevice(d *device.Device) bool {
	for _, have := range m.devs {
		if have == d {
			return true
		}
	}
	return false
}

// SetMaxDevices sets how many devices the map takes, at least one. It is
// ErrNotPermitted once the map was started, and ErrInvalidValue below 1 or
// below the number of devices that the map has.
func (m *Map) SetMaxDevices(n int) error {
	if err := m.changeable("set max devices", core.ErrNotPermitted); err != nil {
		return err
	}
	switch {
	case m.wasStarted:
		return fmt.Errorf("set max devices: the map was started before: %w", core.ErrNotPermitted)
	case n < 1:
		return fmt.Errorf("set max devices: %d is below 1: %w", n, core.ErrInvalidValue)
	case n < len(m.devs):
		return fmt.Errorf("set max devices: %d, but the map has %d: %w", n, len(m.devs), core.ErrInvalidValue)
	}
	m.maxDevs = n
	return nil
}

// MaxDevices returns how many devices the map takes.
func (m *Map) MaxDevices() int { return m.maxDevs }

// SetAccess sets the rights, LocalReadWrite if never called. It is
// ErrBadState while the map is started, ErrInvalidValue for unknown bits and
// for PCIReadOnly together with PCIReadWrite, and ErrNotPermitted for a right
// to write memory that is mapped read-only.
func (m *Map) SetAccess(a Access) error {
	if err := m.changeable("set access", core.ErrBadState); err != nil {
		return err
	}
	if err := a.check(); err != nil {
		return fmt.Errorf("set access: %w", err)
	}
	if m.readOnly && a&anyWrite != 0 {
		return fmt.Errorf("set access %s: the memory is mapped read-only: %w", a, core.ErrNotPermitted)
	}
	m.access, m.accessSet = a, true
	return nil
}

// Access returns the rights.
func (m *Map) Access() Access { return m.access }

// SetFreeCallback sets what Destroy calls, with the whole range and opaque. It
// is called only if the map was started after the last SetFreeCallback: before
// that nobody else has seen the memory.
//
// It is ErrInvalidValue for nil, and ErrBadState while the map is started.
func (m *Map) SetFreeCallback(f FreeFunc, opaque any) error {
	if err := m.changeable("set free callback", core.ErrBadState); err != nil {
		return err
	}
	if f == nil {
		return fmt.Errorf("set free callback: it is nil: %w", core.ErrInvalidValue)
	}
	m.free, m.freeOpaque, m.freeArmed = f, opaque, false
	return nil
}

// SetUserData keeps a word and a value for the application. It is ErrBadState
// while the map is started.
func (m *Map) SetUserData(word uint64, v any) error {
	if err := m.changeable("set user data", core.ErrBadState); err != nil {
		return err
	}
	m.userWord, m.userAny = word, v
	return nil
}

// UserData returns what SetUserData kept.
func (m *Map) UserData() (word uint64, v any) { return m.userWord, m.userAny }

// EnableThreadSafety lets several goroutines take, lend and return bufs of the
// map at the same time, each from its own inventory. There is no way back.
//
// The price: bufs are no longer counted, so Bufs is 0, and Stop and Destroy
// are held back only by bufs that are lent. They must not be called beside a
// goroutine that is taking a buf.
//
// It is ErrNotPermitted while the map is started.
func (m *Map) EnableThreadSafety() error {
	if err := m.changeable("enable thread safety", core.ErrNotPermitted); err != nil {
		return err
	}
	m.safe = true
	return nil
}
