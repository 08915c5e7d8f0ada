package core

import (
	"context"
	"runtime/trace"
)

// Flags changes how one task is submitted.
type Flags uint32

// Flags of SubmitFlags. Without SubmitFlush a task may wait in its context
// until a later task or Context.Flush pushes it.
const (
	SubmitNone  Flags = 0
	SubmitFlush Flags = 1 << 0 // push this task and all before it

	// SubmitOptimizeReports lets the report of a success wait until a task
	// without this flag completes, or one fails, or the context stops. Submit
	// such a task with every window, and with SubmitFlush: if none follows, no
	// report ever comes.
	SubmitOptimizeReports Flags = 1 << 1

	// SubmitRangeProfiling shows the time from submit to completion as a task
	// of package runtime/trace, while a trace is being written.
	SubmitRangeProfiling Flags = 1 << 2

	submitFlags = SubmitFlush | SubmitOptimizeReports | SubmitRangeProfiling
)

// A phase is who has a task.
type phase uint8

const (
	pooled    phase = iota // in its pool
	owned                  // the application has it
	submitted              // the context has it
)

// A Task is the header that every task type embeds.
//
// It belongs to the goroutine of its engine. The application owns it from the
// pool to a successful Submit, and again from the completion callback on.
type Task struct {
	User  uint64 // the application's word; never touched here, zeroed by Alloc
	Value any    // the application's value; likewise

	context *Context
	class   class
	next    *Task // in a taskQueue
	span    *trace.Task
	slot    uint32 // index in its pool
	flags   Flags
	status  Status
	phase   phase
	doomed  bool // freed in flight: goes to the pool when it completes
}

// A class completes and takes back the tasks of one type: their pool.
type class interface {
	complete(t *Task)
	put(t *Task)
	name() string
}

// header gives the pool access to the header of the type that embeds it.
func (t *Task) header() *Task { return t }

// Slot returns the index of the task in its pool, from 0 on.
func (t *Task) Slot() int { return int(t.slot) }

// Context returns the context of the task.
func (t *Task) Context() *Context { return t.context }

// Owned reports whether the application has the task.
func (t *Task) Owned() bool { return t.phase == owned }

// Status returns how the task ended: Success, or why it failed. It is valid in
// the completion callback and until the task is submitted again.
func (t *Task) Status() Status { return t.status }

// Flags returns the flags of the last submit.
func (t *Task) Flags() Flags { return t.flags }

// Submit hands the task and all before it to the context, without looking at
// what the task asks for: a task that is wrong fails later. It answers
// ErrBadState when the context is not running or the task is not the
// application's, and ErrAgain when a queue is full. After an error the
// application still owns the task.
func (t *Task) Submit() error { return t.SubmitFlags(SubmitFlush) }

// TrySubmit is Submit after a full check, which says what is wrong and which
// limit it breaks. It is for development: the check takes time.
func (t *Task) TrySubmit() error {
	if err := t.submittable(); err != nil {
		return err
	}
	if err := t.context.backend.Check(t); err != nil {
		return err
	}
	return t.SubmitFlags(SubmitFlush)
}

// SubmitFlags is Submit with flags of its own; unknown ones are
// ErrInvalidValue.
func (t *Task) SubmitFlags(f Flags) error {
	if err := t.submittable(); err != nil {
		return err
	}
	if f&^submitFlags != 0 {
		return ErrInvalidValue
	}
	c := t.context
	t.flags = f
	t.phase = submitted
	c.inflight++
	if err := c.backend.Submit(t); err != nil {
		t.phase = owned
		c.inflight--
		return err
	}
	if f&SubmitRangeProfiling != 0 && trace.IsEnabled() {
		_, t.span = trace.NewTask(context.Background(), t.class.name())
	}
	if f&SubmitFlush != 0 {
		c.backend.Flush()
	}
	if w := c.engine.watchdog; w != nil {
		w.work.Add(1)
	}
	return nil
}

func (t *Task) submittable() error {
	switch {
	case t == nil:
		return ErrInvalidValue
	case t.phase != owned || t.doomed || t.context.state != Running:
		return ErrBadState
	}
	return nil
}

// Free gives the task back to its pool. A task in flight is not disturbed: it
// completes, its callback runs, and then it goes back. Freeing a task that is
// in its pool is ErrBadState.
func (t *Task) Free() error {
	switch {
	case t == nil:
		return ErrInvalidValue
	case t.phase == submitted && !t.doomed:
		t.doomed = true
	case t.phase == owned && t.doomed: // from its own callback, which is where it is due
	case t.phase == owned:
		t.release()
	default:
		return ErrBadState
	}
	return nil
}

// release puts the task back.
func (t *Task) release() {
	t.phase, t.doomed = pooled, false
	t.class.put(t)
	c := t.context
	c.live--
	if c.state == Stopping && c.quiet() {
		c.Notify() // the way to idle is free
	}
}

// endSpan closes the profiling range of the task, if it has one.
func (t *Task) endSpan() {
	if t.span != nil {
		t.span.End()
		t.span = nil
	}
}

// A taskQueue is a list of tasks, first in, first out.
type taskQueue struct {
	first, last *Task
	len         int
}

func (q *taskQueue) push(t *Task) {
	t.next = nil
	q.len++
	if q.last == nil {
		q.first = t
	} else {
		q.last.next = t
	}
	q.last = t
}

func (q *taskQueue) pop() *Task {
	t := q.first
	if t != nil {
		q.len--
		q.first = t.next
		if q.first == nil {
			q.last = nil
		}
		t.next = nil
	}
	return t
}

// take moves all of o to the end of q.
func (q *taskQueue) take(o *taskQueue) {
	if o.first == nil {
		return
	}
	if q.last == nil {
		q.first = o.first
	} else {
		q.last.next = o.first
	}
	q.last = o.last
	q.len += o.len
	*o = taskQueue{}
}
