package perf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/notify"
)

// What the two ends say to each other over the control path. An order is
// answered with itself when it is carried out, and some carry figures then.
const (
	orderOpen  = "open"  // make a pipe with the parameters of Point
	orderServe = "serve" // take what comes until a message says that it was the last
	orderDone  = "done"  // the answer when that one has come
	orderClose = "close" // end the pipe
)

// An order is a control message.
type order struct {
	What    string     `json:"what"`
	Point   ComchPoint `json:"point"`
	Checked uint64     `json:"checked"` // messages
	Mallocs uint64     `json:"mallocs"` // while serving
	Wrong   string     `json:"wrong"`   // why it was not carried out
}

// A comchEnd is one end of a channel: the control path on an engine of its own,
// and a pipe on another.
type comchEnd struct {
	ctx           context.Context
	control, data *core.Engine
	device        *device.Device
	send          func(*comch.Connection, []byte) (*comch.Send, error)
	conn          *comch.Connection
	remote        uint16 // the peer's consumer, 0 for none
	orders        []order
	lost          bool // the peer has gone
	failed        error
	pipe          *comchPipe
}

// listen takes the events of a control context, before it starts.
func (e *comchEnd) listen(x interface {
	ConfigureSend(ok, fail func(*comch.Send), n int) error
	SetMessageFunc(func(*comch.Connection, []byte)) error
	SetConsumerFuncs(started, expired func(*comch.Connection, uint16)) error
}) error {
	free := func(t *comch.Send) { _ = t.Free() }
	fail := func(t *comch.Send) {
		e.failed = errors.Join(e.failed, t.Status().Err())
		_ = t.Free()
	}
	heard := func(_ *comch.Connection, p []byte) {
		var o order
		core.KeepFirst(&e.failed, json.Unmarshal(p, &o))
		e.orders = append(e.orders, o)
	}
	started := func(_ *comch.Connection, id uint16) { e.remote = id }
	expired := func(_ *comch.Connection, id uint16) { e.remote = 0 }
	err := x.ConfigureSend(free, fail, 8)
	core.KeepFirst(&err, x.SetMessageFunc(heard))
	core.KeepFirst(&err, x.SetConsumerFuncs(started, expired))
	return err
}

// wait lets the control path work until done says so. It always blocks, and so
// takes no time from what is measured.
func (e *comchEnd) wait(done func() bool) error {
	for !done() {
		if e.failed != nil {
			return e.failed
		}
		if e.lost {
			return fmt.Errorf("the other process has gone: %w", core.ErrConnectionReset)
		}
		if err := progressOrWait(e.ctx, e.control); err != nil {
			return err
		}
	}
	return nil
}

// progressOrWait progresses e or, if there is nothing to do, waits for it.
func progressOrWait(ctx context.Context, e *core.Engine) error {
	if e.Progress() {
		return nil
	}
	err := e.RequestNotification()
	if err == nil {
		err = e.Wait(ctx)
	}
	core.KeepFirst(&err, e.ClearNotification())
	return err
}

// say sends an order, or the answer to one.
func (e *comchEnd) say(o order) error {
	p, err := json.Marshal(o)
	if err != nil {
		return err
	}
	t, err := e.send(e.conn, p)
	if err != nil {
		return err
	}
	if err = t.Submit(); err != nil {
		_ = t.Free() // it is this end's yet
	}
	return err
}

// hear waits for the next order.
func (e *comchEnd) hear() (o order, err error) {
	if err = e.wait(func() bool { return len(e.orders) > 0 }); err != nil {
		return o, err
	}
	o, e.orders = e.orders[0], e.orders[1:]
	return o, nil
}

// open makes the pipe, and waits for that of the peer.
func (e *comchEnd) open(p ComchPoint) (err error) {
	if e.pipe, err = newComchPipe(e, p); err != nil {
		return err
	}
	for e.pipe.consumer.State() != core.Running || e.remote == 0 {
		switch did := e.control.Progress(); {
		case e.data.Progress() || did:
		case e.lost || e.ctx.Err() != nil:
			return errors.Join(core.ErrConnectionReset, e.ctx.Err())
		default:
			notify.Nap(openNap) // two engines: neither is worth waiting for alone
		}
	}
	return e.pipe.failed
}

// openNap is the pause while a pipe is made.
const openNap = 50 * time.Microsecond

// shut ends the pipe.
func (e *comchEnd) shut() error {
	if e.pipe == nil {
		return nil
	}
	err := e.pipe.close()
	e.pipe = nil
	return err
}

// destroy gives back what newEngines has made.
func (e *comchEnd) destroy() error {
	err := e.shut()
	core.KeepFirst(&err, e.data.Destroy())
	core.KeepFirst(&err, e.control.Destroy())
	return err
}

func newComchEnd(ctx context.Context) (*comchEnd, error) {
	e := &comchEnd{ctx: ctx}
	var err error
	if e.control, err = core.NewEngine(); err != nil {
		return nil, err
	}
	if e.data, err = core.NewEngine(); err != nil {
		_ = e.control.Destroy()
		return nil, err
	}
	return e, nil
}
