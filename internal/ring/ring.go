// Package ring holds bounded first-in, first-out rings that allocate nothing
// after they are made.
//
//   - [SPSC] is for one producer and one consumer at a time.
//   - [MPMC] is for any number of both.
//
// Both hand over with atomic operations on ordinary heap memory: what the
// producer wrote before Push is seen by the consumer after Pop, and the race
// detector sees it too. A full ring is a normal answer, and so is an empty one.
package ring

import "math/bits"

// A line is as far apart as two words must be so that writing one does not
// slow down the other: two cache lines, because they are fetched in pairs.
const line = 128

// MaxCapacity is the largest capacity that a ring can be asked for.
const MaxCapacity = 1 << 30

// round returns the capacity of a ring that was asked to hold n: the next
// power of two, at least 2.
func round(n int) uint64 {
	n = min(max(n, 2), MaxCapacity)
	return 1 << bits.Len64(uint64(n-1))
}
