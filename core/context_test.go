package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"
)

// states records the transitions of a context as text.
func states(c *Context) *[]string {
	var seen []string
	c.SetStateFunc(func(c *Context, prev, next State) {
		seen = append(seen, fmt.Sprintf("%v>%v", prev, next))
	})
	return &seen
}

func wantStates(t *testing.T, got *[]string, want ...string) {
	t.Helper()
	if !slices.Equal(*got, want) {
		t.Errorf("transitions %v, want %v", *got, want)
	}
}

func wantErr(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || (want == nil && got != nil) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestSynchronousLifeReportsEveryTransition(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 1, freeIt, freeIt)
	seen := states(&f.Context)
	wantErr(t, "start", f.Start(), nil)
	wantErr(t, "start twice", f.Start(), ErrBadState)
	wantErr(t, "destroy while running", f.Destroy(), ErrBadState)
	wantErr(t, "stop", f.Stop(), nil)
	wantErr(t, "stop an idle one", f.Stop(), nil)
	wantStates(t, seen, "idle>running", "running>stopping", "stopping>idle")
	wantErr(t, "destroy", f.Destroy(), nil)
	wantErr(t, "destroy twice", f.Destroy(), ErrBadState)
	wantErr(t, "start a destroyed one", f.Start(), ErrBadState)
}

func TestAsynchronousStartAndStop(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 1, freeIt, freeIt)
	f.asyncStart, f.asyncStop = true, true
	seen := states(&f.Context)
	wantErr(t, "start", f.Start(), ErrInProgress)
	if _, err := f.jobs.Alloc(); err != ErrBadState {
		t.Errorf("alloc while starting: %v, want %v", err, ErrBadState)
	}
	drain(e)
	wantErr(t, "stop", f.Stop(), ErrInProgress)
	wantErr(t, "stop twice", f.Stop(), ErrInProgress)
	drain(e)
	wantStates(t, seen, "idle>starting", "starting>running", "running>stopping", "stopping>idle")
}

func TestStartThatFailsGoesIdle(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 1, freeIt, freeIt)
	seen := states(&f.Context)
	f.startError = ErrInitialization
	wantErr(t, "start", f.Start(), ErrInitialization)
	wantStates(t, seen)
	f.startError, f.asyncStart, f.failStart = nil, true, true
	wantErr(t, "start", f.Start(), ErrInProgress)
	drain(e)
	wantStates(t, seen, "idle>starting", "starting>stopping", "stopping>idle")
}

func TestStopWhileStarting(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 1, freeIt, freeIt)
	f.asyncStart, f.asyncStop = true, true
	wantErr(t, "start", f.Start(), ErrInProgress)
	wantErr(t, "stop", f.Stop(), ErrInProgress)
	drain(e)
	if f.State() != Idle {
		t.Errorf("the context is %v, want idle", f.State())
	}
}

func TestContextWithoutEngine(t *testing.T) {
	f := newFake(t, nil, 1, freeIt, freeIt)
	wantErr(t, "start", f.Start(), ErrNotConnected)
	wantErr(t, "stop", f.Stop(), ErrNotConnected)
	var none *Context
	wantErr(t, "start nil", none.Start(), ErrInvalidValue)
	wantErr(t, "stop nil", none.Stop(), ErrInvalidValue)
}

func TestConnectRules(t *testing.T) {
	e, other := newTestEngine(t), newTestEngine(t)
	f := newFake(t, e, 1, freeIt, freeIt)
	wantErr(t, "connect nil", e.Connect(nil), ErrInvalidValue)
	wantErr(t, "connect twice", e.Connect(&f.Context), ErrNotPermitted)
	wantErr(t, "connect elsewhere", other.Connect(&f.Context), ErrNotPermitted)
	wantErr(t, "start", f.Start(), nil)
	wantErr(t, "connect a running one", other.Connect(&f.Context), ErrBadState)
	wantErr(t, "destroy a used engine", e.Destroy(), ErrInUse)
	wantErr(t, "stop", f.Stop(), nil)
	wantErr(t, "destroy", f.Destroy(), nil)
	wantErr(t, "connect a destroyed one", other.Connect(&f.Context), ErrBadState)
	wantErr(t, "destroy the engine", e.Destroy(), nil)
	wantErr(t, "destroy it twice", e.Destroy(), ErrBadState)
	wantErr(t, "connect to a destroyed engine", e.Connect(&f.Context), ErrBadState)
	wantErr(t, "request on a destroyed engine", e.RequestNotification(), ErrBadState)
	if e.Progress() {
		t.Error("a destroyed engine made progress")
	}
	var none *Engine
	wantErr(t, "connect to nil", none.Connect(&f.Context), ErrInvalidValue)
	if none.Progress() {
		t.Error("a nil engine made progress")
	}
}

