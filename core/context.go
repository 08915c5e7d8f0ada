package core

import (
	"fmt"
	"strconv"
	"sync/atomic"
)

// A State is where a context is in its life.
type State uint8

// The states of a context, with DOCA's numbers.
const (
	Idle     State = 0 // configure and connect here; no tasks
	Starting State = 1 // an asynchronous start is under way
	Running  State = 2 // tasks are allocated and submitted here
	Stopping State = 3 // tasks are flushed; Idle follows when all are freed
)

// String returns the name of the state.
func (s State) String() string {
	switch s {
	case Idle:
		return "idle"
	case Starting:
		return "starting"
	case Running:
		return "running"
	case Stopping:
		return "stopping"
	}
	return "state " + strconv.Itoa(int(s))
}

// A StateFunc is told of a transition. The context is in next already.
type StateFunc func(c *Context, prev, next State)

// A Context is the life of one library object: its state, its tasks, and its
// link to an engine. Libraries embed it and call Init.
//
// All methods but Notify belong to the goroutine of the engine.
type Context struct {
	User  uint64 // the application's word; never touched here
	Value any    // the application's value; likewise

	backend Backend
	engine  *Engine
	pools   []interface{ prepare() }
	onState StateFunc
	label   string

	inflight int       // submitted, and their callback has not returned
	live     int       // out of their pool
	ready    taskQueue // completed; each waits for its own Progress
	parked   taskQueue // completed, reports put off by SubmitOptimizeReports

	state     State
	waiting   bool        // Stop of the backend is not over
	destroyed bool        // for good
	event     atomic.Bool // something to do since the engine was armed
}

// Init binds the context to its backend, once, when the library makes it. The
// label names it in messages.
func (c *Context) Init(b Backend, label string) { c.backend, c.label = b, label }

// State returns the state of the context.
func (c *Context) State() State { return c.state }

// Engine returns the engine that the context is connected to, or nil.
func (c *Context) Engine() *Engine { return c.engine }

// Inflight returns the number of tasks that were submitted and whose callback
// has not returned.
func (c *Context) Inflight() int { return c.inflight }

// Unfreed returns the number of tasks that are not in their pool, in flight or
// not. A context that stops becomes idle when it is 0.
func (c *Context) Unfreed() int { return c.live }

// SetStateFunc sets the function that is told of every transition, in any
// state; nil for none.
func (c *Context) SetStateFunc(f StateFunc) { c.onState = f }

// Start makes the context ready for tasks. It returns nil when the context is
// running, ErrInProgress when it is starting and Progress goes on with it,
// ErrNotConnected without an engine, ErrBadState when it is not idle, and else
// why the library could not start.
func (c *Context) Start() error {
	switch {
	case c == nil || c.backend == nil:
		return fmt.Errorf("start: no context: %w", ErrInvalidValue)
	case c.destroyed:
		return fmt.Errorf("start %s: it is destroyed: %w", c.label, ErrBadState)
	case c.engine == nil:
		return fmt.Errorf("start %s: no progress engine is connected: %w", c.label, ErrNotConnected)
	case c.state != Idle:
		return fmt.Errorf("start %s: it is %v: %w", c.label, c.state, ErrBadState)
	}
	for _, p := range c.pools {
		p.prepare()
	}
	c.waiting = false
	switch err := c.backend.Start(); err {
	case nil:
		c.become(Running)
		return nil
	case ErrInProgress:
		c.become(Starting)
		return ErrInProgress
	default:
		return fmt.Errorf("start %s: %w", c.label, err)
	}
}

// Stop flushes the context. It returns nil when the context is idle, and
// ErrInProgress when tasks are in flight or not freed: then go on with
// Progress. Stopping an idle context does nothing. See also [Context.Shutdown].
func (c *Context) Stop() error {
	switch {
	case c == nil || c.backend == nil:
		return fmt.Errorf("stop: no context: %w", ErrInvalidValue)
	case c.engine == nil:
		return fmt.Errorf("stop %s: no progress engine is connected: %w", c.label, ErrNotConnected)
	case c.state == Idle:
		return nil
	case c.state == Stopping:
		return ErrInProgress
	}
	if err := c.halt(); err != nil {
		return err
	}
	// From inside a callback the last step is left to Progress, so that the
	// transition to idle is never reported within another callback.
	if !c.quiet() || c.engine.calling {
		return ErrInProgress
	}
	c.become(Idle)
	return nil
}

// halt begins to stop, from Running or Starting.
func (c *Context) halt() error {
	switch err := c.backend.Stop(); err {
	case nil:
		c.waiting = false
	case ErrInProgress:
		c.waiting = true
	default:
		return fmt.Errorf("stop %s: %w", c.label, err)
	}
	c.unpark()
	c.become(Stopping)
	return nil
}

// quiet reports whether nothing is between Stopping and Idle.
func (c *Context) quiet() bool { return c.inflight == 0 && c.live == 0 && !c.waiting }

// become moves to state next and reports it, now or after the callback that
// is running. The caller touches nothing of c after the way to Idle: the
// application may have destroyed it.
func (c *Context) become(next State) {
	e, prev := c.engine, c.state
	c.state = next
	if next != Idle {
		c.Notify() // the new state may bring work that only Progress can do
	}
	if c.onState != nil {
		e.report(transition{c, prev, next})
	}
}

// Flush pushes the tasks that were submitted without SubmitFlush. An idle
// context has none.
func (c *Context) Flush() {
	if c.state == Running {
		c.backend.Flush()
	}
}

// Destroy ends the context and takes it out of its engine. Libraries call it
// from their own Destroy, before they give up what the backend needs. It
// answers ErrBadState when the context is not idle, or destroyed already.
func (c *Context) Destroy() error {
	if c.state != Idle || c.destroyed {
		what := c.state.String()
		if c.destroyed {
			what = "destroyed"
		}
		return fmt.Errorf("destroy %s: it is %s: %w", c.label, what, ErrBadState)
	}
	c.destroyed = true
	if c.engine != nil {
		c.engine.remove(c)
	}
	return nil
}

// progress does one thing for the context, and says whether there was one.
func (c *Context) progress(budget int) bool {
	if c.state == Idle {
		return false
	}
	if t := c.ready.pop(); t != nil {
		c.deliver(t)
		return true
	}
	if c.backend.Poll(budget) {
		return true
	}
	if c.state == Stopping && c.quiet() {
		c.become(Idle)
		return true
	}
	return false
}

// arm reports whether progress would do something now. From here on Notify
// says when it would.
func (c *Context) arm() bool {
	c.event.Store(false)
	ready := c.state != Idle &&
		(c.backend.Arm() || c.ready.first != nil || c.state == Stopping && c.quiet())
	if ready {
		c.event.Store(true)
	}
	return ready
}
