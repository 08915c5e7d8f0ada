package work

import (
	"runtime"
	"sync/atomic"
)

// An Inline executor has no goroutine: its items run inside Drive, on the
// goroutine of whoever calls it. Several devices may share one, and several
// goroutines may drive it; one at a time does. If nobody drives, nothing runs.
type Inline struct {
	// top is nil, or the newest of the queued items, or &lock while somebody
	// drives: so one swap both locks the queue and takes what it holds.
	top    atomic.Pointer[Item]
	side   stack // what is queued while top is locked
	closed atomic.Bool
	lock   Item // only its address is used
	batch  List // belongs to the driver
}

// NewInline returns an inline executor.
func NewInline() *Inline { return new(Inline) }

// Queue is called by items: see [Executor].
func (x *Inline) Queue(i *Item) {
	for {
		top := x.top.Load()
		if top == &x.lock {
			x.side.push(i)
			break
		}
		i.next = top
		if x.top.CompareAndSwap(top, i) {
			break
		}
	}
	if x.closed.Load() {
		x.sweep()
	}
}

// Ready reports whether something is queued that Drive would run. It costs two
// loads of one cache line, so a poller can ask each time.
func (x *Inline) Ready() bool {
	top := x.top.Load()
	return top != nil && top != &x.lock || !x.side.empty()
}

// Drive runs once each item that is queued when it starts, in the order of
// their wakes, and reports whether there was one. Each gets the budget, in
// steps; 0 means [Budget]. What is queued meanwhile waits for the next Drive.
// While another Drive is under way, on another goroutine or around this one,
// it returns false at once.
func (x *Inline) Drive(budget int) bool {
	if !x.Ready() || !x.take() {
		return false
	}
	budget = orBudget(budget)
	for i := x.batch.Pop(); i != nil; i = x.batch.Pop() {
		if i.Exec(budget) {
			x.Queue(i)
		}
	}
	x.give()
	return true
}

// Close runs what is queued once, on the caller, and drops what is queued
// later: see [Executor]. It waits for a Drive on another goroutine. From
// inside a run it drops what waits for the next Drive.
func (x *Inline) Close() {
	for inside := insideRun(); !x.take(); runtime.Gosched() {
		if inside {
			x.closed.Store(true)
			x.sweep()
			return
		}
	}
	x.closed.Store(true)
	for i := x.batch.Pop(); i != nil; i = x.batch.Pop() {
		if i.Exec(Budget) {
			i.Drop()
		}
	}
	x.give()
}

// String returns "inline".
func (x *Inline) String() string { return "inline" }

// take locks the queue and moves what it holds to the batch. It returns false
// when somebody drives.
func (x *Inline) take() bool {
	for {
		// Look at the side first: what comes there after the swap is newer
		// than what the swap takes. It is rarely anything but empty here.
		late := !x.side.empty()
		top := x.top.Load()
		if top == &x.lock {
			return false
		}
		if !x.top.CompareAndSwap(top, &x.lock) {
			continue
		}
		if late {
			x.batch.pushNewest(x.side.take())
		}
		x.batch.pushNewest(top)
		return true
	}
}

// give unlocks the queue, with what has come to the side as its new content.
// While top is locked nobody else writes it.
func (x *Inline) give() {
	x.top.Store(x.side.take())
	if x.closed.Load() {
		x.sweep()
	}
}

// sweep drops what is queued. If somebody drives, that driver will do it: it
// looks at closed after it has unlocked.
func (x *Inline) sweep() {
	for x.Ready() && x.take() {
		for i := x.batch.Pop(); i != nil; i = x.batch.Pop() {
			i.Drop()
		}
		x.top.Store(x.side.take())
	}
}
