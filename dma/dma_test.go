package dma

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/work"
)

// A rig is all that a copy needs: a device, one map, bufs, an engine and a
// memcpy context on the executor under test.
type rig struct {
	testing.TB
	engine *core.Engine
	device *device.Device
	region []byte
	mmap   *mem.Map
	bufs   *mem.Inventory
	dma    *Context

	ok, failed []uint64 // the users of the tasks that came back
	free       bool     // tasks and their bufs, in the callbacks
}

// executors are those that every test runs on.
var executors = []struct {
	name string
	make func() work.Executor
}{
	{"alone", func() work.Executor { return nil }},
	{"inline", func() work.Executor { return work.NewInline() }},
	{"tasklet", func() work.Executor { return work.NewTasklet() }},
	{"workqueue1", func() work.Executor { return work.NewWorkqueue(1) }},
	{"workqueue3", func() work.Executor { return work.NewWorkqueue(3) }},
}

// onEvery runs a test on each executor.
func onEvery(t *testing.T, tasks, memory int, f func(t *testing.T, r *rig)) {
	for _, x := range executors {
		t.Run(x.name, func(t *testing.T) { f(t, newRig(t, x.make(), tasks, memory)) })
	}
}

func newRig(t testing.TB, x work.Executor, tasks, memory int) *rig {
	t.Helper()
	r := &rig{TB: t, region: make([]byte, memory), free: true}
	infos, err := device.List()
	r.want("list", err, nil)
	r.device, err = device.Open(infos[0])
	r.want("open", err, nil)
	r.mmap = r.newMap(r.region, mem.LocalReadWrite)
	r.bufs, err = mem.NewInventory(4096)
	r.want("inventory", err, nil)
	r.want("start the inventory", r.bufs.Start(), nil)
	r.engine, err = core.NewEngine()
	r.want("engine", err, nil)
	r.dma, err = New(r.device)
	r.want("context", err, nil)
	r.want("connect", r.engine.Connect(&r.dma.Context), nil)
	r.want("executor", r.dma.SetExecutor(x), nil)
	r.want("configure", r.dma.ConfigureMemcpy(r.succeeded, r.fell, tasks), nil)
	t.Cleanup(func() {
		r.want("shut down", r.dma.Shutdown(context.Background()), nil)
		r.want("destroy", r.dma.Destroy(), nil)
		r.want("destroy the engine", r.engine.Destroy(), nil)
		if x != nil {
			x.Close()
		}
		if n := r.bufs.Free(); n != r.bufs.Len() {
			t.Errorf("%d of %d bufs came back", n, r.bufs.Len())
		}
	})
	return r
}

func (r *rig) newMap(b []byte, a mem.Access) *mem.Map {
	r.Helper()
	m, err := mem.NewMap()
	r.want("map", err, nil)
	r.want("range", m.SetRange(b), nil)
	r.want("access", m.SetAccess(a), nil)
	r.want("device", m.AddDevice(r.device), nil)
	r.want("start the map", m.Start(), nil)
	return m
}

