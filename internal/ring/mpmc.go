package ring

import "sync/atomic"

// An MPMC is a bounded ring for any number of producers and consumers. All its
// methods may be called by anyone at any time.
//
// Values come out in the order in which their producers claimed a place. A
// producer that is interrupted between its claim and its write holds up the
// values behind it, and Pop answers that there is none. The ring keeps no
// reference to a value that was popped.
type MPMC[T any] struct {
	cells []cell[T]
	mask  uint64
	_     [line - 32]byte
	head  atomic.Uint64 // next to pop
	_     [line - 8]byte
	tail  atomic.Uint64 // next to push
	_     [line - 8]byte
}

// A cell holds one value. Its turn says who may touch it: the producer that
// claims position turn, or the consumer that claims position turn - 1.
type cell[T any] struct {
	turn  atomic.Uint64
	value T
}

// NewMPMC returns an empty ring for at least n values: the capacity is the
// next power of two, between 2 and MaxCapacity.
func NewMPMC[T any](n int) *MPMC[T] {
	size := round(n)
	r := &MPMC[T]{cells: make([]cell[T], size), mask: size - 1}
	for i := range r.cells {
		r.cells[i].turn.Store(uint64(i))
	}
	return r
}

// Push adds v and reports whether there was room. A consumer that is
// interrupted between its claim and its read keeps its place: until it goes on,
// a ring may be full that holds next to nothing. So a Push that "cannot" fail,
// because there are never more values than places, can.
func (r *MPMC[T]) Push(v T) bool {
	for {
		pos := r.tail.Load()
		c := &r.cells[pos&r.mask]
		switch lag := int64(c.turn.Load() - pos); {
		case lag < 0: // still holds the value of the round before
			if r.tail.Load() == pos {
				return false
			}
		case lag == 0 && r.tail.CompareAndSwap(pos, pos+1):
			c.value = v
			c.turn.Store(pos + 1)
			return true
		}
	}
}

// Pop takes the oldest value and reports whether there was one.
func (r *MPMC[T]) Pop() (v T, ok bool) {
	for {
		pos := r.head.Load()
		c := &r.cells[pos&r.mask]
		switch lag := int64(c.turn.Load() - (pos + 1)); {
		case lag < 0: // not written yet
			if r.head.Load() == pos {
				return v, false
			}
		case lag == 0 && r.head.CompareAndSwap(pos, pos+1):
			var zero T
			v, c.value = c.value, zero
			c.turn.Store(pos + r.mask + 1)
			return v, true
		}
	}
}

// Len returns about how many values the ring holds: a value counts from its
// producer's claim to its consumer's claim.
func (r *MPMC[T]) Len() int { return length(&r.head, &r.tail, r.mask) }

// Empty reports whether Len is 0: two loads.
func (r *MPMC[T]) Empty() bool { return r.head.Load() == r.tail.Load() }

// Cap returns how many values the ring can hold.
func (r *MPMC[T]) Cap() int { return len(r.cells) }
