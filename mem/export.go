package mem

import (
	"bytes"
	"fmt"
	"runtime"
	"slices"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
)

// ExportPCISupported returns nil when maps can be exported for the device, else
// an error with core.ErrNotSupported: exports exist on Linux only.
func ExportPCISupported(i *device.Info) error { return pciSupported("export", i) }

// ImportPCISupported returns nil when exports can be imported for the device,
// else an error with core.ErrNotSupported.
func ImportPCISupported(i *device.Info) error { return pciSupported("import", i) }

func pciSupported(what string, i *device.Info) error {
	switch {
	case i == nil:
		return fmt.Errorf("%s a map: the device is nil: %w", what, core.ErrInvalidValue)
	case !i.Supports(device.FeatureDMA):
		return fmt.Errorf("%s a map: %s does not copy memory: %w", what, i.IBDev(), core.ErrNotSupported)
	case runtime.GOOS != "linux":
		return fmt.Errorf("%s a map on %s: %w", what, runtime.GOOS, core.ErrNotSupported)
	}
	return nil
}

// ExportPCI lets another process of the same user work on the memory, on the
// other side of d's card or with the same device, and returns the bytes that
// [Import] takes there. They hold a secret: who has them has the rights PCIReadOnly
// or PCIReadWrite of the map until Stop or Destroy. They may be asked for again,
// and imported many times. The slice is the caller's.
//
// The process of the owner must stay: when it ends, so do the exports. It has
// one socket for all exports, and a goroutine for each import.
//
// It is ErrInvalidValue for a nil device, ErrNotFound for one that the map does
// not have, ErrNotSupported for memory that was not made by Allocate with
// Shareable, and ErrNotPermitted when the map is not started, has no PCI right,
// was imported, or was shared before with the other PCI right.
func (m *Map) ExportPCI(d *device.Device) ([]byte, error) {
	switch {
	case m == nil || d == nil:
		return nil, fmt.Errorf("export map: nil map %v, nil device %v: %w", m == nil, d == nil, core.ErrInvalidValue)
	case m.imported == nil && !m.destroyed && !m.HasDevice(d):
		return nil, fmt.Errorf("export map: it does not have the device: %w", core.ErrNotFound)
	}
	if err := m.share("export map"); err != nil {
		return nil, err
	}
	if err := ExportPCISupported(d.Info()); err != nil {
		return nil, err
	}
	card := cardOf(d)
	for _, e := range m.exports {
		if e.blob.card == card {
			return bytes.Clone(e.bytes), nil
		}
	}
	e := &export{fd: m.pages.FD(), blob: blob{access: m.access & anyPCI, base: m.base, n: len(m.mem), card: card}}
	if err := exported.add(e); err != nil {
		return nil, fmt.Errorf("export map: %w: %w", memoryStatus(err), err)
	}
	m.exports = append(m.exports, e)
	return bytes.Clone(e.bytes), nil
}

// anyPCI are the rights of which an export has one.
const anyPCI = PCIReadOnly | PCIReadWrite

// Exported reports whether there are exports of the map.
func (m *Map) Exported() bool { return len(m.exports) > 0 }

// Descriptor gives a library what it needs to share the memory with another
// process over a connection of its own: the descriptor, which stays with the
// map and must not be closed, and the address and the number of the bytes that
// it starts with. The receiver can do what the PCI right of the map says, and
// nothing ends that: unlike an export it outlives Stop. It allocates nothing
// when it succeeds.
//
// The errors are those of ExportPCI; a destroyed map is ErrBadState.
func (m *Map) Descriptor() (fd int, base Addr, n int, err error) {
	if m == nil {
		return -1, 0, 0, fmt.Errorf("share a nil map: %w", core.ErrInvalidValue)
	}
	if err := m.share("share map"); err != nil {
		return -1, 0, 0, err
	}
	return m.pages.FD(), m.base, len(m.mem), nil
}

// A share state says how the memory was sealed. It never changes back.
type sealed uint8

const (
	unsealed sealed = iota
	sealedForReading
	sealedForWriting
)

// share makes the memory ready to leave the process: what others can do with it
// is fixed for good.
func (m *Map) share(what string) error {
	want := sealedForReading
	if m.access&PCIReadWrite != 0 {
		want = sealedForWriting
	}
	switch {
	case m.imported != nil:
		return fmt.Errorf("%s: it is imported, and only its owner can do that: %w", what, core.ErrNotPermitted)
	case m.destroyed:
		return fmt.Errorf("%s: it is destroyed: %w", what, core.ErrBadState)
	case !m.Started():
		return fmt.Errorf("%s: it is not started: %w", what, core.ErrNotPermitted)
	case m.access&anyPCI == 0:
		return fmt.Errorf("%s: its access %s has neither PCIReadOnly nor PCIReadWrite: %w", what, m.access, core.ErrNotPermitted)
	case !m.shareable():
		return fmt.Errorf("%s: memory that was not taken by Allocate with Shareable cannot be shared: %w", what, core.ErrNotSupported)
	case m.sealed == want:
		return nil
	case m.sealed != unsealed:
		return fmt.Errorf("%s with access %s: it was shared with another PCI right, which is final: %w", what, m.access, core.ErrNotPermitted)
	}
	if err := m.pages.Seal(want == sealedForReading); err != nil {
		return fmt.Errorf("%s: %w: %w", what, memoryStatus(err), err)
	}
	m.sealed = want
	return nil
}

// shareable reports whether another process could map the memory.
func (m *Map) shareable() bool { return m.pages != nil && m.pages.FD() >= 0 }

// withdraw ends the exports, and with them every map that was imported.
func (m *Map) withdraw() {
	for _, e := range slices.Backward(m.exports) {
		exported.remove(e)
	}
	m.exports = nil
}

// cardOf returns what the two sides of a card have in common: the address of
// the function that the host sees. A device that has no other side is its own.
func cardOf(d *device.Device) device.Address {
	if d.Info().OnDPU() {
		if reps, err := d.Representors(device.FilterNet); err == nil && len(reps) == 1 {
			return reps[0].PCI()
		}
	}
	return d.Info().PCI()
}
