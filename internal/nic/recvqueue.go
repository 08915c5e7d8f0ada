package nic

import (
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/qp"
)

// A recvQueue is the ring of posted receives of one queue pair.
//
//	   done          taken         posted
//	----+-------------+--------------+------
//	    | in use by   | posted       | free
//	    | the machine |              |
//
// Posting takes a lock; taking and completing belong to the receive half.
type recvQueue struct {
	slots  []qp.RecvWQE
	mu     sync.Mutex
	depth  uint32
	next   uint32        // to be posted; under mu
	posted atomic.Uint32 // written under mu
	freed  uint32        // of done, as posters last saw it; under mu

	// On another line: posting and executing do not write the same one.
	_         [64]byte
	ring      []qp.RecvWQE // slots, for who takes
	taken     uint32
	seen      uint32        // of posted
	completed uint32        // by the machine, and by done when free was called
	done      atomic.Uint32 // what posters may know of it
}

func (r *recvQueue) init(depth, sges int) {
	size := 1
	for size < depth {
		size <<= 1
	}
	r.slots, r.depth = qp.NewReceives(size, sges), uint32(depth)
	r.ring = r.slots
}

func (r *recvQueue) at(n uint32) *qp.RecvWQE { return &r.slots[n&uint32(len(r.slots)-1)] }

// full reports whether no more can be posted. The caller holds mu.
func (r *recvQueue) full() bool {
	if r.next-r.freed < r.depth {
		return false
	}
	r.freed = r.done.Load()
	return r.next-r.freed >= r.depth
}

// publish shows what was posted, once for a whole list: an atomic write costs
// as much as all the rest of a post. The caller holds mu.
func (r *recvQueue) publish() { r.posted.Store(r.next) }

// take is for the machine.
func (r *recvQueue) take() *qp.RecvWQE {
	if r.taken == r.seen {
		if r.seen = r.posted.Load(); r.taken == r.seen {
			return nil
		}
	}
	w := &r.ring[r.taken&uint32(len(r.ring)-1)]
	r.taken++
	return w
}

// free lets the slots of completed receives be posted again: before anybody
// sees the completions.
func (r *recvQueue) free() {
	if r.done.Load() != r.completed {
		r.done.Store(r.completed)
	}
}

// reset forgets all receives. Nobody runs the half.
func (r *recvQueue) reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.next, r.freed = 0, 0
	r.posted.Store(0)
	r.done.Store(0)
	r.taken, r.seen, r.completed = 0, 0, 0
}
