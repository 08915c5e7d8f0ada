package work

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// A blocker is an item whose runs stop in the middle until they are let go.
type blocker struct {
	Item
	entered, release chan struct{}
	runs             atomic.Int64
	more             bool
}

func newBlocker(t *testing.T, x Executor, more bool) *blocker {
	b := &blocker{entered: make(chan struct{}, 16), release: make(chan struct{}, 16), more: more}
	b.Init(x, func(int) bool {
		b.runs.Add(1)
		b.entered <- struct{}{}
		<-b.release
		return b.more
	})
	drive(t, x)
	return b
}

func TestDisableWaitsForTheRunInProgress(t *testing.T) {
	stops := map[string]struct {
		stop func(*Item)
		want State
	}{
		"Disable": {(*Item).Disable, Drained},
		"Close":   {(*Item).Close, Invalid},
	}
	for name, c := range stops {
		t.Run(name, func(t *testing.T) {
			forEach(t, func(t *testing.T, x Executor) {
				b := newBlocker(t, x, false)
				b.Wake()
				<-b.entered
				var returned atomic.Bool
				var wg sync.WaitGroup
				for range 3 {
					wg.Go(func() { c.stop(&b.Item); returned.Store(true) })
				}
				until(t, nil, func() bool { return b.State() == Draining && b.load().has(awaited) })
				b.Wake()
				checkState(t, &b.Item, Draining)
				if returned.Load() {
					t.Error("got a return during the run, want one after it")
				}
				b.release <- struct{}{}
				wg.Wait()
				checkState(t, &b.Item, c.want)
				b.Wake()
				if got := b.runs.Load(); got != 1 {
					t.Errorf("got %d runs, want 1", got)
				}
				checkCounts(t, &b.Item)
			})
		})
	}
}

// A run that says more while it drains must not bring the item back: this was
// CVE-2025-40061 in the Linux driver rdma_rxe.
func TestMoreWhileDrainingDoesNotRevive(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		c := &countingExecutor{Executor: x}
		b := newBlocker(t, x, true)
		b.x = c
		b.Wake()
		<-b.entered
		b.Wake() // armed does not count either
		var wg sync.WaitGroup
		wg.Go(b.Disable)
		until(t, nil, func() bool { return b.State() == Draining })
		b.release <- struct{}{}
		wg.Wait()
		checkState(t, &b.Item, Drained)
		checkCounts(t, &b.Item)
		if b.load().has(queued) {
			t.Error("got a drained item in the queue, want none")
		}
		x.Close()
		if got := b.runs.Load(); got != 1 {
			t.Errorf("got %d runs, want 1", got)
		}
	})
}

func TestDisableFromInsideReturnsAtOnce(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		var runs atomic.Int64
		var i Item
		i.Init(x, func(int) bool {
			if runs.Add(1) == 1 {
				i.Disable()
				checkState(t, &i, Draining)
			}
			return true
		})
		i.Wake()
		until(t, x, func() bool { return i.State() == Drained })
		i.Wake()
		i.Enable()
		checkState(t, &i, Idle)
		checkCounts(t, &i)
		if got := runs.Load(); got != 1 {
			t.Errorf("got %d runs, want 1", got)
		}
		i.Wake()
		until(t, x, func() bool { return runs.Load() > 1 })
		drive(t, x)
		i.Close()
		checkState(t, &i, Invalid)
	})
}

func TestCloseFromInsideReturnsAtOnce(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		var i Item
		i.Init(x, func(int) bool {
			deep(200, i.Close) // the stack walk must find the run
			i.Enable()
			checkState(t, &i, Draining)
			i.Disable()
			checkState(t, &i, Draining)
			return true
		})
		i.Wake()
		until(t, x, func() bool { return i.State() == Invalid })
		i.Enable()
		i.Wake()
		checkState(t, &i, Invalid)
		checkCounts(t, &i)
	})
}

// deep calls f on a stack of at least n frames.
//
//go:noinline
func deep(n int, f func()) {
	if n == 0 {
		f()
		return
	}
	deep(n-1, f)
	runtime.KeepAlive(n)
}

