package core

import (
	"slices"
	"strings"
	"testing"
)

func TestPoolLimitsAreNamed(t *testing.T) {
	f := newFake(t, newTestEngine(t), 1, freeIt, freeIt)
	err := f.jobs.Configure(freeIt, freeIt, 1000, 64)
	wantErr(t, "too many", err, ErrInvalidValue)
	for _, number := range []string{"1000", "64"} {
		if !strings.Contains(err.Error(), number) {
			t.Errorf("%q does not name %s", err, number)
		}
	}
	wantErr(t, "none", f.jobs.Configure(freeIt, freeIt, 0, 64), ErrInvalidValue)
	wantErr(t, "negative", f.jobs.Configure(freeIt, freeIt, -1, 64), ErrInvalidValue)
	wantErr(t, "no callback", f.jobs.Configure(nil, freeIt, 1, 64), ErrInvalidValue)
	wantErr(t, "no callback", f.jobs.Configure(freeIt, nil, 1, 64), ErrInvalidValue)
	wantErr(t, "start", f.Start(), nil)
	wantErr(t, "while running", f.jobs.Configure(freeIt, freeIt, 1, 64), ErrBadState)
}

func TestEmptyPoolIsANormalAnswer(t *testing.T) {
	f := newFake(t, newTestEngine(t), 2, freeIt, freeIt)
	if _, err := f.jobs.Alloc(); err != ErrBadState {
		t.Errorf("alloc while idle: %v, want %v", err, ErrBadState)
	}
	wantErr(t, "start", f.Start(), nil)
	a, b := f.alloc(t), f.alloc(t)
	if _, err := f.jobs.Alloc(); err != ErrNoMemory {
		t.Errorf("alloc of a third: %v, want %v", err, ErrNoMemory)
	}
	if got := f.jobs.Misses(); got != 1 {
		t.Errorf("%d misses counted, want 1", got)
	}
	a.User, a.Value = 7, "seven"
	freeIt(a)
	c := f.alloc(t)
	if c.User != 0 || c.Value != nil || c == b {
		t.Errorf("a task from the pool carries %d, %v", c.User, c.Value)
	}
}

func TestWrongOwnerIsRefused(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 2, freeIt, freeIt)
	wantErr(t, "start", f.Start(), nil)
	j := f.alloc(t)
	f.held = true
	wantErr(t, "submit", j.Submit(), nil)
	wantErr(t, "submit twice", j.Submit(), ErrBadState)
	wantErr(t, "try to submit twice", j.TrySubmit(), ErrBadState)
	f.held = false
	drain(e)
	wantErr(t, "submit a freed one", j.Submit(), ErrBadState)
	wantErr(t, "free twice", j.Free(), ErrBadState)
	var none *Task
	wantErr(t, "submit nil", none.Submit(), ErrInvalidValue)
	wantErr(t, "free nil", none.Free(), ErrInvalidValue)
	j = f.alloc(t)
	wantErr(t, "unknown flag", j.SubmitFlags(1<<9), ErrInvalidValue)
	wantErr(t, "stop", f.Stop(), ErrInProgress)
	wantErr(t, "submit while stopping", j.Submit(), ErrBadState)
	wantErr(t, "free while stopping", j.Free(), nil)
	drain(e)
	wantErr(t, "submit while idle", j.Submit(), ErrBadState)
}

func TestRefusedSubmitLeavesTheTaskWithTheApplication(t *testing.T) {
	e := newTestEngine(t)
	calls := 0
	f := newFake(t, e, 1, func(j *job) { calls++; freeIt(j) }, freeIt)
	wantErr(t, "start", f.Start(), nil)
	j := f.alloc(t)
	f.refuse = ErrAgain
	wantErr(t, "submit", j.Submit(), ErrAgain)
	j.bad = true
	f.refuse = nil
	wantErr(t, "try", j.TrySubmit(), ErrInvalidValue)
	if f.Inflight() != 0 || drain(e) != 0 || calls != 0 {
		t.Fatalf("%d in flight, %d calls after refusals", f.Inflight(), calls)
	}
	j.bad = false
	wantErr(t, "try", j.TrySubmit(), nil)
	drain(e)
	if calls != 1 {
		t.Errorf("%d calls, want 1", calls)
	}
}

func TestFlushPushesWhatWaits(t *testing.T) {
	e := newTestEngine(t)
	done := 0
	f := newFake(t, e, 4, func(j *job) { done++; freeIt(j) }, freeIt)
	f.Flush() // an idle context has nothing to push
	wantErr(t, "start", f.Start(), nil)
	for range 2 {
		wantErr(t, "submit", f.alloc(t).SubmitFlags(SubmitNone), nil)
	}
	if drain(e); done != 0 {
		t.Fatalf("%d done before a flush", done)
	}
	f.Flush()
	if drain(e); done != 2 {
		t.Fatalf("%d done after the flush, want 2", done)
	}
	wantErr(t, "submit", f.alloc(t).SubmitFlags(SubmitNone), nil)
	wantErr(t, "submit", f.alloc(t).Submit(), nil)
	if drain(e); done != 4 {
		t.Errorf("%d done after a submit that flushes, want 4", done)
	}
}

