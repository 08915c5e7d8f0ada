package work

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestEnterIsARunOfAnIdleItem(t *testing.T) {
	x := NewInline()
	defer x.Close()
	runs := 0
	var i Item
	if i.Enter() {
		t.Error("the zero item was entered")
	}
	i.Init(x, func(int) bool { runs++; return false })
	if !i.Enter() {
		t.Fatal("an idle item was not entered")
	}
	if i.Enter() {
		t.Error("an item was entered twice")
	}
	if i.State() != Busy || i.Scheduled() != 1 || i.Done() != 0 {
		t.Errorf("got %v, scheduled %d, done %d; want a run under way", i.State(), i.Scheduled(), i.Done())
	}
	if x.Drive(0); runs != 0 {
		t.Error("an item ran beside who had entered it")
	}
	i.Leave()
	if i.State() != Idle || i.Done() != 1 || x.Drive(0) {
		t.Errorf("got %v, done %d after Leave, want idle and nothing queued", i.State(), i.Done())
	}
	i.Wake()
	if i.Enter() {
		t.Error("an item was entered that is queued")
	}
	x.Drive(0)
	i.Disable()
	if i.Enter() {
		t.Error("a disabled item was entered")
	}
	i.Enable()
	i.Close()
	if i.Enter() {
		t.Error("a closed item was entered")
	}
}

// An item that was disabled while it was queued is idle when it is enabled again,
// and its executor still has it: who enters it would not be alone.
func TestNobodyEntersWhatAQueueHolds(t *testing.T) {
	x := NewInline()
	defer x.Close()
	inside, runs := false, 0
	var i Item
	i.Init(x, func(int) bool {
		if runs++; inside {
			t.Error("an item ran beside who had entered it")
		}
		return false
	})
	i.Wake()
	i.Disable()
	i.Enable()
	if i.State() != Idle {
		t.Fatalf("got %v, want idle", i.State())
	}
	if i.Enter() {
		inside = true
		t.Error("an item was entered that its executor holds")
		x.Drive(0)
		inside = false
		i.Leave()
	}
	x.Drive(0) // takes it out
	if !i.Enter() {
		t.Fatal("an idle item was not entered")
	}
	i.Leave()
	if runs != 0 {
		t.Errorf("got %d runs of an item whose wake was forgotten", runs)
	}
}

func TestAWakeDuringEnterIsARunAfterLeave(t *testing.T) {
	x := NewInline()
	defer x.Close()
	runs := 0
	var i Item
	i.Init(x, func(int) bool { runs++; return false })
	i.Enter()
	i.Wake()
	i.Wake()
	if x.Drive(0); runs != 0 {
		t.Error("the run did not wait for Leave")
	}
	i.Leave()
	for x.Drive(0) {
	}
	if runs != 1 || i.State() != Idle || i.Scheduled() != i.Done() {
		t.Errorf("%d runs, %v, scheduled %d, done %d; want one run", runs, i.State(), i.Scheduled(), i.Done())
	}
}

func TestDisableWaitsForWhoHasEntered(t *testing.T) {
	x := NewWorkqueue(1)
	defer x.Close()
	var i Item
	i.Init(x, func(int) bool { return false })
	i.Enter()
	var left atomic.Bool
	disabled := make(chan struct{})
	go func() {
		defer close(disabled)
		i.Disable()
		if !left.Load() {
			t.Error("Disable returned while somebody was inside")
		}
	}()
	for i.State() != Draining {
		runtime.Gosched()
	}
	left.Store(true)
	i.Leave()
	<-disabled
	if i.State() != Drained {
		t.Errorf("got %v, want drained", i.State())
	}
}

// No wake is lost, and nobody is inside twice, whoever enters, wakes and disables.
func TestEnteringRacesWithEverything(t *testing.T) {
	x := NewWorkqueue(2)
	defer x.Close()
	var i Item
	var inside, woken, seen atomic.Int64
	body := func() {
		if inside.Add(1) != 1 {
			t.Error("two runs of one item at the same time")
		}
		seen.Store(woken.Load())
		inside.Add(-1)
	}
	i.Init(x, func(int) bool { body(); return false })
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() {
			for range 20_000 {
				woken.Add(1)
				i.Wake()
			}
		})
		all.Go(func() {
			for range 20_000 {
				if i.Enter() {
					body()
					i.Leave()
				}
			}
		})
	}
	all.Go(func() {
		for range 200 {
			i.Disable()
			if inside.Load() != 0 {
				t.Error("somebody is inside of a disabled item")
			}
			i.Enable()
		}
	})
	all.Wait()
	i.Wake()
	for end := time.Now().Add(20 * time.Second); i.State() != Idle; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("the item is %v, want idle", i.State())
		}
	}
	if seen.Load() != woken.Load() || i.Scheduled() != i.Done() {
		t.Errorf("saw wake %d of %d; scheduled %d, done %d", seen.Load(), woken.Load(), i.Scheduled(), i.Done())
	}
}
