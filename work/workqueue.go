package work

import (
	"runtime"
	"strconv"
)

// A Workqueue runs its items on several worker goroutines. A run gets [Budget]
// steps; an item that wants more goes behind the others.
//
// Each worker has a queue. An item stays with the worker that ran it last, and
// so do its cache lines, until a worker without work steals half of another's
// queue. Such a worker looks around for some microseconds before it parks, so
// that the next wake is cheap and fast. One worker at a time does that.
type Workqueue struct{ pool pool }

// NewWorkqueue returns a work queue and starts its n workers: GOMAXPROCS when
// n is 0 or less. Close stops them. A program that polls with Drive works as
// one more, so it leaves a CPU to itself by asking for one less.
func NewWorkqueue(n int) *Workqueue {
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	x := new(Workqueue)
	x.pool.start(n, 1, Budget, spinLooks)
	return x
}

// Workers returns the number of worker goroutines.
func (x *Workqueue) Workers() int { return x.pool.workers }

// Queue is called by items: see [Executor].
func (x *Workqueue) Queue(i *Item) { x.pool.queue(i) }

// Ready reports whether something is queued. It costs two loads per worker.
func (x *Workqueue) Ready() bool { return x.pool.pending() }

// Drive lets a program that polls help: it runs one queued item on the caller
// and reports whether there was one. The run gets the budget, in steps; 0
// means [Budget]. Any number of goroutines may do this, and so may a run.
func (x *Workqueue) Drive(budget int) bool {
	return x.pool.help(orBudget(budget))
}

// Close runs what is queued once, stops the workers and waits for them: see
// [Executor]. It does not wait for a Drive on another goroutine.
func (x *Workqueue) Close() { x.pool.close() }

// String returns the kind and the number of workers: "workqueue(2)".
func (x *Workqueue) String() string {
	return "workqueue(" + strconv.Itoa(x.pool.workers) + ")"
}