func TestItemsThatDisableEachOtherDoNotDeadlock(t *testing.T) {
	x := NewWorkqueue(2)
	defer x.Close()
	var both sync.WaitGroup
	both.Add(2)
	var a, b Item
	meet := func(other *Item) Run {
		return func(int) bool {
			both.Done()
			both.Wait() // both runs are in progress
			other.Disable()
			return false
		}
	}
	a.Init(x, meet(&b))
	b.Init(x, meet(&a))
	a.Wake()
	b.Wake()
	until(t, x, func() bool { return a.State() == Drained && b.State() == Drained })
}

func TestDisableDropsWhatIsQueuedAndNotStarted(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		if !serial(x) {
			t.Skip("needs an executor that one run keeps busy")
		}
		first, b := newBlocker(t, x, false), newBlocker(t, x, false)
		first.Wake()
		<-first.entered
		var runs, others atomic.Int64
		var i, other Item
		i.Init(x, func(int) bool { runs.Add(1); return false })
		other.Init(x, func(int) bool { others.Add(1); return false })
		b.Wake()
		i.Wake()
		other.Wake()
		first.release <- struct{}{}
		<-b.entered // i and other are next
		i.Disable() // returns, although nobody can run it now
		checkState(t, &i, Drained)
		checkCounts(t, &i)
		i.Enable()
		checkState(t, &i, Idle)
		i.Wake() // still in the queue: must not be queued a second time
		i.Disable()
		i.Enable()
		i.Wake()
		b.release <- struct{}{}
		until(t, x, func() bool { return others.Load() == 1 && settled(&i)() })
		if got := runs.Load(); got != 1 {
			t.Errorf("got %d runs, want 1", got)
		}
		checkCounts(t, &i)
		if got := i.Scheduled(); got != 3 {
			t.Errorf("got %d schedules, want 3", got)
		}
	})
}

func TestEnableDoesNotRememberWakes(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		var runs atomic.Int64
		var i Item
		i.Init(x, func(int) bool { runs.Add(1); return false })
		i.Disable()
		i.Wake()
		i.Enable()
		i.Enable()
		checkState(t, &i, Idle)
		i.Wake()
		until(t, x, func() bool { return runs.Load() == 1 && i.State() == Idle })
	})
}

func TestEnableWhileDrainingLetsTheItemRunOn(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		b := newBlocker(t, x, true)
		b.Wake()
		<-b.entered
		var wg sync.WaitGroup
		wg.Go(b.Disable)
		until(t, nil, func() bool { return b.load().has(awaited) })
		b.Enable()
		checkState(t, &b.Item, Busy)
		b.release <- struct{}{}
		wg.Wait() // the run that Disable saw has ended
		<-b.entered
		b.more = false
		b.release <- struct{}{}
		until(t, nil, func() bool { return b.State() == Idle })
		checkCounts(t, &b.Item)
	})
}

func TestNothingRunsBetweenDisableAndEnable(t *testing.T) {
	rounds := 10_000
	if testing.Short() {
		rounds = 1000
	}
	forEach(t, func(t *testing.T, x Executor) {
		drive(t, x)
		owned := 0 // plain: belongs to the run, or to us while it is disabled
		var i Item
		i.Init(x, func(int) bool { owned++; return owned%3 == 0 })
		var stop atomic.Bool
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				for !stop.Load() {
					i.Wake()
					runtime.Gosched()
				}
			})
		}
		for range rounds {
			i.Disable()
			owned++
			checkCounts(t, &i)
			i.Enable()
		}
		stop.Store(true)
		wg.Wait()
		i.Close()
		owned++
		checkState(t, &i, Invalid)
		checkCounts(t, &i)
	})
}

func TestDisableEnableAndCloseMayRace(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		drive(t, x)
		for range 100 {
			var i Item
			i.Init(x, func(int) bool { runtime.Gosched(); return true })
			var wg sync.WaitGroup
			for _, f := range []func(){i.Wake, i.Disable, i.Enable, i.Wake, i.Disable, i.Enable} {
				wg.Go(func() {
					for range 20 {
						f()
						runtime.Gosched()
					}
				})
			}
			wg.Go(i.Close)
			wg.Go(i.Close)
			wg.Wait()
			checkState(t, &i, Invalid)
			checkCounts(t, &i)
		}
	})
}
