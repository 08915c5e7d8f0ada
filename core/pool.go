package core

import "fmt"

// A TaskOf is a pointer to a type that embeds Task.
type TaskOf[T any] interface {
	*T
	header() *Task
}

// A TaskPool is the fixed set of tasks of one type in one context. Libraries
// embed one per task type; T is the task type, which embeds Task.
type TaskPool[T any, P TaskOf[T]] struct {
	context  *Context
	kind     string
	ok, fail func(P)
	size     int

	tasks  []T
	free   []*Task // a stack: the task used last is still in the cache
	misses uint64
}

// Init binds the pool to its context, once, when the library makes it. The
// kind names the tasks in messages and traces.
func (p *TaskPool[T, P]) Init(c *Context, kind string) {
	p.context, p.kind = c, kind
	c.pools = append(c.pools, p)
}

// Configure sets the callbacks and the number of tasks; limit is the most that
// the library can have. Both callbacks may be the same function. It answers
// ErrBadState when the context is not idle and ErrInvalidValue for a missing
// callback or a number that is not from 1 to limit.
func (p *TaskPool[T, P]) Configure(ok, fail func(P), n, limit int) error {
	switch {
	case p.context.state != Idle:
		return fmt.Errorf("configure %s tasks: the context is %v: %w", p.kind, p.context.state, ErrBadState)
	case ok == nil || fail == nil:
		return fmt.Errorf("configure %s tasks: a callback is nil: %w", p.kind, ErrInvalidValue)
	case n < 1 || n > limit:
		return fmt.Errorf("configure %s tasks: %d tasks asked for, 1 to %d possible: %w", p.kind, n, limit, ErrInvalidValue)
	}
	p.ok, p.fail, p.size = ok, fail, n
	return nil
}

// Size returns the configured number of tasks, 0 before Configure.
func (p *TaskPool[T, P]) Size() int { return p.size }

// Of returns the task whose header t is.
func (p *TaskPool[T, P]) Of(t *Task) P { return &p.tasks[t.slot] }

// Misses returns how often Alloc found the pool empty.
func (p *TaskPool[T, P]) Misses() uint64 { return p.misses }

// Alloc takes a task. It answers ErrBadState when the context is not running
// and ErrNoMemory when the pool is empty.
func (p *TaskPool[T, P]) Alloc() (P, error) {
	c := p.context
	if c.state != Running {
		return nil, ErrBadState
	}
	n := len(p.free) - 1
	if n < 0 {
		p.misses++
		return nil, ErrNoMemory
	}
	t := p.free[n]
	p.free = p.free[:n]
	t.phase, t.status, t.User, t.Value = owned, Success, 0, nil
	c.live++
	return &p.tasks[t.slot], nil
}

// prepare makes the tasks. Every task is in it whenever the context is idle.
func (p *TaskPool[T, P]) prepare() {
	if len(p.tasks) == p.size {
		return
	}
	p.tasks = make([]T, p.size)
	p.free = make([]*Task, 0, p.size)
	for i := p.size - 1; i >= 0; i-- {
		t := P(&p.tasks[i]).header()
		t.context, t.class, t.slot = p.context, p, uint32(i)
		p.free = append(p.free, t)
	}
}

// complete calls the application.
func (p *TaskPool[T, P]) complete(t *Task) {
	if t.status == Success {
		p.ok(&p.tasks[t.slot])
	} else {
		p.fail(&p.tasks[t.slot])
	}
}

func (p *TaskPool[T, P]) put(t *Task) { p.free = append(p.free, t) }

func (p *TaskPool[T, P]) name() string { return p.kind }
