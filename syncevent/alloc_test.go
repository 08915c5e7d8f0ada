package syncevent

import (
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
)

func TestCallsAllocateNothing(t *testing.T) {
	e := startEvent(t)
	ctx := soon(t)
	allocs.None(t, func() {
		_ = e.Set(1)
		_, _ = e.Add(2)
		_, _ = e.Get()
		_ = e.Wait(ctx, Equal, 3, all)
		_ = e.WaitYield(ctx, Greater, 2, all)
	})
}

func TestTasksAllocateNothing(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	allocs.None(t, func() {
		r.done = r.done[:0]
		r.waitFor(1, Equal, 4, all)
		r.waitFor(2, Greater, 3, all)
		r.waitFor(3, NotEqual, 0, all)
		r.progress()
		r.notifySet(4, 3)
		r.notifyAdd(5, 1)
		r.get(6)
		r.progress()
		_ = r.Set(0)
		r.progress()
	})
	equal(t, "done", len(r.done), 6)
}

// TestBlockingAllocatesNothing arms the engine with a wait, which sets its
// timer.
func TestBlockingAllocatesNothing(t *testing.T) {
	e := newEvent(t, openDevice(t))
	want(t, "set the address", e.SetAddr(new(atomic.Uint64)), nil)
	r := newRig(t, e)
	r.waitFor(1, Equal, 4, all)
	allocs.None(t, func() {
		r.progress()
		_ = r.engine.RequestNotification()
		_ = r.engine.ClearNotification()
	})
}
