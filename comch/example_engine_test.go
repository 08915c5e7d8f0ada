package comch_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/mem"
)

// One engine drives a server and a client, a producer, a consumer and a memcpy
// context, and the program never polls: while there is nothing to do it sleeps
// on the engine's descriptor. What the producer sends the consumer receives, and
// a DMA task copies it on.
func Example_blocking() {
	if err := sendAndCopy("over there and further on"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// received 25 bytes
	// copied "over there and further on"
}

// sleep drives an engine until done reports true. A program with an event loop
// of its own has core.Engine.FD in it instead of the call of Wait.
func sleep(e *core.Engine, done func() bool) error {
	for !done() {
		if e.Progress() {
			continue
		}
		if err := e.RequestNotification(); err != nil {
			return err
		}
		err := e.Wait(context.Background())
		core.KeepFirst(&err, e.ClearNotification())
		if err != nil {
			return err
		}
	}
	return nil
}

func sendAndCopy(text string) (err error) {
	keep := func(e error) { core.KeepFirst(&err, e) }
	card, e := openCard()
	if e != nil {
		return e
	}
	defer func() { keep(card.close()) }()
	engine, e := core.NewEngine()
	keep(e)
	defer func() { keep(engine.Destroy()) }()
	ends, e := meet(card, engine)
	if e != nil {
		return e
	}
	defer func() { keep(ends.part()) }()

	n := len(text)
	out, in := newShelf(card.host, n), newShelf(card.dpu, 2*n)
	defer func() { keep(out.close()); keep(in.close()) }()
	copy(out.area.Bytes(), text)
	d, e := dma.New(card.dpu)
	keep(e)
	defer func() { keep(d.Destroy()) }()
	copied := false
	whenCopied := func(t *dma.Memcpy) {
		keep(t.Status().Err())
		fmt.Printf("copied %q\n", t.Dst().Data())
		copied = true
		keep(t.Free())
	}
	keep(errors.Join(engine.Connect(&d.Context), d.ConfigureMemcpy(whenCopied, whenCopied, 1), d.Start()))

	from, room, to := out.data(0, n), in.room(0, n), in.room(n, n)
	consumer, e := ends.receive(in.area, room, func(t *comch.PostRecv) {
		fmt.Printf("received %d bytes\n", t.Len())
		c, e := d.AllocMemcpy(t.Buf(), to)
		keep(e)
		keep(c.Submit())
	})
	keep(e)
	producer, e := ends.send(from)
	keep(e)
	if err != nil {
		return err
	}
	keep(sleep(engine, func() bool { return copied || err != nil }))
	for _, c := range []*core.Context{&producer.Context, &consumer.Context, &d.Context} {
		keep(c.Shutdown(context.Background()))
	}
	return errors.Join(err, producer.Destroy(), consumer.Destroy())
}

// ends are a server and a client that are connected. In a program they are in
// two processes.
type ends struct {
	engine   *core.Engine
	server   *comch.Server
	client   *comch.Client
	atServer *comch.Connection
	consumer uint16 // of the server's side, when the client knows it
}

// meet connects the two.
func meet(c card, e *core.Engine) (x *ends, err error) {
	x = &ends{engine: e}
	if x.server, err = comch.NewServer(c.dpu, c.rep, "relay"); err != nil {
		return nil, err
	}
	if x.client, err = comch.NewClient(c.host, "relay"); err != nil {
		return nil, errors.Join(err, x.server.Destroy())
	}
	silent := func(*comch.Connection, []byte) {}
	nobody := func(*comch.Connection, uint16) {}
	err = errors.Join(
		e.Connect(&x.server.Context), x.server.ConfigureSend(free, free, 1), x.server.SetMessageFunc(silent),
		x.server.SetConsumerFuncs(nobody, nobody),
		x.server.SetConnectionFuncs(
			func(c *comch.Connection, _ bool) { x.atServer = c }, func(*comch.Connection, bool) {}),
		e.Connect(&x.client.Context), x.client.ConfigureSend(free, free, 1), x.client.SetMessageFunc(silent),
		x.client.SetConsumerFuncs(func(_ *comch.Connection, id uint16) { x.consumer = id }, nobody),
		x.server.Start())
	if e := x.client.Start(); e != core.ErrInProgress {
		core.KeepFirst(&err, e)
	}
	connected := func() bool { return x.atServer != nil && x.client.State() == core.Running || err != nil }
	return x, errors.Join(err, sleep(e, connected))
}

// part ends both.
func (x *ends) part() error {
	return errors.Join(
		x.client.Shutdown(context.Background()), x.server.Shutdown(context.Background()),
		x.client.Destroy(), x.server.Destroy())
}

// receive makes a consumer on the server's side with one receive posted, into
// room, and waits until the client knows it.
func (x *ends) receive(m *mem.Map, room *mem.Buf, received func(*comch.PostRecv)) (*comch.Consumer, error) {
	k, err := comch.NewConsumer(x.atServer, m)
	if err != nil {
		return nil, err
	}
	back := func(t *comch.PostRecv) {
		if t.Status() == core.Success {
			received(t)
		}
		_ = t.Free()
	}
	err = errors.Join(x.engine.Connect(&k.Context), k.ConfigurePostRecv(back, back, 1))
	k.SetStateFunc(func(_ *core.Context, _, next core.State) {
		if next == core.Running {
			t, e := k.AllocPostRecv(room)
			core.KeepFirst(&err, e)
			core.KeepFirst(&err, t.Submit())
		}
	})
	if e := k.Start(); e != core.ErrInProgress {
		return k, errors.Join(err, e)
	}
	known := func() bool { return x.consumer != 0 && k.State() == core.Running || err != nil }
	return k, errors.Join(err, sleep(x.engine, known))
}

// send makes a producer on the client's side and sends data to the consumer.
func (x *ends) send(data *mem.Buf) (*comch.Producer, error) {
	c, err := x.client.Connection()
	if err != nil {
		return nil, err
	}
	p, err := comch.NewProducer(c)
	if err != nil {
		return nil, err
	}
	back := func(t *comch.ProducerSend) { _ = t.Free() }
	err = errors.Join(x.engine.Connect(&p.Context), p.ConfigureSend(back, back, 1), p.Start())
	t, e := p.AllocSend(data, nil, x.consumer)
	core.KeepFirst(&err, e)
	core.KeepFirst(&err, t.Submit()) // the receive is posted, so it is accepted
	return p, err
}

// A shelf is memory that the other side may use, and bufs of it.
type shelf struct {
	area *mem.Map
	bufs *mem.Inventory
	held []*mem.Buf
	err  error
}

func newShelf(dev *device.Device, n int) *shelf {
	s := new(shelf)
	s.area, s.err = mem.NewMap()
	core.KeepFirst(&s.err, errors.Join(
		s.area.Allocate(n, mem.AllocOptions{Shareable: true}),
		s.area.SetAccess(mem.LocalReadWrite|mem.PCIReadWrite), s.area.AddDevice(dev), s.area.Start()))
	var e error
	s.bufs, e = mem.NewInventory(2)
	core.KeepFirst(&s.err, errors.Join(e, s.bufs.Start()))
	return s
}

// data returns a buf that has data, and room one that has none.
func (s *shelf) data(off, n int) *mem.Buf {
	return s.hold(s.bufs.ByData(s.area, mem.AddrOf(s.area.Bytes())+mem.Addr(off), n))
}

func (s *shelf) room(off, n int) *mem.Buf {
	return s.hold(s.bufs.ByAddr(s.area, mem.AddrOf(s.area.Bytes())+mem.Addr(off), n))
}

func (s *shelf) hold(b *mem.Buf, err error) *mem.Buf {
	core.KeepFirst(&s.err, err)
	s.held = append(s.held, b)
	return b
}

// close gives the bufs and the memory back, and reports the first error of all.
func (s *shelf) close() error {
	for _, b := range s.held {
		_, err := b.Unref()
		core.KeepFirst(&s.err, err)
	}
	return errors.Join(s.err, s.bufs.Destroy(), s.area.Destroy())
}
