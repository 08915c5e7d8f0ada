package syncevent

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/mem"
)

// Start makes the event usable by calls, and by nothing else: from now on it
// cannot be turned into a context.
//
// It is core.ErrBadState for an event that is started or a context,
// core.ErrInvalidValue without a publisher or a subscriber, or when all of them
// are remote and no device was named, core.ErrNotPermitted when the map of the
// buf does not have a device of the event, core.ErrNotSupported for a remote
// location where memory cannot be shared, and core.ErrConnectionReset for an
// imported event whose owner is gone.
func (e *Event) Start() error {
	switch {
	case e == nil:
		return fmt.Errorf("start a nil event: %w", core.ErrInvalidValue)
	case e.destroyed:
		return fmt.Errorf("start a destroyed event: %w", core.ErrBadState)
	case e.role == asContext:
		return fmt.Errorf("start the event: it is a context and starts as one: %w", core.ErrBadState)
	case e.isOpen():
		return fmt.Errorf("start the event: it is started: %w", core.ErrBadState)
	}
	if err := e.open(); err != nil {
		return fmt.Errorf("start the event: %w", err)
	}
	e.role = standAlone
	return nil
}

// Stop ends the use of an event that Start began. Waits of other goroutines
// end with core.ErrBadState, exports become invalid (those of a value in a buf
// when its map stops), and the value stays.
// Stopping an idle event succeeds; an event that is a context is stopped as
// one, and here it is core.ErrBadState.
func (e *Event) Stop() error {
	switch {
	case e == nil:
		return fmt.Errorf("stop a nil event: %w", core.ErrInvalidValue)
	case e.role == asContext:
		return fmt.Errorf("stop the event: it is a context and stops as one: %w", core.ErrBadState)
	case !e.isOpen():
		return nil
	}
	if err := e.close(); err != nil {
		return fmt.Errorf("stop the event: %w", err)
	}
	return nil
}

// AsContext turns the event into a context, for good, and returns it: connect
// it to an engine, and start and stop it there. It starts with the codes of
// Start. AsContext is core.ErrBadState after Start or Destroy.
func (e *Event) AsContext() (*core.Context, error) {
	switch {
	case e == nil:
		return nil, fmt.Errorf("a nil event as a context: %w", core.ErrInvalidValue)
	case e.destroyed:
		return nil, fmt.Errorf("the event as a context: it is destroyed: %w", core.ErrBadState)
	case e.role == standAlone:
		return nil, fmt.Errorf("the event as a context: it was started alone: %w", core.ErrBadState)
	}
	e.role = asContext
	return &e.tasks.Context, nil
}

// Destroy ends an idle event, and stops one that was started alone. It gives
// back the devices, the loan of the buf, and the memory of the event. A context
// that is not idle is core.ErrBadState.
func (e *Event) Destroy() error {
	switch {
	case e == nil:
		return fmt.Errorf("destroy a nil event: %w", core.ErrInvalidValue)
	case e.destroyed:
		return fmt.Errorf("destroy the event: it is destroyed: %w", core.ErrBadState)
	}
	if e.role == asContext {
		if err := e.tasks.Context.Destroy(); err != nil {
			return err
		}
	} else if err := e.Stop(); err != nil {
		return err
	}
	e.destroyed = true
	e.value = cell{word: &e.own} // and never again what is given back here
	var err error
	if e.page != nil {
		err = e.page.Destroy()
	}
	if e.buf != nil {
		e.buf.Return()
	}
	for _, d := range e.devices {
		d.Drop()
	}
	e.page, e.buf, e.devices, e.owner = nil, nil, nil, nil
	return err
}

// idle reports whether the event can be changed.
func (e *Event) idle() bool { return !e.isOpen() && e.tasks.State() == core.Idle }

// open makes the value usable.
func (e *Event) open() error {
	if !e.imported {
		if err := e.prepare(); err != nil {
			return err
		}
	}
	if e.lost() {
		return fmt.Errorf("its owner is gone: %w", core.ErrConnectionReset)
	}
	m := e.page
	if e.buf != nil {
		m = e.buf.Map()
	}
	e.value.faulting = m != nil && m.Faulting()
	e.shared.Store(e.imported || e.addr != nil || e.buf != nil) // or from the first export on
	e.letIn()
	return nil
}

// prepare readies the memory of an event of this process.
func (e *Event) prepare() error {
	if err := e.complete(); err != nil {
		return err
	}
	e.owner = nil
	switch {
	case e.buf != nil && e.buf.Map().Imported():
		e.owner = e.buf.Map()
	case e.buf == nil && e.addr == nil && (e.publishers | e.subscribers).has(RemotePCI):
		return e.openPage()
	}
	return nil
}

// complete reports what is missing to start.
func (e *Event) complete() error {
	switch {
	case e.publishers == 0:
		return fmt.Errorf("it has no publisher: %w", core.ErrInvalidValue)
	case e.subscribers == 0:
		return fmt.Errorf("it has no subscriber: %w", core.ErrInvalidValue)
	case len(e.devices) == 0:
		return fmt.Errorf("all locations are remote and none has a device: %w", core.ErrInvalidValue)
	case e.buf == nil:
		return nil
	case !e.buf.Map().Started():
		if e.buf.Map().Revoked() { // asked second: it may be revoked just now
			return fmt.Errorf("the owner of the memory of its buf is gone: %w", core.ErrConnectionReset)
		}
		return fmt.Errorf("the map of its buf is stopped: %w", core.ErrBadState)
	}
	for _, d := range e.devices {
		if !e.buf.Map().HasDevice(d) {
			return fmt.Errorf("the map of its buf does not have %s: %w", d.Info().IBDev(), core.ErrNotPermitted)
		}
	}
	return nil
}

// openPage gives the event memory that can be exported, with the rights that
// the other side needs, and the devices that it may be exported through. The
// value comes along.
func (e *Event) openPage() error {
	access := mem.LocalReadWrite | mem.PCIReadOnly
	if e.publishers.has(RemotePCI) {
		access = mem.LocalReadWrite | mem.PCIReadWrite
	}
	if e.page != nil && e.page.Access() != access {
		// Memory that was shared keeps its rights for good: take other memory.
		if err := e.dropPage(); err != nil {
			return err
		}
	}
	if e.page == nil {
		m, err := newPage(access)
		if err != nil {
			return err
		}
		words, _ := sys.Words(m.Bytes()) // pages are aligned
		words[0].Store(e.own.Load())
		e.page, e.value.word = m, &words[0]
	}
	for _, d := range e.devices {
		if e.page.HasDevice(d) {
			continue
		}
		if err := e.page.AddDevice(d); err != nil {
			return err
		}
	}
	return e.page.Start()
}

// newPage takes memory for one value.
func newPage(access mem.Access) (*mem.Map, error) {
	m, err := mem.NewMap()
	if err != nil {
		return nil, err
	}
	if err := m.Allocate(size, mem.AllocOptions{Shareable: true}); err != nil {
		return nil, err
	}
	return m, m.SetAccess(access)
}

// dropPage gives the memory back, and keeps the value.
func (e *Event) dropPage() error {
	v, _ := e.value.load()
	e.own.Store(v)
	e.value.word = &e.own
	m := e.page
	e.page = nil
	return m.Destroy()
}

// close ends the use of the value. All calls are out when it returns.
func (e *Event) close() error {
	e.shut()
	if e.page != nil && !e.imported {
		return e.page.Stop()
	}
	return nil
}
