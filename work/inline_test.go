package work

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func TestNestedDriveReturnsFalse(t *testing.T) {
	x := NewInline()
	defer x.Close()
	var outer, inner Item
	innerRuns := 0
	inner.Init(x, func(int) bool { innerRuns++; return false })
	outer.Init(x, func(int) bool {
		inner.Wake()
		if !x.Ready() {
			t.Error("got not ready inside a run, want ready: inner is queued")
		}
		if x.Drive(0) || innerRuns != 0 {
			t.Error("got a nested Drive that ran something, want none")
		}
		return false
	})
	outer.Wake()
	if !x.Drive(0) || innerRuns != 0 {
		t.Errorf("got %d runs of what was woken inside, want it to wait", innerRuns)
	}
	if !x.Drive(0) || innerRuns != 1 {
		t.Errorf("got %d runs, want 1", innerRuns)
	}
	if x.Drive(0) || x.Ready() {
		t.Error("got work on an empty queue, want none")
	}
}

func TestConcurrentDriveReturnsFalse(t *testing.T) {
	x := NewInline()
	defer x.Close()
	b := newBlocker(t, x, false)
	b.Wake()
	<-b.entered
	other := 0
	var i Item
	i.Init(x, func(int) bool { other++; return false })
	i.Wake()
	if x.Drive(0) || other != 0 {
		t.Error("got a second driver, want one at a time")
	}
	b.release <- struct{}{}
	until(t, x, func() bool { return i.State() == Idle })
}

func TestDriveGivesTheBudgetToEachItem(t *testing.T) {
	x := NewInline()
	defer x.Close()
	steps := 0
	var a, b Item
	run := func(budget int) bool { steps += budget; return true }
	a.Init(x, run)
	b.Init(x, run)
	a.Wake()
	b.Wake()
	for n := 1; n <= 3; n++ {
		if !x.Drive(7) {
			t.Error("got no work, want some")
		}
		if want := n * 2 * 7; steps != want {
			t.Errorf("got %d steps after %d drives, want %d", steps, n, want)
		}
	}
}

func TestDisableWorksWhenNobodyDrives(t *testing.T) {
	x := NewInline()
	defer x.Close()
	runs := 0
	var i Item
	i.Init(x, func(int) bool { runs++; return false })
	i.Wake()
	i.Disable()
	checkState(t, &i, Drained)
	checkCounts(t, &i)
	x.Drive(0)
	i.Enable()
	i.Wake()
	i.Close()
	x.Drive(0)
	if runs != 0 {
		t.Errorf("got %d runs, want 0", runs)
	}
	checkCounts(t, &i)
}

func TestManyDriversRunEachWakeOnce(t *testing.T) {
	const items, rounds = 32, 500
	x := NewInline()
	defer x.Close()
	var driving atomic.Int32
	var total atomic.Int64
	all := make([]Item, items)
	for n := range all {
		mine := 0
		all[n].Init(x, func(int) bool {
			if driving.Add(1) != 1 {
				t.Error("got two drivers at once, want one")
			}
			mine++
			total.Add(1)
			driving.Add(-1)
			return mine < rounds
		})
		all[n].Wake()
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for total.Load() < items*rounds {
				if !x.Drive(0) {
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
	until(t, x, func() bool { return !x.Ready() })
	for n := range all {
		checkState(t, &all[n], Idle)
		checkCounts(t, &all[n])
	}
}

func TestInlineCloseWaitsForADriver(t *testing.T) {
	x := NewInline()
	b := newBlocker(t, x, true)
	b.Wake()
	<-b.entered
	var closed atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() { x.Close(); closed.Store(true) })
	runtime.Gosched()
	if closed.Load() {
		t.Error("got a return during a Drive, want one after it")
	}
	b.release <- struct{}{}
	b.release <- struct{}{} // it wanted more: once more, by Close or before
	wg.Wait()
	checkState(t, &b.Item, Idle)
	checkCounts(t, &b.Item)
}
