package dma

import (
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/work"
)

// The way of a task through the executor:
//
//  1. Submit cuts it into parts and puts them into one queue (engine's
//     goroutine).
//  2. Flush wakes the first lane. A lane is a work item; there is one, or as
//     many as the work queue has workers.
//  3. A lane that runs takes part after part and copies; if parts remain, it
//     wakes the next lane.
//  4. Whoever finishes the last part of a task puts the task into the done
//     queue and notifies the engine.
//  5. Poll takes it from there (engine's goroutine).

// stepBytes is how much a lane copies in one step of its budget.
const stepBytes = 4 << 10

// Copies of splitAbove bytes or more are cut into parts of at least half as
// much, one for each lane at most. The figures are in docs/performance.md.
const splitAbove = 128 << 10

// A part is a range of a task: n bytes from off on.
type part struct {
	task   *Memcpy
	off, n int
}

// A lane copies one part at a time, as a work item. It never runs twice at the
// same time, so its fields need no lock.
type lane struct {
	item work.Item
	d    *Context
	next *lane // to be woken when there is more to do; nil if there is no other
	now  part  // being copied; task is nil between parts
}

func (l *lane) init(d *Context, i int) {
	l.d = d
	if n := len(d.lanes); n > 1 {
		l.next = &d.lanes[(i+1)%n]
	}
	l.item.Init(d.executor, l.run)
}

// run copies up to budget steps. Inside Progress, which reports one task, it
// ends with the first task that is finished: so what is behind that one can
// still be flushed, and its bytes are still in the cache for the callback.
func (l *lane) run(budget int) (more bool) {
	for budget > 0 {
		if l.now.task == nil && !l.take() {
			return false
		}
		budget -= l.step(budget)
		if l.d.inline && l.now.task == nil {
			break
		}
	}
	return l.now.task != nil || !l.d.parts.Empty()
}

// take fetches the next part, and calls for help if that was not the last one.
func (l *lane) take() (ok bool) {
	if l.now, ok = l.d.parts.Pop(); !ok {
		return false
	}
	if l.next != nil && !l.d.parts.Empty() {
		l.next.item.Wake()
	}
	switch t := l.now.task; {
	case l.d.flushing.Load():
		t.fail(core.ErrFlushed)
	case t.plan.wrong != fine:
		l.fault(t)
	}
	return true
}

// step copies some of the part, at most budget steps, and returns how many it
// took. Of a task that has failed there is nothing left to copy.
func (l *lane) step(budget int) (steps int) {
	t, n := l.now.task, l.now.n
	if !t.failed() {
		if steps = n / stepBytes; steps > budget {
			steps, n = budget, budget*stepBytes
		}
		if !t.copy(l.now.off, n) {
			l.fault(t)
		}
	}
	l.now.off += n
	l.now.n -= n
	if l.now.n == 0 {
		l.finish(t)
	}
	return max(steps, 1)
}

// fault fails a task as hardware would: what comes after it is not copied.
func (l *lane) fault(t *Memcpy) {
	t.fail(core.ErrIOFailed)
	l.d.flushing.Store(true)
}

// finish ends the part of t, and t with it if it was the last. From then on the
// task is the engine's.
func (l *lane) finish(t *Memcpy) {
	l.now = part{}
	if t.plan.parts > 1 && t.left.Add(-1) > 0 {
		return
	}
	l.d.done.Push(t) // there is room for every task
	l.d.Notify()
}
