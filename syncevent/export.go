package syncevent

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/mem"
)

// The bytes of an export, in little-endian order:
//
//	0        4       6      8               16
//	┌────────┬───────┬──────┬───────────────┬──────────────┬───────┐
//	│ "GSEV" │version│rights│ offset of the │ export of    │ CRC-32│
//	│        │   1   │      │ value         │ its map      │       │
//	└────────┴───────┴──────┴───────────────┴──────────────┴───────┘
//
// The rights tell an honest importer what to refuse early. What it really can do
// is up to the memory, which the export of the map describes and protects. The
// checksum finds damage, not forgery.
const (
	exportMagic   = "GSEV"
	exportVersion = 1
	exportHead    = 16
	exportTail    = 4

	mayPublish = 1 << 0
)

// ExportSize is the size of what ExportPCI returns, in bytes.
const ExportSize = exportHead + mem.ExportSize + exportTail

// ExportPCI lets another process of the same user, on the other side of d's
// card or with the same device, use the event, and returns the ExportSize bytes
// that [Import] takes there. They hold a secret, and are good until the
// event stops, or, for a value in a buf, until the map of that stops. The other side can publish if RemotePCI is a publisher, else only
// get the value and wait for it.
//
// It is core.ErrInvalidValue for a nil device and for one that is not of the
// event, core.ErrBadState when the event is not started,
// core.ErrNotSupported when neither publisher nor subscriber is RemotePCI and
// for a value in memory that cannot be shared, and core.ErrNotPermitted for an
// imported event and for a buf of a map without mem.PCIReadWrite.
func (e *Event) ExportPCI(d *device.Device) ([]byte, error) {
	if err := e.exportable(d); err != nil {
		return nil, fmt.Errorf("export the event: %w", err)
	}
	m, off, rights := e.page, uint64(0), uint16(0)
	if e.buf != nil {
		m = e.buf.Map()
		base, _, _ := m.Range() // it is started
		off = uint64(e.buf.DataAddr() - base)
	}
	if e.publishers.has(RemotePCI) {
		rights |= mayPublish
	}
	inner, err := m.ExportPCI(d)
	if err != nil {
		return nil, fmt.Errorf("export the event: %w", err)
	}
	e.shared.Store(true)
	if e.role == asContext {
		e.tasks.Notify() // a wait that sleeps now must begin to look for itself
	}
	b := append(make([]byte, 0, ExportSize), exportMagic...)
	b = binary.LittleEndian.AppendUint16(b, exportVersion)
	b = binary.LittleEndian.AppendUint16(b, rights)
	b = binary.LittleEndian.AppendUint64(b, off)
	b = append(b, inner...)
	return binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(b)), nil
}

// exportable reports why the event cannot be exported through d.
func (e *Event) exportable(d *device.Device) error {
	switch {
	case e == nil || d == nil:
		return fmt.Errorf("nil event %v, nil device %v: %w", e == nil, d == nil, core.ErrInvalidValue)
	case e.imported:
		return fmt.Errorf("it is imported: %w", core.ErrNotPermitted)
	case !e.isOpen():
		return fmt.Errorf("it is not started: %w", core.ErrBadState)
	case !(e.publishers | e.subscribers).has(RemotePCI):
		return fmt.Errorf("no publisher and no subscriber is %v: %w", RemotePCI, core.ErrNotSupported)
	case e.addr != nil:
		return fmt.Errorf("its value is at an address of the caller, which cannot be shared; SetBuf takes memory that can: %w",
			core.ErrNotSupported)
	case !e.has(d):
		return fmt.Errorf("%s is no device of it: %w", d.Info().IBDev(), core.ErrInvalidValue)
	case e.buf != nil && e.publishers.has(RemotePCI) && e.buf.Map().Access()&mem.PCIReadWrite == 0:
		return fmt.Errorf("a remote publisher needs PCIReadWrite, the map of the buf has %v: %w",
			e.buf.Map().Access(), core.ErrNotPermitted)
	}
	return nil
}

// ExportNet would export the event to another machine, which is not supported:
// it is core.ErrNotSupported.
func (e *Event) ExportNet() ([]byte, error) {
	if e == nil {
		return nil, fmt.Errorf("export a nil event: %w", core.ErrInvalidValue)
	}
	return nil, fmt.Errorf("export the event to another machine: %w", core.ErrNotSupported)
}

// Import makes an idle event of one that another process exported with
// ExportPCI. It asks the owner, for some seconds at most. The event has its
// locations, and can be neither changed nor exported: start it, alone or as a
// context. Destroy it in the end; the owner may be gone before.
//
// It is core.ErrInvalidValue for a nil device and for bytes that are damaged or
// no export of an event, core.ErrNotSupported for those of another version and
// for a device or a system without imports, and else has the codes of
// mem.Import: above all core.ErrNotPermitted when the owner has stopped.
func Import(export []byte, d *device.Device) (*Event, error) {
	if d == nil {
		return nil, fmt.Errorf("import an event: the device is nil: %w", core.ErrInvalidValue)
	}
	if err := Supported(d.Info()); err != nil {
		return nil, fmt.Errorf("import an event: %w", err)
	}
	rights, off, inner, err := parseExport(export)
	if err != nil {
		return nil, fmt.Errorf("import an event from %d bytes: %w", len(export), err)
	}
	m, err := mem.Import(0, nil, inner, d)
	if err != nil {
		return nil, fmt.Errorf("import an event: %w", err)
	}
	e, err := importFrom(m, off)
	if err != nil {
		_ = m.Destroy()
		return nil, fmt.Errorf("import an event: %w", err)
	}
	e.readOnly = rights&mayPublish == 0 || m.Access()&mem.PCIReadWrite == 0
	return e, nil
}

// parseExport looks whether b is an export, and takes it apart.
func parseExport(b []byte) (rights uint16, off uint64, inner []byte, err error) {
	if len(b) < exportHead || string(b[:4]) != exportMagic {
		return 0, 0, nil, fmt.Errorf("they are no export of an event: %w", core.ErrInvalidValue)
	}
	if v := binary.LittleEndian.Uint16(b[4:]); v != exportVersion {
		return 0, 0, nil, fmt.Errorf("they are of version %d: %w", v, core.ErrNotSupported)
	}
	end := len(b) - exportTail
	if len(b) != ExportSize || crc32.ChecksumIEEE(b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return 0, 0, nil, fmt.Errorf("they are damaged: %w", core.ErrInvalidValue)
	}
	return binary.LittleEndian.Uint16(b[6:]), binary.LittleEndian.Uint64(b[8:]), b[exportHead:end], nil
}

// importFrom makes the event whose value is off bytes into m.
func importFrom(m *mem.Map, off uint64) (*Event, error) {
	words, ok := sys.Words(m.Bytes())
	if !ok || off%size != 0 || off/size >= uint64(len(words)) {
		return nil, fmt.Errorf("the value is %d bytes into %d: %w", off, len(m.Bytes()), core.ErrInvalidValue)
	}
	e, err := New()
	if err != nil {
		return nil, err
	}
	e.page, e.owner, e.imported = m, m, true
	e.value.word = &words[off/size]
	return e, nil
}

// lost reports whether the owner of the memory that the value is in is gone.
func (e *Event) lost() bool { return e.owner != nil && e.owner.Revoked() }
