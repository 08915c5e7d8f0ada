package syncevent

import "github.com/gantry-rdma/gantry/core"

// Get returns the value. What its publisher wrote to memory before it
// published the value is visible to the caller. It is core.ErrBadState when the
// event is not started, core.ErrConnectionReset when the owner of an imported
// event stopped it, or died, and core.ErrIOFailed when the memory of the value
// was taken away, such as a file that was truncated.
func (e *Event) Get() (uint64, error) {
	if err := e.use(); err != nil {
		return 0, err
	}
	defer e.leave()
	v, ok := e.value.load()
	if !ok {
		return 0, core.ErrIOFailed
	}
	return v, nil
}

// Set changes the value to v. Beside the codes of Get it is
// core.ErrNotPermitted for an event that was imported without the right to
// publish.
func (e *Event) Set(v uint64) error {
	if err := e.use(); err != nil {
		return err
	}
	defer e.leave()
	if e.readOnly {
		return core.ErrNotPermitted
	}
	if !e.value.store(v) {
		return core.ErrIOFailed
	}
	e.published()
	return nil
}

// Add adds n to the value and returns what it was before. The sum wraps
// around. The codes are those of Set.
func (e *Event) Add(n uint64) (old uint64, err error) {
	if err := e.use(); err != nil {
		return 0, err
	}
	defer e.leave()
	if e.readOnly {
		return 0, core.ErrNotPermitted
	}
	old, ok := e.value.add(n)
	if !ok {
		return 0, core.ErrIOFailed
	}
	e.published()
	return old, nil
}

// use is enter for a call that needs the value. Every success needs a leave.
func (e *Event) use() error {
	if e == nil {
		return core.ErrInvalidValue
	}
	if err := e.enter(); err != nil {
		return err
	}
	if e.lost() {
		e.leave()
		return core.ErrConnectionReset
	}
	return nil
}

// published wakes the engine for its waiting tasks. A task counts as waiting
// before its engine looks at the value for the last time, and the value is
// changed before this looks for tasks: so one of the two sees the other.
func (e *Event) published() {
	if e.waiting.Load() {
		e.tasks.Notify()
	}
}
