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
	top   atomic.Pointer[Item]
	side  stack // what is queued while top is locked
	phase atomic.Uint32
	lock  Item // only its address is used
	batch List // belongs to the driver
}

// The phases of an inline executor.
const (
	open    = iota
	closing // Close waits for its turn: nobody else begins to drive
	closed  // whatever is queued is dropped, by whoever sees it last
)

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
	if x.phase.Load() == closed {
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
	if x.phase.Load() != open || !x.take(false) {
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
	x.phase.CompareAndSwap(open, closing)
	for inside := insideRun(); !x.take(true); runtime.Gosched() {
		if inside {
			x.phase.Store(closed)
			x.sweep()
			return
		}
	}
	x.phase.Store(closed)
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
// when somebody drives, and on an empty queue unless empty is wanted too.
func (x *Inline) take(empty bool) bool {
	for {
		// Look at the side first: what comes there after the swap is newer
		// than what the swap takes. It is rarely anything but empty here.
		late := !x.side.empty()
		top := x.top.Load()
		if top == &x.lock || top == nil && !late && !empty {
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
	if x.phase.Load() == closed {
		x.sweep()
	}
}

// sweep drops what is queued. If somebody drives, that driver will do it: it
// looks at closed after it has unlocked.
func (x *Inline) sweep() {
	for x.take(false) {
		for i := x.batch.Pop(); i != nil; i = x.batch.Pop() {
			i.Drop()
		}
		x.top.Store(x.side.take())
	}
}
