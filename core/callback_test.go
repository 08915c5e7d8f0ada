package core

import "testing"

func TestStopInACallbackIsReportedAfterIt(t *testing.T) {
	e := newTestEngine(t)
	var f *fakeLibrary
	inside := false
	f = newFake(t, e, 4, func(j *job) {
		inside = true
		wantErr(t, "stop", f.Stop(), ErrInProgress)
		if got, want := f.State(), Stopping; got != want {
			t.Errorf("right after stop: %v, want %v", got, want)
		}
		freeIt(j)
		inside = false
	}, freeIt)
	var seen []State
	f.SetStateFunc(func(c *Context, prev, next State) {
		if inside {
			t.Errorf("%v was reported inside a task callback", next)
		}
		seen = append(seen, next)
	})
	wantErr(t, "start", f.Start(), nil)
	wantErr(t, "submit", f.alloc(t).Submit(), nil)
	if !e.Progress() || len(seen) != 2 || seen[1] != Stopping {
		t.Fatalf("states after the callback: %v", seen)
	}
	if !e.Progress() || len(seen) != 3 || seen[2] != Idle {
		t.Fatalf("states after one more: %v", seen)
	}
}

// The whole life happens inside callbacks: tasks are submitted in the running
// callback, the context is stopped in the last completion, and destroyed in
// the idle callback together with its engine.
func TestEverythingIsLegalInsideCallbacks(t *testing.T) {
	e := newTestEngine(t)
	left := 4
	var f *fakeLibrary
	f = newFake(t, e, left, func(j *job) {
		freeIt(j)
		if left--; left == 0 {
			wantErr(t, "stop", f.Stop(), ErrInProgress)
		}
	}, freeIt)
	over := false
	f.SetStateFunc(func(c *Context, _, next State) {
		switch next {
		case Running:
			for range left {
				wantErr(t, "submit", f.alloc(t).Submit(), nil)
			}
		case Idle:
			wantErr(t, "destroy", f.Destroy(), nil)
			wantErr(t, "destroy the engine", e.Destroy(), nil)
			over = true
		}
	})
	wantErr(t, "start", f.Start(), nil)
	for i := 0; !over && i < 100; i++ {
		e.Progress()
	}
	if !over || left != 0 {
		t.Errorf("over %v with %d tasks left", over, left)
	}
}

func TestProgressInsideACallbackDoesNothing(t *testing.T) {
	e := newTestEngine(t)
	depth, deepest := 0, 0
	f := newFake(t, e, 2, func(j *job) {
		depth++
		deepest = max(deepest, depth)
		if e.Progress() || e.ProgressBatch(5) != 0 {
			t.Error("progress from a callback did something")
		}
		wantErr(t, "run", e.Run(t.Context(), nil), ErrBadState)
		wantErr(t, "event mode", e.SetEventMode(ProgressAll), ErrBadState)
		freeIt(j)
		depth--
	}, freeIt)
	wantErr(t, "start", f.Start(), nil)
	for range 2 {
		wantErr(t, "submit", f.alloc(t).Submit(), nil)
	}
	if got := drain(e); got != 2 || deepest != 1 {
		t.Errorf("%d steps, depth %d; want 2 and 1", got, deepest)
	}
}

func TestRestartInsideTheIdleCallback(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 1, freeIt, freeIt)
	rounds := 0
	f.SetStateFunc(func(c *Context, _, next State) {
		if next == Idle && rounds < 3 {
			rounds++
			wantErr(t, "start", c.Start(), nil)
			wantErr(t, "stop", c.Stop(), ErrInProgress)
		}
	})
	wantErr(t, "start", f.Start(), nil)
	wantErr(t, "stop", f.Stop(), nil)
	drain(e)
	if rounds != 3 || f.State() != Idle {
		t.Errorf("%d rounds, %v; want 3, idle", rounds, f.State())
	}
}

