package dma_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/work"
)

// Copy one slice into another on the goroutines of a work queue, with every
// step that a program has to take.
func Example() {
	if err := copyOnce([]byte("carried by a task"), work.NewWorkqueue(2)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// "carried by a task"
}

func copyOnce(text []byte, x work.Executor) (err error) {
	defer x.Close()
	keep := func(e error) { core.KeepFirst(&err, e) } // the first error is the one to report

	// Memory: one map over a slice, and two bufs that describe its halves.
	dev, err := openFirst()
	if err != nil {
		return err
	}
	defer func() { keep(dev.Close()) }()
	region := append(text, make([]byte, len(text))...)
	base, n := mem.AddrOf(region), len(text)
	m, e := mem.NewMap()
	keep(errors.Join(e, m.SetRange(region), m.AddDevice(dev), m.Start()))
	defer func() { keep(m.Destroy()) }()
	bufs, e := mem.NewInventory(2)
	keep(errors.Join(e, bufs.Start()))
	defer func() { keep(bufs.Destroy()) }()
	src, e := bufs.ByData(m, base, n)
	keep(e)
	dst, e := bufs.ByAddr(m, base+mem.Addr(n), n)
	keep(e)

	// The context, on its engine.
	engine, e := core.NewEngine()
	keep(e)
	defer func() { keep(engine.Destroy()) }()
	d, e := dma.New(dev)
	keep(e)
	defer func() { keep(d.Destroy()) }()
	back := func(t *dma.Memcpy) {
		fmt.Printf("%q\n", t.Dst().Data())
		_, e1 := src.Unref()
		_, e2 := dst.Unref()
		keep(errors.Join(e1, e2, t.Free()))
	}
	keep(errors.Join(engine.Connect(&d.Context), d.SetExecutor(x), d.ConfigureMemcpy(back, back, 1), d.Start()))
	if err != nil {
		return err
	}

	// One task, from the pool to its callback.
	t, e := d.AllocMemcpy(src, dst)
	keep(e)
	keep(t.Submit())
	keep(engine.Run(context.Background(), func() bool { return d.Inflight() == 0 }))
	keep(d.Shutdown(context.Background()))
	return err
}

func openFirst() (*device.Device, error) {
	infos, err := device.List()
	if err != nil {
		return nil, err
	}
	return device.Open(infos[0])
}

// The capabilities of a device are known before anything is opened.
func ExampleMaxBufListLen() {
	infos, _ := device.List()
	n, err := dma.MaxBufListLen(infos[0])
	fmt.Println(n, err)
	// Output:
	// 64 <nil>
}
