package nic

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// numbers is how many numbers a table draws from: 24 bits, as in packets.
const numbers = 1 << 24

// A table finds things by a random 24-bit number. Looking up takes two loads
// and no lock; whoever looks up compares the full number, because the table
// indexes by the low bits only.
type table[T any] struct {
	slots atomic.Pointer[[]atomic.Pointer[T]]

	mu    sync.Mutex
	taken []uint32 // the number of the thing in each slot
	count int
}

// leastSlots is how many slots a table has at least: a power of two.
const leastSlots = 64

// init makes an empty table. It holds up to half as many things as it has
// slots, and then doubles.
func (t *table[T]) init() {
	s := make([]atomic.Pointer[T], leastSlots)
	t.taken = make([]uint32, len(s))
	t.slots.Store(&s)
}

// at returns the only thing that may have number n, or nil.
func (t *table[T]) at(n uint32) *T {
	s := *t.slots.Load()
	return s[n&uint32(len(s)-1)].Load()
}

// add finds a number that usable accepts and stores what create returns for it.
// It returns nil when limit things are in the table already.
func (t *table[T]) add(limit int, usable func(uint32) bool, create func(uint32) *T) *T {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.count >= limit {
		return nil
	}
	if 2*(t.count+1) > len(*t.slots.Load()) {
		t.grow()
	}
	s := *t.slots.Load()
	for {
		n := rand.Uint32N(numbers)
		slot := n & uint32(len(s)-1)
		if s[slot].Load() == nil && usable(n) {
			v := create(n)
			t.taken[slot] = n
			s[slot].Store(v)
			t.count++
			return v
		}
	}
}

// put stores v under number n, below leastSlots, whose place add is kept from by
// its usable. It returns false when something is there.
func (t *table[T]) put(n uint32, v *T) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := *t.slots.Load()
	if s[n].Load() != nil {
		return false
	}
	t.taken[n] = n
	s[n].Store(v)
	t.count++
	return true
}

// grow doubles the table. Things keep apart: they differ in the bits that were
// used before. The caller holds mu.
func (t *table[T]) grow() {
	old, taken := *t.slots.Load(), t.taken
	s := make([]atomic.Pointer[T], 2*len(old))
	t.taken = make([]uint32, len(s))
	for i := range old {
		if v := old[i].Load(); v != nil {
			slot := taken[i] & uint32(len(s)-1)
			t.taken[slot] = taken[i]
			s[slot].Store(v)
		}
	}
	t.slots.Store(&s)
}

// remove takes out what has number n.
func (t *table[T]) remove(n uint32) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := *t.slots.Load()
	s[n&uint32(len(s)-1)].Store(nil)
	t.count--
}

// all calls f for each thing in the table.
func (t *table[T]) all(f func(*T)) {
	s := *t.slots.Load()
	for i := range s {
		if v := s[i].Load(); v != nil {
			f(v)
		}
	}
}

// len returns how many things are in the table.
func (t *table[T]) len() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.count
}
