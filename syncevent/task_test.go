package syncevent

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/core"
)

const ok = core.Success

func TestTasksAreDoneInOrder(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	r.get(1)
	r.notifySet(2, 10)
	r.get(3)
	r.notifyAdd(4, 5)
	r.get(5)
	r.progress()
	r.results("all", result{1, ok, 0}, result{2, ok, 10}, result{3, ok, 10}, result{4, ok, 10}, result{5, ok, 15})
}

func TestAddTasksWrapAround(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	r.notifySet(1, all)
	r.notifyAdd(2, 2)
	r.get(3)
	r.progress()
	r.results("all", result{1, ok, all}, result{2, ok, all}, result{3, ok, 1})
}

func TestWaitTasksCompareTheMaskedValue(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	for i, x := range comparing {
		for c := range Comparison(comparisons) {
			what := fmt.Sprintf("%#x & %#x %v %#x", x.value, x.mask, c, x.want)
			want(t, "set", r.Set(x.value), nil)
			r.waitFor(1, c, x.want, x.mask)
			r.progress()
			if c.of(i) {
				r.results(what, result{1, ok, x.value})
				continue
			}
			r.results(what + " does not hold")
			for j, y := range comparing { // and it ends with a value for which it does
				if x.mask == y.mask && x.want == y.want && c.of(j) {
					want(t, "set", r.Set(y.value), nil)
				}
			}
			want(t, "stop", r.life.Shutdown(soon(t)), nil)
			want(t, "start", r.life.Start(), nil)
			r.done = nil
		}
	}
}

func TestAWaitTaskCompletesWhenTheValueComes(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	r.waitFor(1, Equal, 2, all)
	r.waitFor(2, NotEqual, 0, all)
	r.waitFor(3, Greater, 1, all)
	r.waitFor(4, Equal, 3, all)
	r.progress()
	r.results("at 0")
	want(t, "set", r.Set(1), nil)
	r.progress()
	r.results("at 1", result{2, ok, 1})
	want(t, "set", r.Set(2), nil)
	r.progress()
	r.results("at 2", result{1, ok, 2}, result{3, ok, 2})
	r.notifySet(5, 3)
	r.progress()
	r.results("at 3", result{5, ok, 3}, result{4, ok, 3})
}

func TestOneProgressCallCompletesOneTask(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	for i := range uint64(10) {
		r.waitFor(i, Equal, 1, all)
	}
	r.progress()
	want(t, "set", r.Set(1), nil)
	for n := range 10 {
		equal(t, "done", len(r.done), n)
		equal(t, "progress", r.engine.Progress(), true)
	}
	equal(t, "done", len(r.done), 10)
	equal(t, "progress", r.engine.Progress(), false)
}

func TestMatchedWaitsAndOtherTasksTakeTurns(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	for i := range uint64(3) {
		r.waitFor(i, Equal, 1, all)
	}
	r.progress()
	want(t, "set", r.Set(1), nil)
	for i := range uint64(3) {
		r.get(10 + i)
	}
	r.progress()
	equal(t, "done", len(r.done), 6)
	for i := 1; i < len(r.done); i++ {
		if a, b := r.done[i-1].user < 10, r.done[i].user < 10; a == b {
			t.Fatalf("got %v, want waits and gets in turns", r.done)
		}
	}
}

func TestStopFlushesWhatWaitsAndReportsWhatWasMatched(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	r.waitFor(1, Equal, 1, all)
	r.waitFor(2, Equal, 1, all)
	r.waitFor(3, Equal, 2, all)
	r.progress()
	want(t, "set", r.Set(1), nil)
	equal(t, "progress", r.engine.Progress(), true) // reports 1 and has matched 2
	r.notifySet(4, 9)
	want(t, "stop", r.life.Stop(), core.ErrInProgress)
	want(t, "shut down", r.life.Shutdown(soon(t)), nil)
	r.results("all", result{1, ok, 1}, result{2, ok, 1}, result{3, core.ErrFlushed, 1}, result{4, core.ErrFlushed, 9})
	want(t, "restart", r.life.Start(), nil)
	v, err := r.Get()
	want(t, "get", err, nil)
	equal(t, "a flushed task was not done", v, 1)
	r.waitFor(5, Equal, 1, all)
	r.progress()
	r.results("after the restart", result{5, ok, 1})
}

func TestTasksWaitForAFlush(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	s, err := r.AllocNotifySet(3)
	want(t, "alloc", err, nil)
	want(t, "submit", s.SubmitFlags(core.SubmitNone), nil)
	r.progress()
	r.results("not flushed")
	r.life.Flush()
	r.progress()
	r.results("flushed", result{0, ok, 3})
}

func TestTasksAreChangedOnlyByTheirOwner(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	w, err := r.AllocWait(Greater, 5, all)
	want(t, "alloc", err, nil)
	want(t, "want", w.SetWant(6), nil)
	want(t, "mask", w.SetMask(0xff), nil)
	equal(t, "comparison", w.Comparison(), Greater)
	equal(t, "want", w.Want(), 6)
	equal(t, "mask", w.Mask(), 0xff)
	want(t, "submit", w.TrySubmit(), nil)
	want(t, "want in flight", w.SetWant(7), core.ErrBadState)
	want(t, "mask in flight", w.SetMask(7), core.ErrBadState)
	s, err := r.AllocNotifySet(1)
	want(t, "alloc", err, nil)
	want(t, "set", s.SetSet(0x106), nil)
	a, err := r.AllocNotifyAdd(9)
	want(t, "alloc", err, nil)
	want(t, "increment", a.SetIncrement(1), nil)
	equal(t, "increment", a.Increment(), 1)
	want(t, "submit", s.TrySubmit(), nil)
	r.progress()
	r.results("(0x106 & 0xff) > 6 does not hold", result{0, ok, 0x106})
	want(t, "submit", a.TrySubmit(), nil)
	r.progress()
	r.results("added", result{0, ok, 0x106}, result{0, ok, 0x107})
}