func TestStopFlushesAndIdleComesOneCallLater(t *testing.T) {
	e := newTestEngine(t)
	var got []Status
	record := func(j *job) { got = append(got, j.Status()); freeIt(j) }
	f := newFake(t, e, 3, record, record)
	seen := states(&f.Context)
	wantErr(t, "start", f.Start(), nil)
	for range 3 {
		wantErr(t, "submit", f.alloc(t).Submit(), nil)
	}
	wantErr(t, "stop", f.Stop(), ErrInProgress)
	for i := range 3 {
		if !e.Progress() {
			t.Fatalf("progress %d did nothing", i)
		}
		if len(got) != i+1 || f.State() != Stopping {
			t.Fatalf("after %d calls: %d completions, %v", i+1, len(got), f.State())
		}
	}
	if !e.Progress() || f.State() != Idle {
		t.Errorf("the context is %v after the last step, want idle", f.State())
	}
	if want := []Status{ErrFlushed, ErrFlushed, ErrFlushed}; !slices.Equal(got, want) {
		t.Errorf("statuses %v, want %v", got, want)
	}
	wantStates(t, seen, "idle>running", "running>stopping", "stopping>idle")
}

func TestIdleWaitsForUnfreedTasks(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 2, func(*job) {}, func(*job) {})
	wantErr(t, "start", f.Start(), nil)
	done, never := f.alloc(t), f.alloc(t)
	wantErr(t, "submit", done.Submit(), nil)
	drain(e)
	wantErr(t, "stop", f.Stop(), ErrInProgress)
	if e.Progress() || f.State() != Stopping {
		t.Errorf("the context is %v with two tasks out", f.State())
	}
	wantErr(t, "shut down", f.Shutdown(t.Context()), ErrInUse)
	wantErr(t, "free", done.Free(), nil)
	wantErr(t, "free", never.Free(), nil)
	if !e.Progress() || f.State() != Idle {
		t.Errorf("the context is %v, want idle", f.State())
	}
}

func TestRestartKeepsTheConfiguration(t *testing.T) {
	e := newTestEngine(t)
	ok := 0
	f := newFake(t, e, 2, func(j *job) { ok++; freeIt(j) }, freeIt)
	for range 3 {
		wantErr(t, "start", f.Start(), nil)
		wantErr(t, "submit", f.alloc(t).Submit(), nil)
		drain(e)
		wantErr(t, "stop", f.Stop(), nil)
	}
	wantErr(t, "configure", f.jobs.Configure(freeIt, freeIt, 5, fakeMax), nil)
	wantErr(t, "start", f.Start(), nil)
	for range 5 {
		f.alloc(t)
	}
	if ok != 3 || f.starts != 4 {
		t.Errorf("%d completions and %d starts, want 3 and 4", ok, f.starts)
	}
}

func TestShutdownProgressesToIdle(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 8, freeIt, freeIt)
	wantErr(t, "start", f.Start(), nil)
	for range 8 {
		wantErr(t, "submit", f.alloc(t).Submit(), nil)
	}
	wantErr(t, "shut down", f.Shutdown(t.Context()), nil)
	if f.State() != Idle {
		t.Errorf("the context is %v, want idle", f.State())
	}
	wantErr(t, "start", f.Start(), nil)
	f.held = true
	wantErr(t, "submit", f.alloc(t).Submit(), nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	wantErr(t, "shut down a stuck one", f.Shutdown(ctx), context.DeadlineExceeded)
	f.held = false
	wantErr(t, "shut down", f.Shutdown(t.Context()), nil)
	wantErr(t, "destroy", f.Destroy(), nil)
	wantErr(t, "destroy the engine", e.Destroy(), nil)
}
