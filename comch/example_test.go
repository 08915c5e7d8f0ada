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

// A server answers, and a client asks. In a program they are in two processes,
// and each has an engine of its own.
func Example() {
	if err := ask("what is the time?"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// server: "what is the time?"
	// client: "time to go"
	// server: the client has left
}

// free is the callback of a send that needs no other.
func free(t *comch.Send) { _ = t.Free() }

// send sends a message; the task is freed when it is over.
func send(alloc func(*comch.Connection, []byte) (*comch.Send, error), c *comch.Connection, message string) error {
	t, err := alloc(c, []byte(message))
	if err == nil {
		err = t.Submit()
	}
	return err
}

func ask(question string) (err error) {
	keep := func(e error) { core.KeepFirst(&err, e) } // the first error is the one to report
	card, e := openCard()
	if e != nil {
		return e
	}
	defer func() { keep(card.close()) }()
	engine, e := core.NewEngine()
	keep(e)
	defer func() { keep(engine.Destroy()) }()

	// The server's process.
	left := false
	server, e := comch.NewServer(card.dpu, card.rep, "clock")
	keep(e)
	keep(errors.Join(
		engine.Connect(&server.Context),
		server.ConfigureSend(free, free, 8),
		server.SetMessageFunc(func(c *comch.Connection, m []byte) {
			fmt.Printf("server: %q\n", m)
			keep(send(server.AllocSend, c, "time to go"))
		}),
		server.SetConnectionFuncs(
			func(*comch.Connection, bool) {},
			func(*comch.Connection, bool) { left = true }),
		server.Start()))
	defer func() { keep(server.Destroy()) }()

	// The client's process.
	client, e := comch.NewClient(card.host, "clock")
	keep(e)
	keep(errors.Join(
		engine.Connect(&client.Context),
		client.ConfigureSend(free, free, 8),
		client.SetMessageFunc(func(_ *comch.Connection, m []byte) {
			fmt.Printf("client: %q\n", m)
			_ = client.Stop() // in progress: the engine goes on with it
		})))
	client.SetStateFunc(func(_ *core.Context, _, next core.State) {
		if next == core.Running {
			c, e := client.Connection()
			keep(e)
			keep(send(client.AllocSend, c, question))
		}
	})
	if e := client.Start(); e != core.ErrInProgress {
		keep(e)
	}
	defer func() { keep(client.Destroy()) }()

	keep(engine.Run(context.Background(), func() bool { return left && client.State() == core.Idle || err != nil }))
	keep(client.Err()) // why it has stopped, if not because it was told to
	fmt.Println("server: the client has left")
	return errors.Join(err, server.Shutdown(context.Background()))
}

// One engine drives a server and a memcpy context: a message says what to copy,
// and the answer is sent when it is copied.
func Example_oneEngine() {
	if err := copyOnRequest("from here to there"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// client: copied "from here to there"
}

func copyOnRequest(text string) (err error) {
	keep := func(e error) { core.KeepFirst(&err, e) }
	card, e := openCard()
	if e != nil {
		return e
	}
	defer func() { keep(card.close()) }()
	engine, e := core.NewEngine()
	keep(e)
	defer func() { keep(engine.Destroy()) }()
	n := len(text)
	region := append([]byte(text), make([]byte, n)...)
	src, dst, forget, e := halves(card.dpu, region)
	keep(e)
	defer func() { keep(forget()) }()

	server, e := comch.NewServer(card.dpu, card.rep, "copier")
	keep(e)
	defer func() { keep(server.Destroy()) }()
	var asked *comch.Connection
	copied := func(t *dma.Memcpy) {
		keep(t.Status().Err())
		keep(send(server.AllocSend, asked, fmt.Sprintf("copied %q", t.Dst().Data())))
		keep(t.Free())
	}
	d, e := dma.New(card.dpu)
	keep(e)
	keep(errors.Join(engine.Connect(&d.Context), d.ConfigureMemcpy(copied, copied, 1), d.Start()))
	defer func() { keep(d.Destroy()) }()
	nobody := func(*comch.Connection, bool) {}
	keep(errors.Join(
		engine.Connect(&server.Context),
		server.ConfigureSend(free, free, 8),
		server.SetConnectionFuncs(nobody, nobody),
		server.SetMessageFunc(func(c *comch.Connection, _ []byte) {
			asked = c
			t, e := d.AllocMemcpy(src, dst)
			keep(e)
			keep(t.Submit())
		}),
		server.Start()))

	keep(request(card.host, engine))
	return errors.Join(err, server.Shutdown(context.Background()), d.Shutdown(context.Background()))
}

// request is the client: it sends a message, prints the answer and stops.
func request(dev *device.Device, engine *core.Engine) (err error) {
	client, err := comch.NewClient(dev, "copier")
	if err != nil {
		return err
	}
	err = errors.Join(
		engine.Connect(&client.Context),
		client.ConfigureSend(free, free, 1),
		client.SetMessageFunc(func(_ *comch.Connection, m []byte) {
			fmt.Printf("client: %s\n", m)
			_ = client.Stop() // in progress: the engine goes on with it
		}))
	client.SetStateFunc(func(_ *core.Context, _, next core.State) {
		if next == core.Running {
			c, _ := client.Connection()
			core.KeepFirst(&err, send(client.AllocSend, c, "copy"))
		}
	})
	if e := client.Start(); e != core.ErrInProgress {
		core.KeepFirst(&err, e)
	}
	core.KeepFirst(&err, engine.Run(context.Background(), func() bool { return client.State() == core.Idle }))
	return errors.Join(err, client.Err(), client.Destroy())
}

// halves makes bufs over the two halves of a region: the first has data.
func halves(dev *device.Device, region []byte) (src, dst *mem.Buf, forget func() error, err error) {
	m, err := mem.NewMap()
	if err != nil {
		return nil, nil, nil, err
	}
	err = errors.Join(m.SetRange(region), m.AddDevice(dev), m.Start())
	bufs, e := mem.NewInventory(2)
	core.KeepFirst(&err, errors.Join(e, bufs.Start()))
	n, base := len(region)/2, mem.AddrOf(region)
	src, e1 := bufs.ByData(m, base, n)
	dst, e2 := bufs.ByAddr(m, base+mem.Addr(n), n)
	return src, dst, func() error {
		_, e1 := src.Unref()
		_, e2 := dst.Unref()
		return errors.Join(e1, e2, bufs.Destroy(), m.Destroy())
	}, errors.Join(err, e1, e2)
}

// A card is a DPU function with its representor, and the host function.
type card struct {
	dpu, host *device.Device
	rep       *device.Representor
}

func openCard() (c card, err error) {
	infos, err := device.List()
	if err != nil {
		return c, err
	}
	for _, i := range infos {
		if c.dpu == nil && comch.ServerSupported(i) == nil {
			if c.dpu, err = device.Open(i); err != nil {
				return c, err
			}
		}
		if c.host == nil && comch.ClientSupported(i) == nil {
			if c.host, err = device.Open(i); err != nil {
				return c, err
			}
		}
	}
	reps, err := c.dpu.Representors(device.FilterNet)
	if err == nil {
		c.rep, err = c.dpu.OpenRepresentor(reps[0])
	}
	return c, err
}

func (c card) close() error { return errors.Join(c.rep.Close(), c.dpu.Close(), c.host.Close()) }
