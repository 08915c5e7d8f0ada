package dma

import (
	"fmt"
	"runtime"

	"github.com/gantry-rdma/gantry/core"
)

// backend is Context with the methods that core calls.
type backend Context

var _ core.Backend = (*backend)(nil)

// A driver is an executor whose work Poll can do.
type driver interface {
	Ready() bool
	Drive(budget int) bool
}

// Start makes the queues for the configured number of tasks.
func (b *backend) Start() error {
	n := b.tasks.Size()
	if n == 0 {
		return fmt.Errorf("no memcpy tasks are configured: %w", core.ErrInitialization)
	}
	b.flushing.Store(false)
	if n != b.sized {
		lanes, alone := len(b.lanes), b.executor == nil
		b.parts = newQueue[part](n*lanes, lanes, alone)
		b.done = newQueue[*Memcpy](n, lanes, alone)
		b.reports.init(n)
		b.sized = n
	}
	b.reports.settle()
	return nil
}

// Stop lets the lanes hurry through what is queued.
func (b *backend) Stop() error {
	b.flushing.Store(true)
	b.Flush()
	return nil
}

// Check is the full check of TrySubmit.
func (b *backend) Check(t *core.Task) error {
	m := b.tasks.Of(t)
	f := m.lend()
	if f.wrong == fine {
		var p plan
		f = p.make(m, b.device)
		m.giveBack()
	}
	return f.err()
}

// Submit queues the parts of a task. What is wrong with it is found here,
// while its lists are at hand, and makes it fail when its turn comes.
func (b *backend) Submit(t *core.Task) error {
	m := b.tasks.Of(t)
	m.plan = plan{parts: 1}
	if m.failed() { // the last time; a load is cheaper than a store
		m.outcome.Store(uint32(core.Success))
	}
	f := m.lend()
	if f.wrong == fine {
		f = m.plan.make(m, b.device)
	}
	m.plan.wrong = f.wrong
	if f.wrong != fine && b.Watched() {
		b.Warn("a task was submitted that will fail", "slot", t.Slot(), "because", f.err())
	}
	m.seq = b.reports.submit()
	b.push(m)
	return nil
}

// push cuts m into parts and queues them. The queue has room for the parts of
// every task; but a lane that is interrupted while it takes a part keeps its
// place in the ring until it goes on, however few parts are left.
func (b *backend) push(m *Memcpy) {
	size, each := m.plan.size, m.plan.size
	if n := len(b.lanes); n > 1 && size >= splitAbove {
		n = min(n, size/(splitAbove/2))
		each = (size/n + stepBytes) / stepBytes * stepBytes
		m.plan.parts = int32((size + each - 1) / each)
		m.left.Store(m.plan.parts)
	}
	off := 0
	for range m.plan.parts {
		n := min(each, size-off)
		for !b.parts.Push(part{task: m, off: off, n: n}) {
			runtime.Gosched()
		}
		off += n
	}
}

// Flush wakes a lane for what was queued.
func (b *backend) Flush() {
	if b.executor == nil {
		b.alone.due = true
	} else {
		b.lanes[0].item.Wake()
	}
	if b.inline {
		b.Notify() // only Poll can do it
	}
}

// Poll reports a task, or does work of the executor if it can.
func (b *backend) Poll(budget int) bool {
	if b.executor == nil {
		// Each call reports what it finished, so nothing waits from before.
		if !b.alone.Drive(budget) {
			return false
		}
	} else {
		if t := b.finished(); t != nil {
			b.report(t)
			return true
		}
		if b.driver == nil || !b.driver.Drive(budget) {
			b.yield()
			return false
		}
	}
	if t := b.finished(); t != nil {
		b.report(t)
	}
	return true
}

// yield gives the CPU to a worker while there is something to wait for. Go puts
// a goroutine that is woken next on the CPU of its waker: if that one polls and
// never rests, the worker waits until another CPU steals it, which takes 100
// microseconds and more.
func (b *backend) yield() {
	if !b.inline && b.Inflight() > 0 {
		runtime.Gosched()
	}
}

// Arm reports whether Poll has something that nobody else would do.
func (b *backend) Arm() bool {
	return !b.done.Empty() || b.reports.ready() || b.inline && b.driver.Ready()
}

// finished returns the next task to report, or nil.
func (b *backend) finished() *Memcpy {
	if b.reports.ordered && len(b.lanes) > 1 {
		return b.reports.next(b.done)
	}
	t, _ := b.done.Pop()
	return t
}

// report gives a finished task back to the application.
func (b *backend) report(t *Memcpy) {
	s := t.status()
	if s == core.Success {
		t.grow()
	}
	t.giveBack()
	b.Complete(&t.Task, s)
	if s == core.ErrIOFailed {
		b.Fault()
	}
}
