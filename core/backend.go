package core

// A Backend is what a library gives its context: the part that knows what a
// task means. Every method is called on the engine's goroutine.
//
// While it works, a backend reports through the context: [Context.Complete]
// and [Context.Fault] from Poll, [Context.Started] and [Context.Stopped] when
// an asynchronous start or stop is over, and [Context.Notify] from wherever a
// completion became ready.
type Backend interface {
	// Start makes the backend ready for tasks. ErrInProgress means that Poll
	// goes on with it and calls Started, or Stopped when it failed. After any
	// other error the context stays idle.
	Start() error

	// Stop begins to flush: tasks that did not run complete with ErrFlushed.
	// ErrInProgress means that there is more to wait for than tasks, and that
	// Poll calls Stopped when it is over. It must not call back.
	Stop() error

	// Submit takes over a task. It checks nothing that Check checks: a task
	// that is wrong fails later. After an error the application keeps it.
	Submit(t *Task) error

	// Check says what is wrong with a task, naming the argument and the limit.
	Check(t *Task) error

	// Flush pushes the tasks taken since the last Flush.
	Flush()

	// Poll completes at most one task, or advances by at most budget steps (a
	// step is one small task or 4 KiB of copying). It reports whether it did
	// anything.
	Poll(budget int) (did bool)

	// Arm is called before the engine blocks. It reports whether Poll would
	// do something now; from then on the backend calls Notify when it would.
	Arm() (ready bool)
}