func TestCompletingTaskCountsAsInFlight(t *testing.T) {
	e := newTestEngine(t)
	var f *fakeLibrary
	f = newFake(t, e, 1, func(j *job) {
		if got := f.Inflight(); got != 1 {
			t.Errorf("in flight inside the callback: %d, want 1", got)
		}
		freeIt(j)
	}, freeIt)
	wantErr(t, "start", f.Start(), nil)
	wantErr(t, "submit", f.alloc(t).Submit(), nil)
	drain(e)
	if f.Inflight() != 0 || e.Inflight() != 0 {
		t.Errorf("in flight after it: %d and %d, want 0", f.Inflight(), e.Inflight())
	}
}

func TestFailedTaskStopsItsContext(t *testing.T) {
	e := newTestEngine(t)
	var f *fakeLibrary
	var failed, flushed int
	var when []State
	f = newFake(t, e, 3, freeIt, func(j *job) {
		switch j.Status() {
		case ErrFlushed:
			flushed++
		case ErrIOFailed:
			failed++
		}
		when = append(when, f.State())
		freeIt(j)
	})
	seen := states(&f.Context)
	wantErr(t, "start", f.Start(), nil)
	for i := range 3 {
		j := f.alloc(t)
		j.bad = i == 0
		wantErr(t, "submit", j.Submit(), nil)
	}
	drain(e)
	if failed != 1 || flushed != 2 {
		t.Errorf("%d failed and %d flushed, want 1 and 2", failed, flushed)
	}
	if when[0] != Running || when[1] != Stopping {
		t.Errorf("states seen by the callbacks: %v", when)
	}
	wantStates(t, seen, "idle>running", "running>stopping", "stopping>idle")
}

func TestContextsTakeTurns(t *testing.T) {
	e := newTestEngine(t)
	var order []int
	var all []*fakeLibrary
	for i := range 3 {
		f := newFake(t, e, 4, func(j *job) { order = append(order, i); freeIt(j) }, freeIt)
		all = append(all, f)
	}
	for _, f := range all {
		wantErr(t, "start", f.Start(), nil)
		for range 4 {
			wantErr(t, "submit", f.alloc(t).Submit(), nil)
		}
	}
	drain(e)
	for i, who := range order {
		if who != i%3 {
			t.Fatalf("completions came from %v, want the contexts in turn", order)
		}
	}
	if len(order) != 12 {
		t.Errorf("%d completions, want 12", len(order))
	}
}

// A quiet context that is stopped from the callback of another one leaves the
// step to idle to Progress, as any other.
func TestStopOfAnotherContextInACallback(t *testing.T) {
	e := newTestEngine(t)
	other := newFake(t, e, 1, freeIt, freeIt)
	f := newFake(t, e, 1, func(j *job) {
		wantErr(t, "stop the other", other.Stop(), ErrInProgress)
		wantErr(t, "destroy the other", other.Destroy(), ErrBadState)
		freeIt(j)
	}, freeIt)
	wantErr(t, "start", f.Start(), nil)
	wantErr(t, "start the other", other.Start(), nil)
	wantErr(t, "submit", f.alloc(t).Submit(), nil)
	drain(e)
	if other.State() != Idle {
		t.Errorf("the other context is %v, want idle", other.State())
	}
}

// TestAnEventIsACallback: what holds inside the callback of a task holds inside
// that of an event.
func TestAnEventIsACallback(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 1, freeIt, freeIt)
	if err := f.Start(); err != nil {
		t.Fatal(err)
	}
	inside, reported := false, false
	f.SetStateFunc(func(_ *Context, _, next State) {
		if inside {
			t.Errorf("the way to %v was reported within the event", next)
		}
		reported = reported || next == Stopping
	})
	f.Event(func() {
		inside = true
		if e.Progress() {
			t.Error("Progress did something inside an event")
		}
		if err := f.Stop(); err != ErrInProgress {
			t.Errorf("stop: got %v, want %v", err, ErrInProgress)
		}
		inside = false
	})
	if !reported || f.State() != Stopping {
		t.Errorf("after the event the context is %v, reported %v", f.State(), reported)
	}
	drain(e)
	if f.State() != Idle {
		t.Errorf("the context is %v, want %v", f.State(), Idle)
	}
}