func (r *rig) want(what string, got, want error) {
	r.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		r.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func (r *rig) succeeded(t *Memcpy) { r.ok = append(r.ok, t.User); r.back(t) }
func (r *rig) fell(t *Memcpy)      { r.failed = append(r.failed, t.User); r.back(t) }

func (r *rig) back(t *Memcpy) {
	if r.free {
		r.want("release", releaseAll(t), nil)
	}
}

func freeTask(t *Memcpy) { _ = t.Free() }

// releaseAll frees a task and its bufs.
func releaseAll(t *Memcpy) error {
	err := release(t.Src(), t.Dst())
	core.KeepFirst(&err, t.Free())
	return err
}

// release drops the reference of every head that has one.
func release(bufs ...*mem.Buf) (err error) {
	for _, b := range bufs {
		if b != nil && b.Refs() > 0 && b.IsHead() {
			_, e := b.Unref()
			core.KeepFirst(&err, e)
		}
	}
	return err
}

// src returns a list of bufs over n bytes from off on, cut into pieces, full
// of data.
func (r *rig) src(off, n, pieces int) *mem.Buf { return r.list(off, n, pieces, true) }

// dst is src without data.
func (r *rig) dst(off, n, pieces int) *mem.Buf { return r.list(off, n, pieces, false) }

func (r *rig) list(off, n, pieces int, data bool) (head *mem.Buf) {
	r.Helper()
	base := mem.AddrOf(r.region) + mem.Addr(off)
	for i := range pieces {
		from, to := n*i/pieces, n*(i+1)/pieces
		get := r.bufs.ByAddr
		if data {
			get = r.bufs.ByData
		}
		b, err := get(r.mmap, base+mem.Addr(from), to-from)
		r.want("buf", err, nil)
		if head == nil {
			head = b
			continue
		}
		r.want("chain", head.Chain(b), nil)
	}
	return head
}

func (r *rig) alloc(src, dst *mem.Buf) *Memcpy {
	r.Helper()
	t, err := r.dma.AllocMemcpy(src, dst)
	r.want("alloc", err, nil)
	return t
}

// run progresses until n tasks have come back.
func (r *rig) run(n int) {
	r.Helper()
	r.want("run", r.engine.Run(r.Context(), func() bool { return len(r.ok)+len(r.failed) >= n }), nil)
}

// pattern fills b with bytes that depend on seed and place.
func pattern(b []byte, seed int) {
	for i := range b {
		b[i] = byte(i*7 + i>>8 + seed)
	}
}

func TestCopiesThroughLists(t *testing.T) {
	onEvery(t, 4, 4<<20, func(t *testing.T, r *rig) {
		r.want("start", r.dma.Start(), nil)
		r.free = false
		for _, c := range []struct{ size, from, to int }{
			{1, 1, 1}, {64, 1, 1}, {4096, 1, 3}, {4097, 3, 1}, {10_000, 7, 5},
			{65536, 64, 1}, {65537, 1, 64}, {1 << 20, 1, 1}, {1<<20 + 1, 64, 63}, {3<<19 - 5, 2, 2},
		} {
			name := fmt.Sprintf("%d bytes from %d to %d", c.size, c.from, c.to)
			pattern(r.region[:c.size], c.size)
			clear(r.region[2<<20:])
			task := r.alloc(r.src(0, c.size, c.from), r.dst(2<<20, c.size+3, c.to))
			r.ok, r.failed = nil, nil
			r.want(name, task.TrySubmit(), nil)
			r.run(1)
			got := r.region[2<<20:]
			if len(r.ok) != 1 || !bytes.Equal(got[:c.size], r.region[:c.size]) {
				t.Errorf("%s: %d succeeded, wrong contents or status %v", name, len(r.ok), task.Status())
			}
			if !bytes.Equal(got[c.size:c.size+3], []byte{0, 0, 0}) {
				t.Errorf("%s: bytes behind the destination were written", name)
			}
			length := 0
			for b := task.Dst(); b != nil; b = b.Next() {
				length += b.DataLen()
			}
			if length != c.size {
				t.Errorf("%s: destination data length %d", name, length)
			}
			r.want("release", releaseAll(task), nil)
		}
	})
}

// What is there already stays: a copy appends.
func TestCopyAppendsToTheTail(t *testing.T) {
	onEvery(t, 1, 4096, func(t *testing.T, r *rig) {
		r.want("start", r.dma.Start(), nil)
		r.free = false
		pattern(r.region[:100], 3)
		task := r.alloc(r.src(0, 100, 1), r.dst(1000, 1000, 1))
		for i := 1; i <= 10; i++ {
			r.want("submit", task.TrySubmit(), nil)
			r.run(i)
			if got := task.Dst().DataLen(); got != 100*i {
				t.Fatalf("data length %d after %d copies", got, i)
			}
		}
		if want := bytes.Repeat(r.region[:100], 10); !bytes.Equal(task.Dst().Data(), want) {
			t.Error("the destination is not ten times the source")
		}
		r.want("no room left", task.TrySubmit(), core.ErrInvalidValue)
		r.want("reset", task.Dst().ResetDataLen(), nil)
		r.want("submit", task.TrySubmit(), nil)
		r.run(11)
		r.want("release", releaseAll(task), nil)
	})
}

func TestListsBelongToTheContextInFlight(t *testing.T) {
	r := newRig(t, nil, 3, 4096)
	r.want("start", r.dma.Start(), nil)
	src, dst := r.src(0, 64, 2), r.dst(1024, 64, 1)
	task := r.alloc(src, dst)
	r.want("submit", task.Submit(), nil)
	r.want("set data", src.SetDataAt(0, 1), core.ErrInUse)
	r.want("reset", dst.ResetDataLen(), core.ErrInUse)
	r.want("set the source", task.SetSrc(nil), core.ErrBadState)
	r.want("set the destination", task.SetDst(nil), core.ErrBadState)
	r.want("stop the map", r.mmap.Stop(), core.ErrNotPermitted)
	for _, b := range []*mem.Buf{src, dst} { // dropped in flight: gone when it completes
		_, err := b.Unref()
		r.want("unref", err, nil)
	}
	r.want("free in flight", task.Free(), nil)
	if free := r.bufs.Free(); free != r.bufs.Len()-3 {
		t.Errorf("%d bufs free while a task has three", free)
	}
	r.free = false
	r.run(1)
	if free := r.bufs.Free(); free != r.bufs.Len() || r.dma.Unfreed() != 0 {
		t.Errorf("%d bufs free, %d tasks out after it", free, r.dma.Unfreed())
	}
}
