package dma

import "github.com/gantry-rdma/gantry/internal/ring"

// A queue leads from the engine's goroutine to the lanes, or back. Which one
// will do depends on who is at its ends.
type queue[T any] interface {
	Push(T) bool
	Pop() (T, bool)
	Empty() bool
}

// newQueue returns a queue for n values between the engine's goroutine and
// some lanes; alone means that the lane runs on that goroutine too.
func newQueue[T any](n, lanes int, alone bool) queue[T] {
	switch {
	case alone:
		return newFIFO[T](n)
	case lanes == 1:
		return ring.NewSPSC[T](n)
	default:
		return ring.NewMPMC[T](n)
	}
}

// A fifo is a queue for one goroutine.
type fifo[T any] struct {
	values     []T // a power of two
	head, tail uint
}

func newFIFO[T any](n int) *fifo[T] {
	size := 1
	for size < n {
		size *= 2
	}
	return &fifo[T]{values: make([]T, size)}
}

func (q *fifo[T]) Push(v T) bool {
	if q.tail-q.head == uint(len(q.values)) {
		return false
	}
	q.values[q.tail&uint(len(q.values)-1)] = v
	q.tail++
	return true
}

func (q *fifo[T]) Pop() (v T, ok bool) {
	if q.Empty() {
		return v, false
	}
	v = q.values[q.head&uint(len(q.values)-1)]
	q.head++
	return v, true
}

func (q *fifo[T]) Empty() bool { return q.head == q.tail }
