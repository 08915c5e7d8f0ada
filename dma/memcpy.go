package dma

import (
	"sync/atomic"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/mem"
)

// A Memcpy is a task that copies the data of one buf list behind the data of
// another. It is submitted, freed and asked for its status by the methods of
// core.Task.
type Memcpy struct {
	core.Task
	src, dst *mem.Buf

	plan plan // what was found at submit

	// Executors share these while the task is in flight.
	left    atomic.Int32  // parts that are not finished
	outcome atomic.Uint32 // a core.Status: Success until a part fails

	seq uint32 // of its submit
}

// AllocMemcpy takes a task from the pool, for a copy from src to dst. It
// answers core.ErrBadState when the context is not running and
// core.ErrNoMemory when all tasks are out.
func (d *Context) AllocMemcpy(src, dst *mem.Buf) (*Memcpy, error) {
	t, err := d.tasks.Alloc()
	if err != nil {
		return nil, err
	}
	t.src, t.dst = src, dst
	return t, nil
}

// Src returns the head of the source list.
func (t *Memcpy) Src() *mem.Buf { return t.src }

// Dst returns the head of the destination list.
func (t *Memcpy) Dst() *mem.Buf { return t.dst }

// SetSrc sets the head of the source list. It answers core.ErrBadState while
// the task is in flight.
func (t *Memcpy) SetSrc(b *mem.Buf) error { return t.set(&t.src, b) }

// SetDst sets the head of the destination list. It answers core.ErrBadState
// while the task is in flight.
func (t *Memcpy) SetDst(b *mem.Buf) error { return t.set(&t.dst, b) }

func (t *Memcpy) set(to **mem.Buf, b *mem.Buf) error {
	if !t.Owned() {
		return core.ErrBadState
	}
	*to = b
	return nil
}

// fail makes s the outcome, unless the task has failed already.
func (t *Memcpy) fail(s core.Status) {
	t.outcome.CompareAndSwap(uint32(core.Success), uint32(s))
}

// failed reports whether a part has failed.
func (t *Memcpy) failed() bool { return t.status() != core.Success }

func (t *Memcpy) status() core.Status { return core.Status(t.outcome.Load()) }

// copy copies n bytes, off bytes into the lists. It reports false if memory
// was not there.
func (t *Memcpy) copy(off, n int) (ok bool) {
	src, from := t.src, off
	for from >= src.DataLen() {
		from -= src.DataLen()
		src = src.Next()
	}
	dst, to := t.dst, off
	for to >= dst.Tail() {
		to -= dst.Tail()
		dst = dst.Next()
	}
	for {
		s, d := src.Data()[from:], dst.TailBytes()[to:]
		k := min(len(s), len(d), n)
		if !t.move(d[:k], s[:k]) {
			return false
		}
		if n -= k; n == 0 {
			return true
		}
		if from += k; k == len(s) {
			src, from = src.Next(), 0
		}
		if to += k; k == len(d) {
			dst, to = dst.Next(), 0
		}
	}
}

// move copies one run of bytes. Only memory that may not be there needs care.
func (t *Memcpy) move(dst, src []byte) (ok bool) {
	if t.plan.faulting {
		_, ok = sys.Copy(dst, src)
		return ok
	}
	copy(dst, src)
	return true
}

// grow adds what was copied to the data of the destination list.
func (t *Memcpy) grow() {
	for b, n := t.dst, t.plan.size; n > 0; b = b.Next() {
		k := min(n, b.Tail())
		_ = b.Grow(k) // it fits: k is at most the tail
		n -= k
	}
}
