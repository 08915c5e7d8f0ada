package core

import "testing"

// A failer is what testing.TB and rapid.T have in common.
type failer interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// A job is the task type of the fake library.
type job struct {
	Task
	bad bool // must fail
}

// A fakeLibrary is the smallest library there can be: its tasks complete in
// order, when Poll is asked to and the test lets it.
type fakeLibrary struct {
	Context
	jobs TaskPool[job, *job]

	asyncStart, asyncStop bool  // Start and Stop answer ErrInProgress
	startError            error // what Start answers else
	failStart             bool  // an asynchronous start ends in Stopped
	refuse                error // what Submit answers
	held                  bool  // Poll and Arm do nothing
	steps                 int   // how many Polls without a completion a task takes

	queue    taskQueue // taken
	queued   int
	flushed  int // how many of them were pushed
	stopping bool
	took     int // steps of the first task so far
	starts   int
}

const fakeMax = 64

func newFake(t failer, e *Engine, n int, ok, fail func(*job)) *fakeLibrary {
	t.Helper()
	f := new(fakeLibrary)
	f.Init((*fakeBackend)(f), "fake")
	f.jobs.Init(&f.Context, "fake job")
	if err := f.jobs.Configure(ok, fail, n, fakeMax); err != nil {
		t.Fatal(err)
	}
	if e != nil {
		if err := e.Connect(&f.Context); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func newTestEngine(t testing.TB) *Engine {
	t.Helper()
	e, err := NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// alloc takes a task or ends the test.
func (f *fakeLibrary) alloc(t failer) *job {
	t.Helper()
	j, err := f.jobs.Alloc()
	if err != nil {
		t.Fatalf("alloc: %v", err)
	}
	return j
}

func freeIt(j *job) { _ = j.Free() }

// fakeBackend is fakeLibrary with the methods of a Backend.
type fakeBackend fakeLibrary

func (f *fakeBackend) Start() error {
	f.stopping, f.took = false, 0
	if f.startError != nil {
		return f.startError
	}
	f.starts++
	if f.asyncStart {
		return ErrInProgress
	}
	return nil
}

func (f *fakeBackend) Stop() error {
	f.stopping, f.flushed = true, f.queued
	if f.asyncStop {
		return ErrInProgress
	}
	return nil
}

func (f *fakeBackend) Submit(t *Task) error {
	if f.refuse != nil {
		return f.refuse
	}
	f.queue.push(t)
	f.queued++
	return nil
}

func (f *fakeBackend) Check(t *Task) error {
	if f.jobs.Of(t).bad {
		return ErrInvalidValue
	}
	return nil
}

func (f *fakeBackend) Flush() { f.flushed = f.queued; f.Notify() }

func (f *fakeBackend) Poll(int) bool {
	c := &f.Context
	switch {
	case f.held:
		return false
	case c.State() == Starting && f.failStart:
		c.Stopped()
		return true
	case c.State() == Starting:
		c.Started()
		return true
	case f.flushed == 0 && f.stopping && c.waiting:
		c.Stopped()
		return true
	case f.flushed == 0:
		return false
	case f.took < f.steps && !f.stopping:
		f.took++
		return true
	}
	f.took = 0
	t := f.queue.pop()
	f.queued--
	f.flushed--
	switch {
	case f.jobs.Of(t).bad:
		c.Complete(t, ErrIOFailed)
		c.Fault()
	case f.stopping:
		c.Complete(t, ErrFlushed)
	default:
		c.Complete(t, Success)
	}
	return true
}

func (f *fakeBackend) Arm() bool {
	return !f.held && (f.flushed > 0 || f.State() == Starting || f.waiting)
}

// drain progresses until nothing is left, and returns how often it did.
func drain(e *Engine) int { return e.ProgressBatch(1 << 20) }
