package core

// This file is the face of a context to its backend.

// Started ends an asynchronous start: the context is running. Called from
// Poll.
func (c *Context) Started() {
	if c.state == Starting {
		c.become(Running)
	}
}

// Stopped ends what Stop answered ErrInProgress for; in a context that was
// starting it says that the start failed. Called from Poll; the context is
// idle when its tasks are in their pools.
func (c *Context) Stopped() {
	c.waiting = false
	if c.state == Starting {
		c.become(Stopping)
	}
}

// Complete ends a task with status s. Called from Poll, for at most one task a
// call: the callback runs now, or, for a report that may wait, later.
func (c *Context) Complete(t *Task, s Status) {
	t.status = s
	t.endSpan()
	if t.flags&SubmitOptimizeReports != 0 && s == Success && c.state == Running {
		c.parked.push(t)
		if w := c.engine.watchdog; w != nil {
			w.put.Add(1)
		}
		return
	}
	if c.parked.first != nil {
		c.parked.push(t)
		c.unpark()
		t = c.ready.pop()
	}
	c.deliver(t)
}

// unpark makes the reports that were put off ready.
func (c *Context) unpark() {
	if w := c.engine.watchdog; w != nil {
		w.put.Add(-int64(c.parked.len))
	}
	c.ready.take(&c.parked)
}

// deliver gives a task back to the application. The task counts as in flight
// until the callback has returned.
func (c *Context) deliver(t *Task) {
	e := c.engine
	t.phase = owned
	e.calling = true
	t.class.complete(t)
	e.calling = false
	c.inflight--
	if t.doomed && t.phase == owned {
		t.release()
	}
	if w := e.watchdog; w != nil {
		w.work.Add(-1)
		w.done.Add(1)
	}
	if len(e.pending) > 0 {
		e.reportPending()
	}
}

// Event calls the application for something that ends no task, such as a
// message that came in: f runs as a callback does, never within another one,
// and state changes that it makes are reported after it. Called from Poll, for
// at most one event a call, which then completes no task.
func (c *Context) Event(f func()) {
	e := c.engine
	e.calling = true
	f()
	e.calling = false
	if len(e.pending) > 0 {
		e.reportPending()
	}
}

// Fault moves a running context to Stopping because it cannot go on, such as
// after a task that failed. Called from Poll, after Complete if there was one.
func (c *Context) Fault() {
	if c.state == Running || c.state == Starting {
		_ = c.halt() // a backend that cannot even stop has nothing to flush
	}
}

// Notify says that Poll would do something. It may be called from any
// goroutine, costs one load while nobody waits, and never blocks.
func (c *Context) Notify() {
	e := c.engine
	if e.wanted.Load() == disarmed {
		return
	}
	c.event.Store(true)
	e.fire()
}

// Warn reports through the watchdog of the engine, if there is one.
func (c *Context) Warn(msg string, args ...any) {
	if w := c.engine.watchdog; w != nil {
		w.log.Warn(msg, append([]any{"context", c.label}, args...)...)
	}
}

// Watched reports whether Warn has a reader, so that a backend can spare the
// search for something to warn of.
func (c *Context) Watched() bool { return c.engine.watchdog != nil }
