package perf

import (
	"context"
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/work"
)

// A rig is all that a copy needs: a device, memory cut into pairs of bufs, an
// engine, and a memcpy context that is running.
//
// Memory of the Go heap is used, as a Go program would, every page touched.
type rig struct {
	device   *device.Device
	memory   *mem.Map
	bufs     *mem.Inventory
	executor work.Executor
	engine   *core.Engine
	dma      *dma.Context

	pairs []pair
	undo  []func() error // what close does, last first
}

// A pair is the source and the destination of one copy, as bytes for Go's copy
// and as bufs for tasks.
type pair struct {
	srcBytes, dstBytes []byte
	src, dst           *mem.Buf
}

// newRig makes a rig with pairs of size bytes each and n tasks that call done.
// The executor is closed with the rig; nil is none: the context copies inside Progress.
func newRig(x work.Executor, size, pairs, n int, done func(*dma.Memcpy)) (*rig, error) {
	r := &rig{executor: x}
	if x != nil {
		r.later(func() error { x.Close(); return nil })
	}
	err := r.openDevice()
	if err == nil {
		err = r.makePairs(size, pairs)
	}
	if err == nil {
		err = r.startContext(n, done)
	}
	if err != nil {
		_ = r.close() // the first error says why
		return nil, err
	}
	return r, nil
}

func (r *rig) later(f func() error) { r.undo = append(r.undo, f) }

// close takes everything down.
func (r *rig) close() (err error) {
	for i := len(r.undo) - 1; i >= 0; i-- {
		core.KeepFirst(&err, r.undo[i]())
	}
	r.undo = nil
	return err
}

func (r *rig) openDevice() error {
	infos, err := device.List()
	if err != nil {
		return err
	}
	for _, i := range infos {
		if !i.Supports(device.FeatureDMA) {
			continue
		}
		if r.device, err = device.Open(i); err != nil {
			return err
		}
		r.later(r.device.Close)
		return nil
	}
	return fmt.Errorf("open a device that copies memory: there is none: %w", core.ErrNotFound)
}

// makePairs fills the sources and leaves the destinations empty. Sources lie
// together, and so do destinations.
func (r *rig) makePairs(size, n int) (err error) {
	region := make([]byte, 2*size*n)
	for i := range region {
		region[i] = byte(i ^ i>>8 ^ i>>16 ^ i>>24) // no two sources alike
	}
	if r.memory, err = mem.NewMap(); err != nil {
		return err
	}
	r.later(r.memory.Destroy)
	if err = r.memory.SetRange(region); err != nil {
		return err
	}
	if err = r.memory.SetAccess(mem.LocalReadWrite); err != nil {
		return err
	}
	if err = r.memory.AddDevice(r.device); err != nil {
		return err
	}
	if err = r.memory.Start(); err != nil {
		return err
	}
	if r.bufs, err = mem.NewInventory(2 * n); err != nil {
		return err
	}
	r.later(r.bufs.Destroy)
	if err = r.bufs.Start(); err != nil {
		return err
	}
	r.later(r.releasePairs)
	for i := range n {
		p := pair{srcBytes: region[i*size : (i+1)*size], dstBytes: region[(n+i)*size : (n+i+1)*size]}
		if p.src, err = r.bufs.ByData(r.memory, mem.AddrOf(p.srcBytes), size); err != nil {
			return err
		}
		if p.dst, err = r.bufs.ByAddr(r.memory, mem.AddrOf(p.dstBytes), size); err != nil {
			return err
		}
		r.pairs = append(r.pairs, p)
	}
	return nil
}

func (r *rig) releasePairs() (err error) {
	for _, p := range r.pairs {
		for _, b := range []*mem.Buf{p.src, p.dst} {
			_, e := b.Unref()
			core.KeepFirst(&err, e)
		}
	}
	r.pairs = nil
	return err
}

func (r *rig) startContext(n int, done func(*dma.Memcpy)) (err error) {
	if r.engine, err = core.NewEngine(); err != nil {
		return err
	}
	r.later(r.engine.Destroy)
	if r.dma, err = dma.New(r.device); err != nil {
		return err
	}
	r.later(r.dma.Destroy)
	if err = r.engine.Connect(&r.dma.Context); err != nil {
		return err
	}
	if err = r.dma.SetExecutor(r.executor); err != nil {
		return err
	}
	if err = r.dma.ConfigureMemcpy(done, done, n); err != nil {
		return err
	}
	if err = r.dma.Start(); err != nil {
		return err
	}
	r.later(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		return r.dma.Shutdown(ctx)
	})
	return nil
}
