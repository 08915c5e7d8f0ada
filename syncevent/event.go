package syncevent

import (
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/mem"
)

// An Event is a 64-bit value that publishers change and subscribers wait for.
//
// It is made idle: say who publishes and who subscribes, then start it, either
// by Start, for calls alone, or as a context, for calls and tasks. All that
// changes an idle event, and Start, Stop, AsContext, ExportPCI and Destroy
// belong to one goroutine; the tasks belong to the goroutine of the engine. Get,
// Set, Add and the waits may be called from any goroutine at any time, also
// while another stops the event: then they are core.ErrBadState.
//
// A nil Event is core.ErrInvalidValue.
type Event struct {
	gate
	value    cell
	owner    *mem.Map    // an imported map that the value is in, or nil
	readOnly bool        // imported without the right to publish
	shared   atomic.Bool // others can write the word behind our back
	waiting  atomic.Bool // tasks are: see published
	tasks    tasks

	// Only set-up looks at the rest.
	publishers, subscribers location
	devices                 []*device.Device
	own                     atomic.Uint64  // the value, unless it is elsewhere
	addr                    *atomic.Uint64 // of SetAddr
	buf                     *mem.Buf       // of SetBuf, lent to the event
	page                    *mem.Map       // memory of the event that can be exported, or was imported
	imported                bool
	role                    role
	destroyed               bool
}

// A role is what an event was started as, or turned into.
type role uint8

const (
	undecided role = iota
	standAlone
	asContext
)

// A Location is where a publisher or a subscriber of an event works.
type Location uint8

// The locations.
const (
	CPU       Location = 0 // this process
	RemotePCI Location = 1 // another process, on the other side of the bus
	RemoteNet Location = 2 // another machine, a publisher only; not supported
	DPA       Location = 3 // a data-path accelerator; not supported
	GPU       Location = 4 // a graphics processor; not supported
)

// String returns the name of the location.
func (l Location) String() string {
	switch l {
	case CPU:
		return "cpu"
	case RemotePCI:
		return "remote PCI"
	case RemoteNet:
		return "remote net"
	case DPA:
		return "DPA"
	case GPU:
		return "GPU"
	}
	return "location " + strconv.Itoa(int(l))
}

// A location is a set of the supported Locations.
type location uint8

func (s location) has(l Location) bool { return s&(1<<l) != 0 }

// New makes an idle event with the value 0. Destroy it in the end.
func New() (*Event, error) {
	e := &Event{}
	e.value.word = &e.own
	e.tasks.init(e)
	return e, nil
}

// AddPublisher says that the value is changed from l, and AddSubscriber that
// it is read and waited for there. An event needs one of each; it can have
// several. CPU needs the device that works here, which stays open until
// Destroy; RemotePCI takes one through which the event will be exported, or nil
// for one that a CPU location has.
//
// It is core.ErrInvalidValue without a device that is needed,
// core.ErrNotSupported for a location or a device that cannot do this,
// core.ErrAlreadyExists for the same twice, core.ErrNotPermitted for an imported
// event, and core.ErrBadState when the event is not idle or the device is
// closed.
func (e *Event) AddPublisher(l Location, d *device.Device) error {
	if err := e.changeable("add a publisher"); err != nil {
		return err
	}
	return e.add(&e.publishers, "publisher", l, d)
}

// AddSubscriber adds a location that reads the value and waits for it, with
// the codes of AddPublisher.
func (e *Event) AddSubscriber(l Location, d *device.Device) error {
	if err := e.changeable("add a subscriber"); err != nil {
		return err
	}
	return e.add(&e.subscribers, "subscriber", l, d)
}

func (e *Event) add(to *location, what string, l Location, d *device.Device) error {
	switch {
	case l > GPU:
		return fmt.Errorf("add a %s: %v is unknown: %w", what, l, core.ErrInvalidValue)
	case l > RemotePCI:
		return fmt.Errorf("add a %s: %v is no location here: %w", what, l, core.ErrNotSupported)
	case l == CPU && d == nil:
		return fmt.Errorf("add a %s: %v needs a device: %w", what, l, core.ErrInvalidValue)
	case to.has(l) && (d == nil || e.has(d)):
		return fmt.Errorf("add a %s: %v is one already: %w", what, l, core.ErrAlreadyExists)
	}
	if d != nil {
		if err := e.hold(d); err != nil {
			return fmt.Errorf("add a %s: %w", what, err)
		}
	}
	*to |= 1 << l
	return nil
}

