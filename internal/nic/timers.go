package nic

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/internal/qp"
)

// timers wake halves at their deadlines.
//
// A deadline moves away with every acknowledgement, far more often than it is
// reached. So the heap holds for each half an instant that is not later than
// its deadline, and learns the true one only when that instant comes.
type timers struct {
	next atomic.Int64 // the earliest instant in the heap, or 0
	size atomic.Int64 // halves in the heap: those that wait, or did a moment ago
	wake chan struct{}

	mu   sync.Mutex
	heap []*half
	done bool
}

// expects notes the deadline of the machine. With a circle, it is only touched
// under the lock of that.
func (h *half) expects(at qp.Instant) {
	if h.circle != nil {
		h.due = int64(at)
	} else if h.deadline.Load() != int64(at) {
		h.deadline.Store(int64(at))
	}
}

func (h *half) expected() int64 {
	if h.circle != nil {
		return h.due
	}
	return h.deadline.Load()
}

// schedule makes sure that h is woken at its deadline.
func (t *timers) schedule(h *half, at qp.Instant) {
	h.expects(at)
	if at == 0 {
		return
	}
	if known := h.known.Load(); known != 0 && known <= int64(at) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.done {
		return
	}
	if h.place == 0 {
		t.heap = append(t.heap, h)
		h.place = len(t.heap)
	}
	h.known.Store(int64(at))
	t.up(h.place - 1)
	t.publish()
}

// publish says what the earliest instant is. The caller holds mu.
func (t *timers) publish() {
	var at int64
	if len(t.heap) > 0 {
		at = t.heap[0].known.Load()
	}
	t.size.Store(int64(len(t.heap)))
	earlier := at != 0 && (t.next.Load() == 0 || at < t.next.Load())
	t.next.Store(at)
	if earlier && t.wake != nil {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}

// expire wakes the halves whose deadline has come.
func (t *timers) expire(now qp.Instant) {
	if at := t.next.Load(); at == 0 || at > int64(now) {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.heap) > 0 && t.heap[0].known.Load() <= int64(now) {
		h := t.heap[0]
		if at := h.expected(); at > int64(now) {
			h.known.Store(at)
			t.down(0)
			continue
		}
		t.take(h)
		// Looked at after the place in the heap is gone: a deadline that is
		// set meanwhile may have relied on it.
		if h.expected() != 0 {
			h.wake()
		}
	}
	t.publish()
}

// reserve makes room for n halves, so that schedule allocates nothing.
func (t *timers) reserve(n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heap = slices.Grow(t.heap, max(n-len(t.heap), 0))
}

// remove forgets h, which goes away.
func (t *timers) remove(h *half) {
	h.alone(func() { h.expects(0) })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.take(h)
	t.publish()
}

// take takes h out of the heap. The caller holds mu.
func (t *timers) take(h *half) {
	if h.place == 0 {
		return
	}
	at, last := h.place-1, len(t.heap)-1
	t.swap(at, last)
	t.heap[last] = nil
	t.heap = t.heap[:last]
	h.place = 0
	h.known.Store(0)
	if at < last {
		t.up(at)
		t.down(at)
	}
}

func (t *timers) before(i, j int) bool {
	return t.heap[i].known.Load() < t.heap[j].known.Load()
}

func (t *timers) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.heap[i].place, t.heap[j].place = i+1, j+1
}

func (t *timers) up(i int) {
	for i > 0 && t.before(i, (i-1)/2) {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (t *timers) down(i int) {
	for {
		least := i
		for _, c := range [...]int{2*i + 1, 2*i + 2} {
			if c < len(t.heap) && t.before(c, least) {
				least = c
			}
		}
		if least == i {
			return
		}
		t.swap(i, least)
		i = least
	}
}

// loop wakes halves until stop, on a goroutine of its own: for devices that
// nobody polls.
func (t *timers) loop(clock func() qp.Instant) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-t.wake:
		}
		t.expire(clock())
		t.mu.Lock()
		done := t.done
		t.mu.Unlock()
		if done {
			return
		}
		if at := t.next.Load(); at != 0 {
			timer.Reset(max(time.Duration(at-int64(clock())), 0))
		}
	}
}

// stop ends the loop and keeps what is in the heap from being woken.
func (t *timers) stop() {
	t.mu.Lock()
	t.done = true
	t.mu.Unlock()
	if t.wake != nil {
		select {
		case t.wake <- struct{}{}:
		default:
		}
	}
}
