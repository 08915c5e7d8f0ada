package qp

import "sync/atomic"

// A SendQueue is the ring of work requests between those who post and the
// Sender that executes.
//
//	   head        acked        cursor        tail
//	----+------------+------------+------------+----
//	    | answered,  | sent, no   | posted     | free
//	    | not yet    | answer     |            |
//	    | completed  |            |            |
//
// Reserve and Publish belong to one goroutine at a time: whoever posts takes a
// lock of the queue pair. All else belongs to the Sender.
type SendQueue struct {
	slots []WQE
	depth uint32

	_    [64]byte // posting and completing do not share a cache line
	tail atomic.Uint32
	mine uint32 // reserved up to here, by the poster
	_    [64]byte
	head atomic.Uint32
}

// NewSendQueue returns a queue for depth requests, each with up to sges
// scatter entries and inline bytes of inline data. It is all the memory that
// sending will ever take.
func NewSendQueue(depth, sges, inline int) *SendQueue {
	size := 1
	for size < depth {
		size <<= 1
	}
	q := &SendQueue{slots: make([]WQE, size), depth: uint32(depth)}
	sg, data := make([]SGE, size*sges), make([]byte, size*inline)
	for i := range q.slots {
		w := &q.slots[i]
		w.SG = sg[i*sges : i*sges : (i+1)*sges]
		w.Data = data[i*inline : i*inline : (i+1)*inline]
	}
	return q
}

// Reserve returns the next free slot, or nil when the queue is full. Several
// slots may be reserved before they are published together.
func (q *SendQueue) Reserve() *WQE {
	if q.mine-q.head.Load() >= q.depth {
		return nil
	}
	w := q.at(q.mine)
	q.mine++
	return w
}

// Publish hands the reserved slots to the Sender, which is to be woken.
func (q *SendQueue) Publish() { q.tail.Store(q.mine) }

// Abandon gives back the newest n slots that are reserved and not published.
func (q *SendQueue) Abandon(n int) { q.mine -= uint32(n) }

// Depth returns how many requests the queue holds.
func (q *SendQueue) Depth() int { return int(q.depth) }

// Len returns how many published requests are not completed: any goroutine.
func (q *SendQueue) Len() int { return int(q.tail.Load() - q.head.Load()) }

// at returns the slot with that running number.
func (q *SendQueue) at(n uint32) *WQE { return &q.slots[n&uint32(len(q.slots)-1)] }
