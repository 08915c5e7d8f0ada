package core_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/mem"
)

// A machine is what the examples copy on: a started memcpy context, and two
// bufs over one slice.
type machine struct {
	engine   *core.Engine
	dma      *dma.Context
	src, dst *mem.Buf
}

func newMachine(text string, ok func(*dma.Memcpy)) (m machine, err error) {
	keep := func(e error) { core.KeepFirst(&err, e) }
	infos, e := device.List()
	keep(e)
	dev, e := device.Open(infos[0])
	keep(e)
	region := make([]byte, 4096)
	n := copy(region, text)
	mmap, e := mem.NewMap()
	keep(e)
	keep(mmap.SetRange(region))
	keep(mmap.AddDevice(dev))
	keep(mmap.Start())
	bufs, e := mem.NewInventory(2)
	keep(e)
	keep(bufs.Start())
	m.src, e = bufs.ByData(mmap, mem.AddrOf(region), n)
	keep(e)
	m.dst, e = bufs.ByAddr(mmap, mem.AddrOf(region)+2048, 2048)
	keep(e)
	m.engine, e = core.NewEngine()
	keep(e)
	m.dma, e = dma.New(dev)
	keep(e)
	keep(m.engine.Connect(&m.dma.Context))
	keep(m.dma.ConfigureMemcpy(ok, ok, 1))
	keep(m.dma.Start())
	return m, err
}

// A program that polls: submit, and progress until the callback has run.
func ExampleEngine_Progress() {
	done := false
	m, err := newMachine("hello", func(t *dma.Memcpy) {
		done = true
		fmt.Printf("task %d: %v, %q\n", t.User, t.Status(), t.Dst().Data())
		_ = t.Free()
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	t, _ := m.dma.AllocMemcpy(m.src, m.dst)
	t.User = 7
	_ = t.Submit()
	for !done {
		m.engine.Progress()
	}
	fmt.Println(m.dma.Stop(), m.dma.State())
	// Output:
	// task 7: success, "hello"
	// <nil> idle
}

// A program that leaves the waiting to Run.
func ExampleEngine_Run() {
	left := 3
	m, err := newMachine("ab", func(t *dma.Memcpy) {
		if left--; left > 0 {
			_ = t.Submit() // again, from the callback: it appends
			return
		}
		_ = t.Free()
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	t, _ := m.dma.AllocMemcpy(m.src, m.dst)
	_ = t.Submit()
	err = m.engine.Run(context.Background(), func() bool { return left == 0 })
	fmt.Printf("%v %q\n", err, m.dst.Data())
	fmt.Println(m.dma.Shutdown(context.Background()))
	// Output:
	// <nil> "ababab"
	// <nil>
}

func ExampleStatusOf() {
	err := fmt.Errorf("copy block 12: %w", core.ErrFlushed)
	s := core.StatusOf(err)
	fmt.Println(s.Name(), s.Code())
	fmt.Println(errors.Is(err, core.ErrFlushed), errors.Is(err, core.ErrIOFailed))
	// Output:
	// GANTRY_ERROR_FLUSHED 17
	// true true
}