func TestPoolsAreFixed(t *testing.T) {
	e := newEvent(t, openDevice(t))
	f := func(*Get) {}
	want(t, "none", e.ConfigureGet(f, f, 0), core.ErrInvalidValue)
	want(t, "too many", e.ConfigureGet(f, f, MaxTasks()+1), core.ErrInvalidValue)
	want(t, "no callback", e.ConfigureGet(nil, f, 1), core.ErrInvalidValue)
	want(t, "no comparison", e.ConfigureWait(comparisons, nil, nil, 1), core.ErrInvalidValue)
	_, err := e.AllocGet()
	want(t, "alloc before the start", err, core.ErrBadState)
	r := newRig(t, e)
	_, err = e.AllocWait(comparisons, 1, 1)
	want(t, "no comparison", err, core.ErrInvalidValue)
	for i := range uint64(rigTasks / 2) {
		r.waitFor(i, Equal, 1, all)
	}
	_, err = e.AllocWait(Equal, 1, 1)
	want(t, "all are out", err, core.ErrNoMemory)
	r.waitFor(99, Greater, 9, 0)
	want(t, "configure while running", e.ConfigureGet(f, f, 1), core.ErrBadState)
}

// TestABlockedEngineWakesForACall has an engine that has nothing but its
// descriptor to wake by: the value of this event can change in no other way.
func TestABlockedEngineWakesForACall(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	for i := range uint64(100) {
		r.waitFor(i, Equal, i+1, all)
		r.progress()
		want(t, "request", r.engine.RequestNotification(), nil)
		equal(t, "progress", r.engine.Progress(), false)
		go func() { _, _ = r.Add(1) }()
		want(t, "wait", r.engine.Wait(soon(t)), nil)
		want(t, "clear", r.engine.ClearNotification(), nil)
		r.progress()
		r.results("woken", result{i, ok, i + 1})
	}
}

// TestARequestSeesWhatCameBefore changes the value between the last Progress and
// the request, when nobody is to be woken yet.
func TestARequestSeesWhatCameBefore(t *testing.T) {
	r := newRig(t, newEvent(t, openDevice(t)))
	r.waitFor(1, Equal, 1, all)
	r.progress()
	want(t, "set", r.Set(1), nil)
	want(t, "request", r.engine.RequestNotification(), nil)
	want(t, "wait", r.engine.Wait(soon(t)), nil)
	want(t, "clear", r.engine.ClearNotification(), nil)
	r.progress()
	r.results("woken", result{1, ok, 1})
}

// TestABlockedEngineSeesWhatNobodyTellsItOf changes the value at its address.
func TestABlockedEngineSeesWhatNobodyTellsItOf(t *testing.T) {
	var v atomic.Uint64
	r := newRig(t, addressed(t, openDevice(t), &v))
	for i := range uint64(20) {
		r.waitFor(i, Equal, i+1, all)
		go v.Add(1)
		r.run(1)
		r.results("woken", result{i, ok, i + 1})
	}
}

// TestNoWakeUpIsLost has several goroutines add while an engine waits for each
// value in turn with a Greater that the next one ends at the latest.
func TestNoWakeUpIsLost(t *testing.T) {
	const adders, each = 3, 3000
	r := newRig(t, newEvent(t, openDevice(t)))
	var wg sync.WaitGroup
	for range adders {
		wg.Go(func() {
			for range each {
				if _, err := r.Add(1); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for at := uint64(0); at < adders*each; {
		r.waitFor(0, Greater, at, all)
		r.run(1)
		at = r.done[0].value
		r.done = r.done[:0]
	}
	wg.Wait()
}

func TestCallbacksMayStopAndSubmit(t *testing.T) {
	e := newEvent(t, openDevice(t))
	engine, err := core.NewEngine()
	want(t, "engine", err, nil)
	life, err := e.AsContext()
	want(t, "as context", err, nil)
	want(t, "connect", engine.Connect(life), nil)
	var ended []core.Status
	met := func(w *Wait) {
		want(t, "want", w.SetWant(w.Result()+1), nil)
		want(t, "submit again", w.Submit(), nil)
		if w.Result() == 3 {
			want(t, "stop", life.Stop(), core.ErrInProgress)
		}
	}
	failed := func(w *Wait) {
		ended = append(ended, w.Status())
		want(t, "free", w.Free(), nil)
	}
	want(t, "configure", e.ConfigureWait(Equal, met, failed, 1), nil)
	life.SetStateFunc(func(_ *core.Context, _, next core.State) {
		if next == core.Idle {
			want(t, "destroy", e.Destroy(), nil)
		}
	})
	want(t, "start", life.Start(), nil)
	w, err := e.AllocWait(Equal, 1, all)
	want(t, "alloc", err, nil)
	want(t, "submit", w.Submit(), nil)
	for i := uint64(1); i <= 3; i++ {
		want(t, "set", e.Set(i), nil)
		for engine.Progress() {
		}
	}
	equal(t, "flushed", len(ended), 1)
	equal(t, "status", ended[0], core.ErrFlushed)
	want(t, "destroyed in the callback", e.Set(9), core.ErrBadState)
	want(t, "destroy the engine", engine.Destroy(), nil)
}
