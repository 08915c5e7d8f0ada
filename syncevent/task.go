package syncevent

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
)

// tasks is the side of an event that is a context: its tasks and what became of
// them. It belongs to the goroutine of the engine.
type tasks struct {
	core.Context
	event *Event

	gets  core.TaskPool[Get, *Get]
	sets  core.TaskPool[NotifySet, *NotifySet]
	adds  core.TaskPool[NotifyAdd, *NotifyAdd]
	waits [comparisons]core.TaskPool[Wait, *Wait]

	held    list        // submitted, and not flushed
	todo    list        // flushed: to be done
	sleep   list        // waits for which the value was not right
	matched list        // waits for which it was: to be reported
	failed  list        // to be reported with failure
	failure core.Status // why those in failed did
	seen    uint64      // the value that was not right for any in sleep
	odd     bool        // whose turn it is: matched or todo
	nap     backOff
}

func (s *tasks) init(e *Event) {
	s.event = e
	s.Init((*backend)(s), "sync event")
	s.gets.Init(&s.Context, "sync event get")
	s.sets.Init(&s.Context, "sync event notify set")
	s.adds.Init(&s.Context, "sync event notify add")
	for c, kind := range [comparisons]string{"wait equal", "wait not equal", "wait greater"} {
		s.waits[c].Init(&s.Context, "sync event "+kind)
	}
}

// A Get is a task that reads the value.
type Get struct {
	core.Task
	op operation
}

// A NotifySet is a task that changes the value to another.
type NotifySet struct {
	core.Task
	op operation
}

// A NotifyAdd is a task that adds to the value.
type NotifyAdd struct {
	core.Task
	op operation
}

// A Wait is a task that completes when (value & mask) compares with what it
// waits for as asked. A value that comes and goes while the engine is not
// progressed was not there.
type Wait struct {
	core.Task
	op operation
}

// ConfigureGet sets the callbacks for tasks that succeeded and that failed, and
// the number n of tasks that exist. It is core.ErrInvalidValue for a nil
// callback and for an n that is not from 1 to MaxTasks, and core.ErrBadState
// when the context is not idle.
func (e *Event) ConfigureGet(ok, fail func(*Get), n int) error {
	if e == nil {
		return core.ErrInvalidValue
	}
	return e.tasks.gets.Configure(ok, fail, n, maxTasks)
}

// ConfigureNotifySet is ConfigureGet for tasks that set the value.
func (e *Event) ConfigureNotifySet(ok, fail func(*NotifySet), n int) error {
	if e == nil {
		return core.ErrInvalidValue
	}
	return e.tasks.sets.Configure(ok, fail, n, maxTasks)
}

// ConfigureNotifyAdd is ConfigureGet for tasks that add to the value.
func (e *Event) ConfigureNotifyAdd(ok, fail func(*NotifyAdd), n int) error {
	if e == nil {
		return core.ErrInvalidValue
	}
	return e.tasks.adds.Configure(ok, fail, n, maxTasks)
}

// ConfigureWait is ConfigureGet for tasks that wait with comparison c. Each
// comparison has callbacks and tasks of its own.
func (e *Event) ConfigureWait(c Comparison, ok, fail func(*Wait), n int) error {
	if e == nil || c >= comparisons {
		return fmt.Errorf("configure wait tasks: %v: %w", c, core.ErrInvalidValue)
	}
	return e.tasks.waits[c].Configure(ok, fail, n, maxTasks)
}

// AllocGet takes a task that reads the value. It is core.ErrBadState when the
// context is not running and core.ErrNoMemory when all tasks are out.
func (e *Event) AllocGet() (*Get, error) {
	if e == nil {
		return nil, core.ErrInvalidValue
	}
	t, err := e.tasks.gets.Alloc()
	if err != nil {
		return nil, err
	}
	t.op = operation{task: &t.Task, verb: read}
	return t, nil
}

// AllocNotifySet takes a task that changes the value to v. It fails as AllocGet
// does.
func (e *Event) AllocNotifySet(v uint64) (*NotifySet, error) {
	if e == nil {
		return nil, core.ErrInvalidValue
	}
	t, err := e.tasks.sets.Alloc()
	if err != nil {
		return nil, err
	}
	t.op = operation{task: &t.Task, verb: set, value: v}
	return t, nil
}

// AllocNotifyAdd takes a task that adds n to the value. It fails as AllocGet
// does.
func (e *Event) AllocNotifyAdd(n uint64) (*NotifyAdd, error) {
	if e == nil {
		return nil, core.ErrInvalidValue
	}
	t, err := e.tasks.adds.Alloc()
	if err != nil {
		return nil, err
	}
	t.op = operation{task: &t.Task, verb: add, value: n}
	return t, nil
}

// AllocWait takes a task that waits until (value & mask) c want. It fails as
// AllocGet does, and with core.ErrInvalidValue for an unknown comparison.
func (e *Event) AllocWait(c Comparison, want, mask uint64) (*Wait, error) {
	if e == nil || c >= comparisons {
		return nil, core.ErrInvalidValue
	}
	t, err := e.tasks.waits[c].Alloc()
	if err != nil {
		return nil, err
	}
	t.op = operation{task: &t.Task, verb: wait + verb(c), value: want, mask: mask}
	return t, nil
}

// Result returns the value that was read, once the task succeeded.
func (t *Get) Result() uint64 { return t.op.result }

// Set returns what the task sets the value to.
func (t *NotifySet) Set() uint64 { return t.op.value }

// SetSet changes what the task sets the value to. It is core.ErrBadState while
// the task is in flight, as are all that change a task.
func (t *NotifySet) SetSet(v uint64) error { return t.op.change(&t.op.value, v) }

// Increment returns what the task adds.
func (t *NotifyAdd) Increment() uint64 { return t.op.value }

// SetIncrement changes what the task adds.
func (t *NotifyAdd) SetIncrement(n uint64) error { return t.op.change(&t.op.value, n) }

// Fetched returns what the value was before, once the task succeeded.
func (t *NotifyAdd) Fetched() uint64 { return t.op.result }

// Comparison returns the comparison.
func (t *Wait) Comparison() Comparison { return t.op.comparison() }

// Want returns what the value is compared with.
func (t *Wait) Want() uint64 { return t.op.value }

// SetWant changes what the value is compared with.
func (t *Wait) SetWant(v uint64) error { return t.op.change(&t.op.value, v) }

// Mask returns the bits of the value that are compared.
func (t *Wait) Mask() uint64 { return t.op.mask }

// SetMask changes the bits of the value that are compared.
func (t *Wait) SetMask(m uint64) error { return t.op.change(&t.op.mask, m) }

// Result returns the whole value that ended the wait, once the task succeeded.
func (t *Wait) Result() uint64 { return t.op.result }
