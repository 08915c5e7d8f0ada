package qp

// The window, in packets: where it starts, and what it never shrinks below.
const (
	firstWindow = 16
	leastWindow = 8
)

// A window bounds how many packets are outstanding. It doubles per round trip
// until something is lost, and from then on grows by one per round trip; a loss
// takes three tenths of it, once for all that was outstanding then.
//
// The peer's socket buffer is what overflows, and nobody announces its size:
// packets lost are the only sign.
type window struct {
	now, max  int
	cap       int   // the share of the queue pair in what the device may
	threshold int   // from here on it grows slowly
	credit    int   // acknowledged since it last grew by one
	recover   int64 // outstanding up to here when it last shrank
}

// open starts a window that may grow to max.
func (w *window) open(max int) {
	*w = window{now: min(firstWindow, max), max: max, cap: max, threshold: max, recover: none}
}

// size returns how many packets may be outstanding: at least one.
func (w *window) size() int { return max(1, min(w.now, w.cap)) }

// acked grows the window, after n packets were acknowledged.
func (w *window) acked(n int) {
	if w.now < w.threshold {
		w.now = min(w.now+n, w.threshold)
		return
	}
	w.credit += n
	if w.credit >= w.now {
		w.credit -= w.now
		w.now = min(w.now+1, w.max)
	}
}

// lost shrinks the window, unless it has already because of these packets:
// una is the oldest outstanding, high one after the newest.
func (w *window) lost(una, high int64) {
	if una < w.recover {
		return
	}
	w.recover = high
	w.threshold = max(w.now*7/10, min(leastWindow, w.max))
	w.now, w.credit = w.threshold, 0
}

// timedOut shrinks it to one: nothing is known to be under way, and when many
// share a buffer that is full, more would only be lost again.
func (w *window) timedOut() {
	w.threshold = max(w.now/2, min(leastWindow, w.max))
	w.now, w.credit = 1, 0
}
