package syncevent

import (
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

// backend is tasks with the methods that core calls.
type backend tasks

var _ core.Backend = (*backend)(nil)

// Start opens the value. Tasks are not needed: the calls work as well.
func (b *backend) Start() error {
	if err := b.event.open(); err != nil {
		return err
	}
	b.failure = core.ErrFlushed
	b.seen, _ = b.event.value.load()
	b.nap.reset()
	return nil
}

// Stop closes the value, and fails what was not done. What was matched already
// succeeds.
func (b *backend) Stop() error {
	if err := b.event.close(); err != nil {
		return err
	}
	b.failed.take(&b.sleep)
	b.failed.take(&b.todo)
	b.failed.take(&b.held)
	b.event.waiting.Store(false)
	return nil
}

// Check is the full check of TrySubmit.
func (b *backend) Check(t *core.Task) error {
	o := (*tasks)(b).of(t)
	if o.publishes() && b.event.readOnly {
		return fmt.Errorf("the event was imported without the right to publish: %w", core.ErrNotPermitted)
	}
	if b.event.lost() {
		return fmt.Errorf("the owner of the event is gone: %w", core.ErrConnectionReset)
	}
	return nil
}

// Submit queues a task. It is done by Poll, so that it completes there.
func (b *backend) Submit(t *core.Task) error {
	b.held.push((*tasks)(b).of(t))
	return nil
}

// Flush lets Poll do what was queued.
func (b *backend) Flush() {
	if b.held.first != nil {
		b.todo.take(&b.held)
		b.Notify()
	}
}

// Poll completes one task, or puts one to sleep.
func (b *backend) Poll(int) bool {
	if b.State() == core.Running {
		lost := b.event.lost() // and after that a last look
		v, ok := b.event.value.load()
		if ok && v != b.seen {
			b.look(v)
		}
		switch {
		case !ok:
			return b.abandon(core.ErrIOFailed)
		case lost:
			return b.abandon(core.ErrConnectionReset)
		}
	}
	switch b.odd = !b.odd; {
	case b.matched.first != nil && (b.odd || b.todo.first == nil):
		b.Complete(b.matched.pop().task, core.Success)
	case b.todo.first != nil:
		b.step(b.todo.pop())
	case b.failed.first != nil:
		b.Complete(b.failed.pop().task, b.failure)
	default:
		return false
	}
	b.nap.reset()
	return true
}

// abandon stops the context because the value is gone, and fails all tasks.
func (b *backend) abandon(why core.Status) bool {
	b.failure = why
	b.Fault()
	return true
}

// look takes the waits that v is right for out of those that sleep.
func (b *backend) look(v uint64) {
	b.seen = v
	b.nap.reset()
	if b.sleep.first == nil {
		return
	}
	all := b.sleep
	b.sleep = list{}
	for o := all.pop(); o != nil; o = all.pop() {
		if o.meets(v) {
			b.matched.push(o)
		} else {
			b.sleep.push(o)
		}
	}
	b.event.waiting.Store(b.sleep.first != nil)
}

// step does an operation, or begins to wait.
func (b *backend) step(o *operation) {
	switch {
	case o.verb < wait:
		b.Complete(o.task, o.do(b.event))
	case o.meets(b.seen):
		b.Complete(o.task, core.Success)
	default:
		b.sleep.push(o)
		b.event.waiting.Store(true)
	}
}

// Arm reports whether Poll would do something. Publishers in this process tell
// the engine when they changed the value; for others it has to look, so it is
// woken after a while.
func (b *backend) Arm() bool {
	switch {
	case b.matched.first != nil || b.todo.first != nil || b.failed.first != nil:
		return true
	case b.sleep.first == nil || b.State() != core.Running:
		return false
	}
	v, ok := b.event.value.load()
	if v != b.seen || !ok || b.event.lost() {
		return true
	}
	return b.event.shared.Load() && b.WakeAfter(b.nap.next()) != nil
}

// A backOff is how long an engine sleeps that has to look for itself: short
// first, for the answer that comes at once, and twice as long each time.
type backOff struct{ last time.Duration }

const (
	firstSleep   = 20 * time.Microsecond
	longestSleep = time.Millisecond
)

func (n *backOff) reset() { n.last = 0 }

func (n *backOff) next() time.Duration {
	n.last = min(max(2*n.last, firstSleep), longestSleep)
	return n.last
}
