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
	tail  atomic.Uint32
	mine  uint32 // reserved up to here, by the poster
	freed uint32 // of head, as the poster last saw it: it looks again when that is too little

	// On another line: posting and completing do not write the same one. Whoever
	// holds a SendQueue sees to it that what is above lies on one line.
	_    [16]byte
	head atomic.Uint32
}

// NewSendQueue returns a queue: see Init.
func NewSendQueue(depth, sges, inline int) *SendQueue {
	q := new(SendQueue)
	q.Init(depth, sges, inline)
	return q
}

// Init makes room for depth requests, each with up to sges scatter entries and
// inline bytes of inline data. It is all the memory that sending will ever take.
func (q *SendQueue) Init(depth, sges, inline int) {
	size := 1
	for size < depth {
		size <<= 1
	}
	q.slots, q.depth = make([]WQE, size), uint32(depth)
	data := make([]byte, size*inline)
	var sg []SGE
	if sges > 1 {
		sg = make([]SGE, size*sges)
	}
	for i := range q.slots {
		w := &q.slots[i]
		if w.SG = w.one[:0:min(sges, 1)]; sges > 1 {
			w.SG = sg[i*sges : i*sges : (i+1)*sges]
		}
		w.Data = data[i*inline : i*inline : (i+1)*inline]
	}
}

// Reserve returns the next free slot, or nil when the queue is full. Several
// slots may be reserved before they are published together.
func (q *SendQueue) Reserve() *WQE {
	if q.mine-q.freed >= q.depth {
		if q.freed = q.head.Load(); q.mine-q.freed >= q.depth {
			return nil
		}
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

// at returns the slot with that running number, for who posts.
func (q *SendQueue) at(n uint32) *WQE { return &q.slots[n&uint32(len(q.slots)-1)] }
