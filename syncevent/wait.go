package syncevent

import (
	"context"
	"runtime"
	"strconv"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/notify"
)

// A Comparison is what a wait asks of the value.
type Comparison uint8

// The comparisons of (value & mask) with what is waited for.
const (
	Equal    Comparison = 0
	NotEqual Comparison = 1
	Greater  Comparison = 2

	comparisons = 3
)

// String returns the comparison as an operator.
func (c Comparison) String() string {
	switch c {
	case Equal:
		return "=="
	case NotEqual:
		return "!="
	case Greater:
		return ">"
	}
	return "comparison " + strconv.Itoa(int(c))
}

// holds reports whether (v & mask) c want.
func (c Comparison) holds(v, mask, want uint64) bool {
	v &= mask
	switch c {
	case Equal:
		return v == want
	case NotEqual:
		return v != want
	}
	return v > want
}

// How waits look at the value.
const (
	looks       = 64   // between two questions whether to go on
	patience    = 4096 // looks before the CPU is offered to another process
	shortestNap = 10 * time.Microsecond
	longestNap  = 100 * time.Microsecond
)

// Wait returns when (value & mask) c want holds; it looks at the value all the
// time, and gives its CPU away only now and then, to those that wait for it. It
// is for waits of microseconds, on a CPU of its own: see WaitYield.
//
// It ends early with the cause of ctx when that is done, with core.ErrBadState
// when the event is stopped, with core.ErrConnectionReset when the owner of an
// imported event stopped it, or died, or with another code of Get. A value that
// came and went between two looks was not there. An unknown comparison and a
// nil ctx are core.ErrInvalidValue.
func (e *Event) Wait(ctx context.Context, c Comparison, want, mask uint64) error {
	return e.wait(ctx, c, want, mask, spin)
}

// WaitYield is Wait that gives the CPU to others between two looks, and after
// some 50 microseconds naps between them, for 10 microseconds first and for
// 100 in the end.
func (e *Event) WaitYield(ctx context.Context, c Comparison, want, mask uint64) error {
	return e.wait(ctx, c, want, mask, relax)
}

// wait looks and pauses. The pause says when to ask whether to go on.
func (e *Event) wait(ctx context.Context, c Comparison, want, mask uint64, pause func(n uint) bool) error {
	if c >= comparisons || ctx == nil {
		return core.ErrInvalidValue
	}
	if err := e.use(); err != nil {
		return err
	}
	defer e.leave()
	var end error // what to end with after a last look
	for n := uint(0); ; n++ {
		v, ok := e.value.load()
		switch {
		case !ok:
			return core.ErrIOFailed
		case c.holds(v, mask, want):
			return nil
		case end != nil:
			return end
		case pause(n):
			end = e.over(ctx)
		}
	}
}

// over returns why a wait does not go on, or nil.
func (e *Event) over(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !e.isOpen():
		return core.ErrBadState
	case e.lost():
		return core.ErrConnectionReset
	}
	return nil
}

// spin is the pause of Wait after its look number n.
func spin(n uint) (ask bool) {
	if n%looks != 0 {
		return false
	}
	runtime.Gosched() // the publisher may wait for this CPU
	if n%patience == 0 {
		notify.Yield() // also if it is another process
	}
	return true
}

// relax is the pause of WaitYield.
func relax(n uint) (ask bool) {
	if n < looks {
		runtime.Gosched()
		notify.Yield()
		return n == 0
	}
	notify.Nap(min(shortestNap<<min(n/looks-1, 4), longestNap))
	return true
}
