package nic

import "github.com/gantry-rdma/gantry/internal/qp"

// timeWait is how long the number of a queue pair stays unused after it is
// gone, so that packets that are still on their way find nobody: longer than
// a peer's retries take with common settings.
const timeWait qp.Instant = 4e9

// lateNumbers is how many numbers are kept from use at most. With more, the
// oldest is released early.
const lateNumbers = 1 << 16

// A recent holds the numbers that were used lately. The lock of the table of
// queue pairs guards it.
type recent struct {
	until map[uint32]qp.Instant
	queue []uint32 // oldest first
}

// add keeps n from use for a while.
func (r *recent) add(n uint32, now qp.Instant) {
	if r.until == nil {
		r.until = map[uint32]qp.Instant{}
	}
	r.expire(now)
	if len(r.queue) == lateNumbers {
		delete(r.until, r.queue[0])
		r.queue = r.queue[1:]
	}
	r.until[n] = now + timeWait
	r.queue = append(r.queue, n)
}

// has reports whether n is kept from use.
func (r *recent) has(n uint32, now qp.Instant) bool {
	r.expire(now)
	_, ok := r.until[n]
	return ok
}

func (r *recent) expire(now qp.Instant) {
	for len(r.queue) > 0 && r.until[r.queue[0]] <= now {
		delete(r.until, r.queue[0])
		r.queue = r.queue[1:]
	}
}