// hold keeps d open for the event.
func (e *Event) hold(d *device.Device) error {
	if err := Supported(d.Info()); err != nil {
		return err
	}
	if e.has(d) {
		return nil
	}
	if err := d.Hold(); err != nil {
		return err
	}
	e.devices = append(e.devices, d)
	return nil
}

func (e *Event) has(d *device.Device) bool {
	for _, have := range e.devices {
		if have == d {
			return true
		}
	}
	return false
}

// SetAddr keeps the value at v, which stays the caller's and may be shared
// with other events. Such an event cannot be exported. It is
// core.ErrInvalidValue for nil, core.ErrNotPermitted for an imported event, and
// core.ErrBadState when the event is not idle.
func (e *Event) SetAddr(v *atomic.Uint64) error {
	if err := e.changeable("set the address"); err != nil {
		return err
	}
	if v == nil {
		return fmt.Errorf("set the address: it is nil: %w", core.ErrInvalidValue)
	}
	e.place(v, v, nil)
	return nil
}

// SetBuf keeps the value in the data of b: 8 bytes, aligned to 8, in memory
// that local devices may write, or in an imported map with mem.PCIReadWrite; no
// list. Several events can share it. The event has a loan of b until Destroy, or
// until the value is set to be elsewhere. To export such an event its map needs
// a PCI right (mem.PCIReadWrite if RemotePCI is a publisher), and is exported
// whole.
//
// It is core.ErrInvalidValue for nil, a list, and data that is not aligned,
// core.ErrNotPermitted for an imported event, for data of another length and
// without the right to write, and core.ErrBadState when the event is not idle.
func (e *Event) SetBuf(b *mem.Buf) error {
	if err := e.changeable("set the buf"); err != nil {
		return err
	}
	word, err := wordOf(b)
	if err != nil {
		return fmt.Errorf("set the buf: %w", err)
	}
	if err := b.Lend(); err != nil {
		return fmt.Errorf("set the buf: %w", err)
	}
	e.place(word, nil, b)
	return nil
}

// wordOf returns the data of b as a value.
func wordOf(b *mem.Buf) (*atomic.Uint64, error) {
	switch {
	case b == nil:
		return nil, fmt.Errorf("it is nil: %w", core.ErrInvalidValue)
	case b.Refs() == 0:
		return nil, fmt.Errorf("it went back to its inventory: %w", core.ErrBadState)
	case b.InList():
		return nil, fmt.Errorf("it is part of a list: %w", core.ErrInvalidValue)
	case b.DataLen() != size:
		return nil, fmt.Errorf("%d bytes of data, %d needed: %w", b.DataLen(), size, core.ErrNotPermitted)
	case b.Map().Access()&writes(b.Map()) == 0:
		return nil, fmt.Errorf("the access is %v: %w", b.Map().Access(), core.ErrNotPermitted)
	}
	words, ok := sys.Words(b.Data())
	if !ok {
		return nil, fmt.Errorf("address %#x is not a multiple of %d: %w", b.DataAddr(), size, core.ErrInvalidValue)
	}
	return &words[0], nil
}

// writes is the right to write m that this process needs.
func writes(m *mem.Map) mem.Access {
	if m.Imported() {
		return mem.PCIReadWrite
	}
	return mem.LocalReadWrite
}

// size is how many bytes a value has.
const size = 8

// place moves the value to word.
func (e *Event) place(word, addr *atomic.Uint64, b *mem.Buf) {
	if e.buf != nil {
		e.buf.Return()
	}
	e.value.word, e.addr, e.buf = word, addr, b
}

// changeable reports why what cannot be done now.
func (e *Event) changeable(what string) error {
	switch {
	case e == nil:
		return fmt.Errorf("%s of a nil event: %w", what, core.ErrInvalidValue)
	case e.destroyed:
		return fmt.Errorf("%s: the event is destroyed: %w", what, core.ErrBadState)
	case !e.idle():
		return fmt.Errorf("%s: the event is started: %w", what, core.ErrBadState)
	case e.imported:
		return fmt.Errorf("%s: the event is imported: %w", what, core.ErrNotPermitted)
	}
	return nil
}
