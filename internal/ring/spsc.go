package ring

import "sync/atomic"

// An SPSC is a bounded ring from one producer to one consumer.
//
// Push belongs to one goroutine at a time, and so does Pop; the two may run at
// once. Len, Empty and Cap are for anyone. The ring keeps no reference to a
// value that was popped.
type SPSC[T any] struct {
	cells []T
	mask  uint64
	_     [line - 32]byte

	head atomic.Uint64 // next to pop; written by the consumer
	seen uint64        // the consumer's copy of tail: refreshed when used up
	_    [line - 16]byte

	tail atomic.Uint64 // next to push; written by the producer
	free uint64        // the producer's copy of head: refreshed when used up
	_    [line - 16]byte
}

// NewSPSC returns an empty ring for at least n values: the capacity is the
// next power of two, between 2 and MaxCapacity.
func NewSPSC[T any](n int) *SPSC[T] {
	size := round(n)
	return &SPSC[T]{cells: make([]T, size), mask: size - 1}
}

// Push adds v and reports whether there was room. Producer only.
func (r *SPSC[T]) Push(v T) bool {
	tail := r.tail.Load()
	if tail-r.free > r.mask {
		if r.free = r.head.Load(); tail-r.free > r.mask {
			return false
		}
	}
	r.cells[tail&r.mask] = v
	r.tail.Store(tail + 1)
	return true
}

// Pop takes the oldest value and reports whether there was one. Consumer only.
func (r *SPSC[T]) Pop() (v T, ok bool) {
	head := r.head.Load()
	if head == r.seen {
		if r.seen = r.tail.Load(); head == r.seen {
			return v, false
		}
	}
	var zero T
	cell := &r.cells[head&r.mask]
	v, *cell = *cell, zero
	r.head.Store(head + 1)
	return v, true
}

// Len returns how many values the ring held at some moment during the call.
func (r *SPSC[T]) Len() int { return length(&r.head, &r.tail, r.mask) }

// Empty reports whether the ring is empty: two loads.
func (r *SPSC[T]) Empty() bool { return r.head.Load() == r.tail.Load() }

// Cap returns how many values the ring can hold.
func (r *SPSC[T]) Cap() int { return len(r.cells) }

// length is tail - head. The head is read first and may have moved on, so the
// difference is cut to what the ring can hold.
func length(head, tail *atomic.Uint64, mask uint64) int {
	h := head.Load()
	return int(min(tail.Load()-h, mask+1))
}
