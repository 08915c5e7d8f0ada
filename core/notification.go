package core

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/internal/notify"
)

// An EventMode is what Progress looks at between a request for a notification
// and its clearing.
type EventMode uint8

const (
	// ProgressSelective looks only at contexts that had something to do when
	// the notification was requested, or that got it since. Clear is mandatory
	// after a wake-up. The default.
	ProgressSelective EventMode = 0
	// ProgressAll always looks at every context, and a request clears what was
	// there before.
	ProgressAll EventMode = 1
)

// What notification.wanted holds.
const (
	disarmed int32 = iota
	armed          // the next ready completion makes the descriptor readable
	fired          // it has; not cleared yet
)

// A notification is the waiting side of an engine.
//
// It cannot lose a wake-up: arming first stores armed and then looks at every
// context; a context first makes its completion visible and then loads wanted.
// One of the two sees the other.
type notification struct {
	mode   EventMode
	wanted atomic.Int32
	set    *notify.Set // nil until it is asked for
	owed   int         // signals that were given, or are just being given, and not taken back
	due    time.Time   // of the timer; zero for none
}

// FD returns the descriptor that becomes readable when the engine was armed
// and there is something to progress. It is the same for the life of the
// engine, which owns it: it may be polled, and put into an epoll set, but
// neither read nor closed. The first call, and the first of the other methods
// about notification, opens it; ErrNotSupported where there is no epoll.
func (e *Engine) FD() (int, error) {
	s, err := e.openSet("get the notification descriptor")
	if err != nil {
		return -1, err
	}
	return s.FD(), nil
}

// SetEventMode chooses the event mode. It may be called at any time but inside
// a callback (ErrBadState).
func (e *Engine) SetEventMode(m EventMode) error {
	if err := e.usable("set the event mode"); err != nil {
		return err
	}
	switch {
	case m > ProgressAll:
		return fmt.Errorf("set the event mode: %d is not one: %w", m, ErrInvalidValue)
	case e.calling:
		return fmt.Errorf("set the event mode: inside a callback: %w", ErrBadState)
	}
	e.mode = m
	return nil
}

// RequestNotification arms the engine: its descriptor becomes readable with
// the next completion, at once when one is ready already or when there is work
// that only Progress can do. Request again for every wait.
func (e *Engine) RequestNotification() error {
	s, err := e.openSet("request a notification")
	if err != nil {
		return err
	}
	if e.mode == ProgressAll {
		if err := e.ClearNotification(); err != nil {
			return err
		}
	}
	if e.wanted.Swap(armed) == fired {
		e.owed++
	}
	ready := false
	for _, c := range e.contexts {
		ready = c.arm() || ready
	}
	if ready && e.wanted.CompareAndSwap(armed, fired) {
		s.Signal()
	}
	return nil
}

// ClearNotification makes the descriptor quiet again and disarms the engine.
func (e *Engine) ClearNotification() error {
	s, err := e.openSet("clear the notification")
	if err != nil {
		return err
	}
	if e.wanted.Swap(disarmed) == fired {
		e.owed++
	}
	var timer, signal error
	if !e.due.IsZero() {
		e.due = time.Time{}
		timer = s.StopTimer()
	}
	if e.owed > 0 {
		var n int
		n, signal = s.TakeSignals()
		e.owed -= min(e.owed, n)
	}
	if err := errors.Join(timer, signal); err != nil {
		return fmt.Errorf("%w: %w", ErrOperatingSystem, err)
	}
	return nil
}

// Wait parks the goroutine until the descriptor is readable or ctx is done;
// then it returns the error of ctx. It holds no thread, and allocates nothing
// for a ctx that cannot be done. When waits of late were shorter than 40
// microseconds it first looks at the descriptor for up to 20.
func (e *Engine) Wait(ctx context.Context) error {
	s, err := e.openSet("wait")
	if err != nil {
		return err
	}
	defer e.interruptWith(ctx)()
	return waitError(ctx, s.Wait())
}

// interruptWith makes waits end when ctx does. The function it returns undoes
// that, and must be called.
func (e *Engine) interruptWith(ctx context.Context) (undo func()) {
	if ctx.Done() == nil || e.set == nil {
		return func() {}
	}
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		e.set.Interrupt()
	})
	return func() {
		if !stop() {
			<-over
			e.set.Resume()
		}
	}
}

// waitError turns the end of a wait into what the caller asked about.
func waitError(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, notify.ErrInterrupted):
		return context.Cause(ctx)
	}
	return fmt.Errorf("wait for the progress engine: %w: %w", ErrOperatingSystem, err)
}

// onlyEvents reports whether Progress must leave out contexts without an event.
func (e *Engine) onlyEvents() bool {
	return e.mode == ProgressSelective && e.wanted.Load() != disarmed
}

// fire makes the descriptor readable if the engine is armed. Any goroutine.
func (e *Engine) fire() {
	if e.wanted.CompareAndSwap(armed, fired) {
		e.set.Signal()
	}
}

// Watch makes the descriptor of the engine readable whenever fd is, for a
// backend that must be woken by one: its owner keeps fd and makes it quiet.
func (c *Context) Watch(fd int) error {
	return c.withSet("watch a descriptor", func(s *notify.Set) error { return s.Add(fd) })
}

// Unwatch undoes Watch.
func (c *Context) Unwatch(fd int) error {
	return c.withSet("stop watching a descriptor", func(s *notify.Set) error { return s.Remove(fd) })
}

// WakeAfter makes the descriptor of the engine readable once d is over: for a
// backend with a deadline, from its Arm. It holds until the notification is
// cleared. The earliest deadline of all contexts counts.
func (c *Context) WakeAfter(d time.Duration) error {
	e, at := c.engine, time.Now().Add(d)
	if !e.due.IsZero() && !at.Before(e.due) {
		return nil
	}
	err := c.withSet("set a timer", func(s *notify.Set) error { return s.SetTimer(d) })
	if err == nil {
		e.due = at
	}
	return err
}

func (c *Context) withSet(what string, do func(*notify.Set) error) error {
	s, err := c.engine.openSet(what)
	if err != nil {
		return err
	}
	if err := do(s); err != nil {
		return fmt.Errorf("%s: %w: %w", what, ErrOperatingSystem, err)
	}
	return nil
}

// openSet returns the notification set, opened when it is first needed.
func (e *Engine) openSet(verb string) (*notify.Set, error) {
	if err := e.usable(verb); err != nil {
		return nil, err
	}
	if e.set == nil {
		s, err := notify.New()
		switch {
		case errors.Is(err, errors.ErrUnsupported):
			return nil, fmt.Errorf("%s: no pollable descriptor on this system: %w", verb, ErrNotSupported)
		case err != nil:
			return nil, fmt.Errorf("%s: %w: %w", verb, ErrOperatingSystem, err)
		}
		e.set = s
	}
	return e.set, nil
}

func (e *Engine) closeSet() error {
	if e.set == nil {
		return nil
	}
	if err := os.NewSyscallError("close", e.set.Close()); err != nil {
		return fmt.Errorf("destroy the progress engine: %w: %w", ErrOperatingSystem, err)
	}
	return nil
}
