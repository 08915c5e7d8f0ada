package shmq

import (
	"encoding/binary"
	"sync/atomic"
)

// The memory of a queue, which the receiver makes:
//
//	  0  set by a receiver that waits for arrivals
//	128  set by a sender that waits for receives
//	256  posted receives, 16 bytes each:
//	       length, slot << 32, position + 1 << 48 | offset
//	...  arrivals, 64 bytes each:
//	       position + 1 | length, slot << 32 | from, immediate length << 16, void << 32 | - | immediate data
//
// The first word of an entry is stored last and says for which position it is,
// so no index is shared, and whoever looks for one entry loads one cache line.
// The less room the receives take, the more of them move with each line; 16
// bits of the position are enough to tell it from that of the lap before.
//
// Receives are claimed in the order in which they were posted; arrivals are
// published in the order in which they are complete. Neither ring can overflow
// while the receiver posts at most depth receives ahead of what has arrived.
const (
	arrivalArm = 0
	creditArm  = line / 8
	postsAt    = 2 * line

	postBytes    = 16
	arrivalBytes = 64
	postWords    = postBytes / 8
	arrivalWords = arrivalBytes / 8
)

// Limits of a queue.
const (
	MaxDepth   = 1 << 13 // receives that can be posted at a time
	MaxLength  = 1 << 30 // bytes of a receive
	MaxImmData = 32      // bytes of immediate data of an arrival
)

// depthOf returns the entries of a ring for n receives.
func depthOf(n int) int { return roundUp(min(n, MaxDepth), 8) }

// QueueSize returns how many bytes of memory a queue for n receives takes.
func QueueSize(n int) int { return postsAt + depthOf(n)*(postBytes+arrivalBytes) }

// A queue is what both ends know of the memory.
type queue struct {
	arrival, credit Arm
	posts           []atomic.Uint64
	arrivals        []atomic.Uint64
	bytes           []byte // the same memory as all of these
	mask            uint64
	broken          error
}

func (q *queue) init(mem []byte, n int) error {
	if n < 1 || n > MaxDepth {
		return violation("a queue of %d receives", n)
	}
	size := QueueSize(n)
	w, err := words(mem, size)
	if err != nil {
		return err
	}
	depth := depthOf(n)
	q.arrival, q.credit = Arm{&w[arrivalArm]}, Arm{&w[creditArm]}
	q.posts = w[postsAt/8 : postsAt/8+depth*postWords]
	q.arrivals = w[postsAt/8+depth*postWords:]
	q.bytes, q.mask = mem[:size], uint64(depth-1)
	return nil
}

// stale returns what the first word of an entry holds before position at is
// there: what the lap before left.
func (q *queue) stale(at uint64) uint64 {
	if at <= q.mask {
		return 0
	}
	return at - q.mask
}

// Broken returns the violation that ended this end of the queue, or nil.
func (q *queue) Broken() error { return q.broken }

// postAt returns where in bytes the receive at a position is.
func (q *queue) postAt(at uint64) int { return postsAt + int(at&q.mask)*postBytes }

// arrivalAt returns where in bytes the arrival at a position is.
func (q *queue) arrivalAt(at uint64) int {
	return postsAt + len(q.posts)*8 + int(at&q.mask)*arrivalBytes
}

// put stores a word that the first word of its entry will publish.
func (q *queue) put(at int, v uint64) { binary.NativeEndian.PutUint64(q.bytes[at:], v) }
