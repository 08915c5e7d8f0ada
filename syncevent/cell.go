package syncevent

import (
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/sys"
)

// A cell is where the value of an event is. Others may be able to take the
// memory away: then an access answers false, and does no harm.
type cell struct {
	word     *atomic.Uint64
	faulting bool
}

func (c *cell) load() (v uint64, ok bool) {
	if c.faulting {
		ok = sys.Guard(func() { v = c.word.Load() })
		return v, ok
	}
	return c.word.Load(), true
}

func (c *cell) store(v uint64) (ok bool) {
	if c.faulting {
		return sys.Guard(func() { c.word.Store(v) })
	}
	c.word.Store(v)
	return true
}

// add adds n and returns what was there before.
func (c *cell) add(n uint64) (old uint64, ok bool) {
	if c.faulting {
		ok = sys.Guard(func() { old = c.word.Add(n) - n })
		return old, ok
	}
	return c.word.Add(n) - n, true
}
