package securechannel

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/side"
	"github.com/gantry-rdma/gantry/mem"
)

// window is how many messages of one direction are on their way at most.
const window = 1024

// A producer sends the messages of this side: all tasks send the same memory.
type producer struct {
	engine    *core.Engine
	memory    *mem.Map
	bufs      *mem.Inventory
	producer  *comch.Producer
	idle      []*comch.ProducerSend
	total     int64
	submitted int64
	done      atomic.Int64 // completions
	began     time.Time
	took      time.Duration
	failed    error
	stopping  bool
}

// run sends everything, on the goroutine of the producer.
func (p *producer) run(ctx context.Context, s *session) (err error) {
	p.total = s.Messages
	if p.engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, p.engine.Destroy()) }()
	if p.memory, err = newMemory(s, s.Size, mem.PCIReadOnly|mem.LocalReadWrite); err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, p.memory.Destroy()) }()
	fill(p.memory.Bytes())
	if p.bufs, err = newBufs(1); err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, p.bufs.Destroy()) }()
	buf, err := p.bufs.ByData(p.memory, mem.AddrOf(p.memory.Bytes()), s.Size)
	if err != nil {
		return err
	}
	defer func() { _, _ = buf.Unref() }()
	if p.producer, err = comch.NewProducer(s.conn); err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, p.producer.Destroy()) }()

	tasks := int(min(p.total, window))
	core.KeepFirst(&err, p.engine.Connect(&p.producer.Context))
	core.KeepFirst(&err, p.producer.ConfigureSend(p.sent, p.notSent, tasks))
	if err == nil {
		err = p.producer.Start()
	}
	if err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, p.stop(s.conn)) }()
	return p.send(ctx, buf, tasks, s.consumer)
}

// send waits for the peer's consumer, and sends.
func (p *producer) send(ctx context.Context, buf *mem.Buf, tasks int, consumer <-chan uint16) error {
	var to uint16
	select {
	case to = <-consumer:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	for range tasks {
		t, err := p.producer.AllocSend(buf, nil, to)
		if err != nil {
			return err
		}
		p.idle = append(p.idle, t)
	}
	p.began = time.Now()
	// Receives that the peer posts make progress as completions do: then more
	// can be submitted.
	if err := p.engine.Run(ctx, p.through); err != nil {
		return err
	}
	p.took = time.Since(p.began)
	return p.failed
}

// through submits what can be submitted, and reports whether all is over.
func (p *producer) through() bool {
	for n := len(p.idle); n > 0 && p.submitted < p.total && p.failed == nil; n-- {
		err := p.idle[n-1].Submit()
		if err == core.ErrAgain {
			break // the peer has not posted enough
		}
		if core.KeepFirst(&p.failed, err); err == nil {
			p.submitted++
			p.idle = p.idle[:n-1]
		}
	}
	return p.failed != nil || p.done.Load() == p.total
}

// sent is the callback of a message that arrived.
func (p *producer) sent(t *comch.ProducerSend) {
	p.done.Add(1)
	p.keep(t)
}

// notSent is the callback of one that did not.
func (p *producer) notSent(t *comch.ProducerSend) {
	core.KeepFirst(&p.failed, fmt.Errorf("a message could not be sent: %w", t.Status()))
	p.keep(t)
}

// keep takes a task back.
func (p *producer) keep(t *comch.ProducerSend) {
	if p.stopping {
		_ = t.Free() // it is the application's
		return
	}
	p.idle = append(p.idle, t)
}

// stop ends the producer. Messages that are on their way still go.
func (p *producer) stop(conn *comch.Connection) error {
	p.stopping = true
	for _, t := range p.idle {
		p.keep(t)
	}
	return side.Leave(p.producer.Shutdown, conn)
}

// fill writes what messages are made of.
func fill(b []byte) {
	for i := range b {
		b[i] = pattern(i)
	}
}

// pattern returns byte i of every message.
func pattern(i int) byte { return byte(i*7 + i>>8) }

// newMemory makes a started map.
func newMemory(s *session, n int, a mem.Access) (*mem.Map, error) {
	m, err := mem.NewMap()
	if err != nil {
		return nil, err
	}
	if err = m.Allocate(n, mem.AllocOptions{Shareable: true}); err == nil {
		err = m.SetAccess(a)
	}
	if err == nil {
		err = m.AddDevice(s.device)
	}
	if err == nil {
		err = m.Start()
	}
	if err != nil {
		_ = m.Destroy() // the first error says why
		return nil, fmt.Errorf("memory for messages: %w", err)
	}
	return m, nil
}

// newBufs makes a started inventory of n.
func newBufs(n int) (*mem.Inventory, error) {
	i, err := mem.NewInventory(n)
	if err == nil {
		err = i.Start()
	}
	return i, err
}
