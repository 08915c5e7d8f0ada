package work

import (
	"sync"
	"sync/atomic"
)

// A Run does up to budget steps and reports whether more remain.
//
// A step is one packet, one small task, or 4 KiB of copying. A Run must not
// panic, and must not wait for another item: see [Item.Disable].
type Run func(budget int) (more bool)

// Unlimited is the budget of an executor that lets each run complete. It is
// small enough to be multiplied by the bytes of a step.
const Unlimited = 1 << 30

// An Item is one piece of deferred work: a function, and whether it has
// something to do.
//
// The zero Item is invalid and ignores everything but Init. An Item must not
// be copied, and is initialised once in its life: an executor may still hold
// one that is closed. Disable and Enable are the way to stop and reuse it.
// All methods but Init may be called by any goroutine at any time.
type Item struct {
	word atomic.Uint64 // a word
	next *Item         // belongs to the executor that holds the item
	home int           // as next: the lane of a pool where it ran last
	x    Executor
	run  Run

	mu     sync.Mutex // orders Disable, Enable, Close and the end of a drain
	ended  sync.Cond  // on mu: a run that someone waits for has ended
	ends   uint64     // how many of those
	closed bool
}

// Init makes i an idle item that runs on x. It may be called once, before the
// item is shared. With a nil executor or run, or on an item that is not zero,
// it does nothing.
func (i *Item) Init(x Executor, run Run) {
	if x == nil || run == nil || i.run != nil {
		return
	}
	i.x, i.run = x, run
	i.ended.L = &i.mu
	i.word.Store(uint64(Idle))
}

// Wake says that there is something to do. It never waits and never allocates.
//
// A run that begins later sees everything that was written before the wake. A
// wake while the item runs causes one more run; a wake while it is queued is
// covered by the run that is due. A disabled or closed item ignores it.
func (i *Item) Wake() {
	for {
		w := i.load()
		next := w
		switch w.state() {
		case Idle:
			next = w.with(Busy) | queued
			next += schedule
		case Busy:
			if w.has(running) {
				next = w.with(Armed)
			}
		case Armed:
		default:
			return
		}
		// An unchanged word is written too: it is the write that the run
		// reads, and what makes the waker's earlier writes visible to it.
		if !i.swap(w, next) {
			continue
		}
		if next.has(queued) && !w.has(queued) {
			i.x.Queue(i)
		}
		return
	}
}

// WakePublished is Wake for a waker that has published its work with an atomic
// write, such as a push on a ring. It costs one load if the item is queued or
// armed already. Plain writes before it are not made visible to the run.
func (i *Item) WakePublished() {
	// The run that is due begins with an atomic operation that comes after
	// this load, and so after the waker's write.
	w := i.load()
	if w.state() == Armed || w.state() == Busy && !w.has(running) {
		return
	}
	i.Wake()
}

// Exec runs i once with the given budget, in steps. Only the executor that was
// given i by Queue calls it, once for each Queue. If it returns true, i wants
// to run again and is still the executor's: it must call Exec again, or Drop,
// and fairness asks that others come first.
//
// It does nothing when i was disabled or closed while it was queued.
func (i *Item) Exec(budget int) (again bool) {
	w, ok := i.begin()
	if !ok {
		return false
	}
	return i.end(w, i.run(budget))
}

// Enter begins a run of i on the caller if i is idle, and reports whether it
// did. The caller then is the run: it does what the item is there for, and calls
// Leave. It is for runs of other items of the same executor, which can so do
// together what two items have to do with each other: they wait for nobody.
func (i *Item) Enter() bool {
	w := i.load()
	if w.state() != Idle || w.has(queued) { // it may be in a queue since before it was disabled
		return false
	}
	return i.swap(w, w.with(Busy)|running+schedule)
}

// Leave ends a run that Enter began. An item that was woken meanwhile is queued.
func (i *Item) Leave() {
	if i.end(i.load(), false) {
		i.x.Queue(i)
	}
}

// begin marks the item as running and returns the word that it has now, or
// false if the item does not want to run any more.
func (i *Item) begin() (now word, ok bool) {
	for {
		w := i.load()
		now, ok = w&^queued, false
		if w.state() == Busy {
			now, ok = now|running, true
		}
		if i.swap(w, now) {
			return now, ok
		}
	}
}

// end closes a run and reports whether another is due. The state is cleared
// here, after the run, and not before it: that keeps a second run away. The
// word is mostly what begin left, so w is tried first: reading again what an
// atomic write has just touched costs more than the write.
func (i *Item) end(w word, more bool) (again bool) {
	for {
		if w.has(awaited) || w.state() == Draining {
			return i.endDrain(more)
		}
		if next := w.after(more, false); i.swap(w, next) {
			return next.has(queued)
		}
		w = i.load()
	}
}

// endDrain is end for a run that is drained or waited for.
func (i *Item) endDrain(more bool) (again bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for {
		w := i.load()
		next := w.after(more, i.closed)
		if !i.swap(w, next) {
			continue
		}
		if w.has(awaited) {
			i.ends++
			i.ended.Broadcast()
		}
		return next.has(queued)
	}
}

// after returns what w becomes at the end of a run. More counts for nothing
// while draining: the item must not come back to life.
func (w word) after(more, closed bool) word {
	w &^= running | awaited
	switch {
	case w.state() == Draining && closed:
		return w.with(Invalid)
	case w.state() == Draining:
		return w.with(Drained)
	case w.state() == Armed || more:
		return w.with(Busy) | queued
	default:
		return w.with(Idle)
	}
}

// Drop takes i from the queue without running it: for an executor that closes.
// Like Exec, it is called by the executor that holds i. The wakes that led
// to it are forgotten.
func (i *Item) Drop() {
	for {
		w := i.load()
		next := w &^ queued
		if w.state() == Busy {
			next = next.with(Idle)
		}
		if i.swap(w, next) {
			return
		}
	}
}

// State returns where the item is. It may have changed when the caller looks.
func (i *Item) State() State { return i.load().state() }

// Scheduled returns how often a wake has found the item idle.
func (i *Item) Scheduled() uint64 { return i.load().scheduled() }

// Done returns how many of those schedules have come to their end: by runs
// until nothing remained, or by Disable, Close or Drop. It equals Scheduled
// when the item is idle, drained or invalid.
func (i *Item) Done() uint64 { return i.load().done() }

func (i *Item) load() word              { return word(i.word.Load()) }
func (i *Item) swap(old, new word) bool { return i.word.CompareAndSwap(uint64(old), uint64(new)) }
