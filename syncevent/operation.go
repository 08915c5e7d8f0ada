package syncevent

import "github.com/gantry-rdma/gantry/core"

// A verb is what a task does.
type verb uint8

const (
	read verb = iota
	set
	add
	wait // and the comparison added to it
)

// An operation is what all kinds of tasks have in common.
type operation struct {
	task   *core.Task
	next   *operation // in a list
	value  uint64     // to set, to add, or to wait for
	mask   uint64     // of a wait
	result uint64     // what was found
	verb   verb
}

// change changes a parameter.
func (o *operation) change(p *uint64, v uint64) error {
	if !o.task.Owned() {
		return core.ErrBadState
	}
	*p = v
	return nil
}

// publishes reports whether the operation changes the value.
func (o *operation) publishes() bool { return o.verb == set || o.verb == add }

// do does an operation that is no wait.
func (o *operation) do(e *Event) core.Status {
	if e.readOnly && o.publishes() {
		return core.ErrNotPermitted
	}
	ok := false
	switch o.verb {
	case set:
		ok = e.value.store(o.value)
	case add:
		o.result, ok = e.value.add(o.value)
	default:
		o.result, ok = e.value.load()
	}
	if !ok {
		return core.ErrIOFailed
	}
	return core.Success
}

// comparison returns that of a wait.
func (o *operation) comparison() Comparison { return Comparison(o.verb - wait) }

// meets reports whether v is what a wait waits for, and keeps it.
func (o *operation) meets(v uint64) bool {
	o.result = v
	return o.comparison().holds(v, o.mask, o.value)
}

// of returns the operation of a task, which lies in one of the pools.
func (s *tasks) of(t *core.Task) *operation {
	i := t.Slot()
	for c := range s.waits {
		if p := &s.waits[c]; i < p.Size() {
			if w := p.Of(t); &w.Task == t {
				return &w.op
			}
		}
	}
	if i < s.sets.Size() {
		if x := s.sets.Of(t); &x.Task == t {
			return &x.op
		}
	}
	if i < s.adds.Size() {
		if x := s.adds.Of(t); &x.Task == t {
			return &x.op
		}
	}
	return &s.gets.Of(t).op
}

// A list is a queue of operations, first in, first out.
type list struct{ first, last *operation }

func (l *list) push(o *operation) {
	o.next = nil
	if l.last == nil {
		l.first = o
	} else {
		l.last.next = o
	}
	l.last = o
}

func (l *list) pop() *operation {
	o := l.first
	if o != nil {
		if l.first = o.next; l.first == nil {
			l.last = nil
		}
		o.next = nil
	}
	return o
}

// take moves all of o to the end of l.
func (l *list) take(o *list) {
	if o.first == nil {
		return
	}
	if l.last == nil {
		l.first = o.first
	} else {
		l.last.next = o.first
	}
	l.last = o.last
	*o = list{}
}
