package work

import "runtime"

// Disable stops the item until Enable. When it returns, the item is not
// running and will not run; what was queued and has not started is dropped.
// It waits for a run in progress, and not for the work: what that run left
// undone stays with its owner. Wakes are ignored until Enable.
//
// Called from inside a run (of this or of any other item, on any executor) it
// returns at once, and the drain is complete when the run in progress returns:
// [Item.State] then says so. A wait there could never end, as when two items
// disable each other.
func (i *Item) Disable() { i.drain(false) }

// Close is Disable for good: afterwards the item is invalid, and Wake, Enable
// and Disable do nothing.
func (i *Item) Close() { i.drain(true) }

// Enable lets a disabled item be woken again. Wakes that came in between, and
// those that Disable dropped, are not remembered: wake it if it may have work.
// An item that still drains goes on running as if it had not been disabled.
func (i *Item) Enable() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for !i.closed {
		w := i.load()
		next := w
		switch w.state() {
		case Drained:
			next = w.with(Idle)
		case Draining:
			next = w.with(Busy)
		}
		if next == w || i.swap(w, next) {
			return
		}
	}
}

func (i *Item) drain(closing bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.load().state() == Invalid {
		return
	}
	i.closed = i.closed || closing
	w := i.stop()
	if !w.has(running) || insideRun() {
		return
	}
	i.await()
}

// stop moves the item to its end state, or to Draining if it runs, and
// returns the word it left. The caller holds mu.
func (i *Item) stop() word {
	for {
		w := i.load()
		next := w.with(Drained)
		switch {
		case w.has(running):
			next = w.with(Draining)
		case i.closed:
			next = w.with(Invalid)
		}
		if next == w || i.swap(w, next) {
			return next
		}
	}
}

// await returns when the run in progress has ended. The caller holds mu, which
// the end of that run needs once the flag is up.
func (i *Item) await() {
	for {
		w := i.load()
		if !w.has(running) {
			return
		}
		if i.swap(w, w|awaited) {
			break
		}
	}
	for seen := i.ends; i.ends == seen; {
		i.ended.Wait()
	}
}

// execName is how the runtime calls Exec on a stack. A test holds it.
const execName = "github.com/gantry-rdma/gantry/work.(*Item).Exec"

// insideRun reports whether the caller is, at some depth, inside a run. It
// walks the stack: a microsecond or two, and only paid by a drain that has
// met a run in progress.
func insideRun() bool {
	var pcs [64]uintptr
	for skip := 2; ; skip += len(pcs) {
		n := runtime.Callers(skip, pcs[:])
		frames := runtime.CallersFrames(pcs[:n])
		for {
			f, more := frames.Next()
			if f.Function == execName {
				return true
			}
			if !more {
				break
			}
		}
		if n < len(pcs) {
			return false
		}
	}
}
