package core

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/internal/notify"
)

// pollers is the number of Run loops that are awake, in the whole process.
var pollers atomic.Int32

// Run progresses the engine until done reports true or ctx is done, whose
// error it then returns. It asks done (which may be nil) before it first waits
// and after everything that happened.
//
// While there is something to do it polls. When there is nothing, it does what
// the traffic of late suggests: poll on if the pause is likely to be short,
// back off with naps of 10 to 100 microseconds if it may be, and else, or when
// that took too long, arm the engine, progress once more and block on the
// descriptor. When more loops poll than there are CPUs, it blocks at once.
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
	p := pacer{cpus: int32(runtime.GOMAXPROCS(0))}
	for {
		if done != nil && done() {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if e.Progress() {
			p.busy()
			continue
		}
		switch p.idle(time.Now(), pollers.Load()) {
		case spin:
		case nap:
			notify.Nap(p.nap)
		case block:
			if err := e.block(ctx, s); err != nil {
				return err
			}
		}
	}
}

// block arms the engine and parks the goroutine until there is something to
// do. What became ready before arming is found by the Progress after it. On a
// system without a descriptor it naps.
func (e *Engine) block(ctx context.Context, s *notify.Set) error {
	if s == nil {
		notify.Nap(longestNap)
		return nil
	}
	if err := e.RequestNotification(); err != nil {
		return err
	}
	var err error
	if !e.Progress() {
		pollers.Add(-1)
		err = waitError(ctx, s.Park())
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