func TestOptimizedReportsWaitForOneThatIsNot(t *testing.T) {
	e := newTestEngine(t)
	var order []uint64
	record := func(j *job) { order = append(order, j.User); freeIt(j) }
	f := newFake(t, e, 8, record, record)
	wantErr(t, "start", f.Start(), nil)
	submit := func(user uint64, flags Flags, bad bool) {
		j := f.alloc(t)
		j.User, j.bad = user, bad
		wantErr(t, "submit", j.SubmitFlags(flags), nil)
	}
	submit(1, SubmitFlush|SubmitOptimizeReports, false)
	submit(2, SubmitFlush|SubmitOptimizeReports, false)
	if drain(e); len(order) != 0 || f.Inflight() != 2 {
		t.Fatalf("reported %v, %d in flight; want none and 2", order, f.Inflight())
	}
	submit(3, SubmitFlush, false)
	if e.Progress(); len(order) != 1 {
		t.Fatalf("one progress call reported %v", order)
	}
	drain(e)
	submit(4, SubmitFlush|SubmitOptimizeReports, false)
	drain(e)
	submit(5, SubmitFlush|SubmitOptimizeReports, true) // a failure is not put off
	drain(e)
	if want := []uint64{1, 2, 3, 4, 5}; !slices.Equal(order, want) {
		t.Errorf("reports in order %v, want %v", order, want)
	}
	if f.State() != Idle {
		t.Errorf("after the failure: %v, want idle", f.State())
	}
}

func TestStopReportsWhatWasPutOff(t *testing.T) {
	e := newTestEngine(t)
	var got []Status
	record := func(j *job) { got = append(got, j.Status()); freeIt(j) }
	f := newFake(t, e, 2, record, record)
	wantErr(t, "start", f.Start(), nil)
	wantErr(t, "submit", f.alloc(t).SubmitFlags(SubmitFlush|SubmitOptimizeReports), nil)
	drain(e)
	wantErr(t, "stop", f.Stop(), ErrInProgress)
	drain(e)
	if want := []Status{Success}; !slices.Equal(got, want) || f.State() != Idle {
		t.Errorf("statuses %v and %v, want %v and idle", got, f.State(), want)
	}
}

// A task freed in flight completes as if nothing had happened, and only then
// goes back to its pool.
func TestFreeInFlightTakesEffectAtCompletion(t *testing.T) {
	for _, inCallback := range []string{"nothing", "free", "submit"} {
		e := newTestEngine(t)
		calls := 0
		f := newFake(t, e, 1, func(j *job) {
			calls++
			switch inCallback {
			case "free":
				wantErr(t, "free in the callback", j.Free(), nil)
			case "submit":
				wantErr(t, "submit in the callback", j.Submit(), ErrBadState)
			}
		}, freeIt)
		wantErr(t, "start", f.Start(), nil)
		j := f.alloc(t)
		wantErr(t, "submit", j.Submit(), nil)
		wantErr(t, "free in flight", j.Free(), nil)
		wantErr(t, "free it twice", j.Free(), ErrBadState)
		if _, err := f.jobs.Alloc(); err != ErrNoMemory {
			t.Errorf("alloc while it is in flight: %v, want %v", err, ErrNoMemory)
		}
		drain(e)
		if calls != 1 || f.Unfreed() != 0 {
			t.Errorf("callback that does %s: %d calls, %d unfreed; want 1 and 0", inCallback, calls, f.Unfreed())
		}
		if again := f.alloc(t); again.doomed {
			t.Error("the task is still marked as freed")
		}
	}
}

func TestResubmitFromTheCallback(t *testing.T) {
	e := newTestEngine(t)
	left := 10
	f := newFake(t, e, 1, func(j *job) {
		if left--; left > 0 {
			wantErr(t, "submit again", j.Submit(), nil)
			return
		}
		freeIt(j)
	}, freeIt)
	wantErr(t, "start", f.Start(), nil)
	wantErr(t, "submit", f.alloc(t).Submit(), nil)
	if got := drain(e); got != 10 || left != 0 || f.Inflight() != 0 {
		t.Errorf("%d steps, %d left, %d in flight; want 10, 0, 0", got, left, f.Inflight())
	}
}

func TestPartialProgressIsProgress(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 1, freeIt, freeIt)
	f.steps = 3
	wantErr(t, "start", f.Start(), nil)
	wantErr(t, "submit", f.alloc(t).Submit(), nil)
	for range 3 {
		if !e.Progress() || f.Inflight() != 1 {
			t.Fatalf("a part of the work: %d in flight, want progress and 1", f.Inflight())
		}
	}
	if !e.Progress() || f.Inflight() != 0 || e.Progress() {
		t.Errorf("the last part left %d in flight", f.Inflight())
	}
}
