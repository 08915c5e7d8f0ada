package core

import (
	"fmt"
	"slices"
)

// progressBudget is how many steps one Progress call may take when it
// completes nothing: 64 steps of 4 KiB are 256 KiB of copying.
const progressBudget = 64

// An Engine is a progress engine: what moves its contexts on, and calls the
// application back.
//
// An engine belongs to one goroutine at a time. It has no goroutine of its
// own, and no descriptor until one is asked for.
type Engine struct {
	contexts []*Context
	next     int  // whose turn it is
	calling  bool // a callback is running

	pending []transition // made inside a callback, to be reported after it

	destroyed bool
	watchdog  *watchdog
	notification
}

// A transition is a state change of a context that is to be reported.
type transition struct {
	context    *Context
	prev, next State
}

// NewEngine makes an engine without contexts. Destroy it in the end.
func NewEngine() (*Engine, error) {
	return &Engine{pending: make([]transition, 0, 8)}, nil
}

// Destroy gives back what the engine holds. It answers ErrInUse while contexts
// are connected: destroy them first.
func (e *Engine) Destroy() error {
	if err := e.usable("destroy"); err != nil {
		return err
	}
	if n := len(e.contexts); n > 0 {
		return fmt.Errorf("destroy the progress engine: %d contexts are connected, first %s: %w",
			n, e.contexts[0].label, ErrInUse)
	}
	e.destroyed = true
	e.watchdog.stop()
	return e.closeSet()
}

// usable answers with the code for an engine that is nil or destroyed.
func (e *Engine) usable(verb string) error {
	switch {
	case e == nil:
		return fmt.Errorf("%s: the progress engine is nil: %w", verb, ErrInvalidValue)
	case e.destroyed:
		return fmt.Errorf("%s: the progress engine is destroyed: %w", verb, ErrBadState)
	}
	return nil
}

// Connect links an idle context to the engine, until the context is destroyed.
// It answers ErrInvalidValue for nil, ErrBadState for a context that is not
// idle, and ErrNotPermitted for one that is connected already.
func (e *Engine) Connect(c *Context) error {
	if err := e.usable("connect"); err != nil {
		return err
	}
	switch {
	case c == nil || c.backend == nil:
		return fmt.Errorf("connect: the context is nil: %w", ErrInvalidValue)
	case c.destroyed:
		return fmt.Errorf("connect %s: it is destroyed: %w", c.label, ErrBadState)
	case c.state != Idle:
		return fmt.Errorf("connect %s: it is %v: %w", c.label, c.state, ErrBadState)
	case c.engine != nil:
		return fmt.Errorf("connect %s: it has a progress engine: %w", c.label, ErrNotPermitted)
	}
	c.engine = e
	e.contexts = append(e.contexts, c)
	return nil
}

// remove takes a context out that is being destroyed.
func (e *Engine) remove(c *Context) {
	i := slices.Index(e.contexts, c)
	e.contexts = slices.Delete(e.contexts, i, i+1)
	if e.next > i {
		e.next--
	}
}

// Progress does one thing and reports whether there was one: at most one
// completion is handled, or a context moves on, or a bounded part of a long
// task is done (about 256 KiB of copying). Contexts take turns. From inside a
// callback, and on a destroyed engine, it does nothing and reports false.
func (e *Engine) Progress() bool {
	if e == nil || e.calling || e.destroyed {
		return false
	}
	if e.watchdog != nil {
		e.watchdog.beats.Add(1)
	}
	only := e.onlyEvents()
	for range e.contexts {
		if e.next >= len(e.contexts) {
			e.next = 0
		}
		c := e.contexts[e.next]
		e.next++
		if only && !c.event.Load() {
			continue
		}
		if c.progress(progressBudget) {
			return true // and touch nothing: the callback may have changed the list
		}
	}
	return false
}

// ProgressBatch calls Progress until it reports false, n times at most, and
// returns how often it did something.
func (e *Engine) ProgressBatch(n int) (did int) {
	for did < n && e.Progress() {
		did++
	}
	return did
}

// Inflight returns the number of tasks in flight over all contexts.
func (e *Engine) Inflight() int {
	n := 0
	for _, c := range e.contexts {
		n += c.inflight
	}
	return n
}

// report tells the application of t: at once, or after the callback that runs.
func (e *Engine) report(t transition) {
	e.pending = append(e.pending, t)
	if !e.calling {
		e.reportPending()
	}
}

// reportPending reports what is pending, including what the reports bring.
func (e *Engine) reportPending() {
	for len(e.pending) > 0 {
		t := e.pending[0]
		e.pending = slices.Delete(e.pending, 0, 1)
		if f := t.context.onState; f != nil {
			e.calling = true
			f(t.context, t.prev, t.next)
			e.calling = false
		}
	}
}
