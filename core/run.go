package core

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/internal/notify"
)

// How Run waits. The figures behind these numbers are in docs/performance.md.
const (
	shortestNap = 10 * time.Microsecond
	longestNap  = 100 * time.Microsecond
)

// pollers is the number of Run loops that are awake, in the whole process.
var pollers atomic.Int32

// Run progresses the engine until done reports true or ctx is done, whose
// error it then returns. It asks done (which may be nil) before it first waits
// and after everything that happened.
//
// It polls while there is something to do, backs off from 10 to 100
// microseconds, and then arms the engine, progresses once more and blocks on
// the descriptor. When more loops poll than there are CPUs it blocks at once.
func (e *Engine) Run(ctx context.Context, done func() bool) error {
	s, err := e.openSet("run")
	if err != nil && StatusOf(err) != ErrNotSupported {
		return err
	}
	if e.calling {
		return fmt.Errorf("run: inside a callback: %w", ErrBadState)
	}
	defer e.interruptWith(ctx)()
	pollers.Add(1)
	defer pollers.Add(-1)
	nap := shortestNap
	for {
		if done != nil && done() {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		switch {
		case e.Progress():
			nap = shortestNap
		case nap <= longestNap && !crowded():
			notify.Nap(nap)
			nap *= 2
		case s == nil: // a system without a descriptor to block on
			notify.Nap(longestNap)
		default:
			if err := e.block(ctx, s); err != nil {
				return err
			}
			nap = shortestNap
		}
	}
}

// crowded reports whether more loops poll than there are CPUs for them.
func crowded() bool { return int(pollers.Load()) > runtime.GOMAXPROCS(0) }

// block arms the engine and parks the goroutine until there is something to
// do. What became ready before arming is found by the Progress after it.
func (e *Engine) block(ctx context.Context, s *notify.Set) error {
	if err := e.RequestNotification(); err != nil {
		return err
	}
	var err error
	if !e.Progress() {
		pollers.Add(-1)
		err = waitError(ctx, s.Wait())
		pollers.Add(1)
	}
	KeepFirst(&err, e.ClearNotification())
	return err
}

// Shutdown stops the context and progresses its engine until the context is
// idle or ctx is done. Other contexts of the engine are progressed too. When
// only tasks are in the way that the application has not freed, it answers
// ErrInUse at once and names their number.
func (c *Context) Shutdown(ctx context.Context) error {
	if err := c.Stop(); err != ErrInProgress {
		return err
	}
	e := c.engine
	if e.calling {
		return fmt.Errorf("shut down %s: inside a callback, where nothing can be progressed: %w", c.label, ErrBadState)
	}
	stuck := func() bool { return c.inflight == 0 && !c.waiting && c.live > 0 && c.ready.first == nil }
	err := e.Run(ctx, func() bool { return c.state == Idle || stuck() })
	switch {
	case c.state == Idle:
		return nil
	case stuck():
		return fmt.Errorf("shut down %s: %d tasks are not freed: %w", c.label, c.live, ErrInUse)
	}
	return fmt.Errorf("shut down %s, %d tasks in flight: %w", c.label, c.inflight, err)
}
