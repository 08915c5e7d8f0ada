package datapath

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
)

// A receiver is the consumer's part: one message.
type receiver struct {
	*Path
	memory
	consumer *comch.Consumer
	over     bool
	err      error
}

// Receive makes a consumer, and waits until the other process has sent it a
// message.
func (p *Path) Receive(ctx context.Context) (err error) {
	defer func() { err = p.explain(err) }()
	r := &receiver{Path: p}
	defer p.Clean(&err, r.close)
	if err := r.open(p, Longest); err != nil {
		return err
	}
	if r.consumer, err = comch.NewConsumer(p.Conn, r.area); err != nil {
		return err
	}
	defer p.Clean(&err, r.consumer.Destroy)

	// DOCA's sample has one engine for the control path and one for the
	// consumer, and progresses them in turn. On one engine the program can
	// sleep until either has something.
	if err := r.start(); !errors.Is(err, core.ErrInProgress) {
		return err
	}
	defer p.Clean(&err, func() error { return stage.Leave(r.consumer.Shutdown, p.Conn) })
	if err := p.Control.Run(ctx, func() bool { return r.over || p.Lost != nil }); err != nil {
		return p.Missed(err, "the other process sent nothing")
	}
	if !r.over {
		return p.Lost
	}
	return r.err
}

// start connects, configures and starts the consumer, and answers that this is
// in progress: it runs when the other process has mapped its memory.
func (r *receiver) start() error {
	if err := r.Control.Connect(&r.consumer.Context); err != nil {
		return err
	}
	if err := r.consumer.ConfigurePostRecv(r.received, r.failed, 1); err != nil {
		return err
	}
	r.consumer.SetStateFunc(r.state)
	return r.consumer.Start()
}

// state is told of every transition: running is when to post the receive.
func (r *receiver) state(c *core.Context, prev, next core.State) {
	r.Saw(c, prev, next)
	if next == core.Running {
		r.post()
	} else if next == core.Idle && prev == core.Starting {
		r.fail(fmt.Errorf("the other process does not take the consumer: %w", core.ErrConnectionReset))
	}
}

// post submits a receive with room for the longest message.
func (r *receiver) post() {
	buf, err := r.bufs.ByAddr(r.area, mem.AddrOf(r.bytes), len(r.bytes))
	if err != nil {
		r.fail(err)
		return
	}
	t, err := r.consumer.AllocPostRecv(buf)
	if err != nil {
		r.Drop(buf)
		r.fail(err)
		return
	}
	r.Tasks++
	if err := t.Submit(); err != nil {
		r.release(t)
		r.fail(err)
		return
	}
	r.Say("consumer %d waits for a message of up to %d bytes", r.consumer.ID(), len(r.bytes))
}

// fail ends the receiving.
func (r *receiver) fail(err error) {
	r.over = true
	core.KeepFirst(&r.err, err)
}

// shown is how much of a message is printed.
const shown = 40

// received is called for the message, which is in the memory of this process
// already.
func (r *receiver) received(t *comch.PostRecv) {
	r.Completed++
	r.over = true
	data := t.Buf().Data()
	r.Say("received %d bytes from producer %d, checksum %08x: %.*q", len(data), t.ProducerID(),
		crc32.ChecksumIEEE(data), min(shown, len(data)), data)
	r.release(t)
}

// failed is called for a receive that no message came for: the connection is
// over, or the sample has given up.
func (r *receiver) failed(t *comch.PostRecv) {
	if errors.Is(t.Status(), core.ErrFlushed) {
		r.Flushed++
	} else {
		r.Failed++
		r.fail(fmt.Errorf("receive on the data path: %w", t.Status()))
	}
	r.release(t)
}

// release gives the buf and the task back.
func (r *receiver) release(t *comch.PostRecv) {
	r.Drop(t.Buf())
	r.Keep(t.Free())
}
