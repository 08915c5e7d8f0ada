package work

import (
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestWorkersRunDifferentItemsAtOnce(t *testing.T) {
	const n = 3
	x := NewWorkqueue(n)
	defer x.Close()
	var arrived atomic.Int64
	all := make(chan struct{})
	items := make([]Item, n)
	for k := range items {
		items[k].Init(x, func(int) bool {
			if arrived.Add(1) == n {
				close(all)
			}
			<-all
			return false
		})
		items[k].Wake()
	}
	<-all // hangs if fewer than n runs are in progress together
}

// Items that are woken together from inside a run: the worker that runs it is
// busy, so the others must be called for them.
func TestOneWakeAfterAnotherCallsMoreWorkers(t *testing.T) {
	for range 200 {
		x := NewWorkqueue(3)
		var all sync.WaitGroup
		all.Add(3)
		var gate, a, b Item
		run := func(int) bool { all.Done(); all.Wait(); return false }
		a.Init(x, run)
		b.Init(x, run)
		gate.Init(x, func(int) bool { a.Wake(); b.Wake(); return run(0) })
		until(t, nil, func() bool { return x.pool.rest.Load() == 3*parked })
		gate.Wake()
		until(t, nil, settled(&gate))
		x.Close()
	}
}

func TestDriveHelps(t *testing.T) {
	x := NewWorkqueue(1)
	defer x.Close()
	b := newBlocker(t, x, false)
	b.Wake()
	<-b.entered
	runs := 0
	var got int
	var i Item
	i.Init(x, func(budget int) bool { got = budget; runs++; return runs < 3 })
	if x.Ready() || x.Drive(0) {
		t.Error("got work, want an empty queue")
	}
	i.Wake()
	for range 3 {
		if !x.Ready() || !x.Drive(5) {
			t.Error("got no work, want one run")
		}
	}
	if runs != 3 || got != 5 || x.Ready() || x.Drive(0) {
		t.Errorf("got %d runs with budget %d, want 3 with 5 and nothing left", runs, got)
	}
	b.release <- struct{}{}
	checkCounts(t, &i)
}

func TestIdleWorkersPark(t *testing.T) {
	x := NewWorkqueue(3)
	defer x.Close()
	until(t, nil, func() bool { return x.pool.rest.Load() == 3*parked })
	if !canWake(t, x) {
		t.Error("got no run, want one from a parked worker")
	}
}

func canWake(t *testing.T, x Executor) bool {
	var ran atomic.Bool
	var i Item
	i.Init(x, func(int) bool { ran.Store(true); return false })
	i.Wake()
	until(t, x, ran.Load)
	return ran.Load()
}

// A waker that wakes again as soon as it has seen the run meets a worker that
// is about to park: without a search the worker does so each time.
func TestNoWakeIsLostByAWorkerThatParks(t *testing.T) {
	for _, looks := range []int{0, 1, spinLooks} {
		x := new(Workqueue)
		x.pool.start(1, 1, Budget, looks)
		var ran atomic.Int64
		var i Item
		i.Init(x, func(int) bool { ran.Add(1); return false })
		for n := range int64(20_000) {
			i.Wake()
			until(t, nil, func() bool { return ran.Load() > n && i.State() == Idle })
			for range n % 50 { // arrive a little later each time
				ran.Load()
			}
		}
		x.Close()
	}
}

// What a poller has stolen must go on when it polls no more, even if the
// worker always has something else to do.
func TestAWorkerServesWhatAPollerLeftBehind(t *testing.T) {
	x := NewWorkqueue(1)
	defer x.Close()
	var stop atomic.Bool
	var busyRuns, leftRuns atomic.Int64
	var busy, left Item
	busy.Init(x, func(int) bool { busyRuns.Add(1); return !stop.Load() })
	left.Init(x, func(int) bool { leftRuns.Add(1); return !stop.Load() })
	b := newBlocker(t, x, false)
	b.Wake()
	<-b.entered
	left.Wake()
	if !x.Drive(0) || left.home == 0 {
		t.Errorf("got lane %d of a polled item, want another than the worker's", left.home)
	}
	busy.Wake()
	b.release <- struct{}{}
	until(t, nil, func() bool { return busyRuns.Load() > 1000 && leftRuns.Load() > 1000 })
	stop.Store(true)
	until(t, nil, func() bool { return settled(&busy)() && settled(&left)() })
}

func TestNoItemStarves(t *testing.T) {
	for _, workers := range []int{1, 2, 3} {
		x := NewWorkqueue(workers)
		var stop atomic.Bool
		runs := make([]atomic.Int64, 9)
		items := make([]Item, len(runs))
		for k := range items {
			items[k].Init(x, func(int) bool { runs[k].Add(1); return !stop.Load() })
			items[k].Wake()
		}
		until(t, nil, func() bool {
			for k := range runs {
				if runs[k].Load() < 500 {
					return false
				}
			}
			return true
		})
		stop.Store(true)
		x.Close()
	}
}

func TestTheNumberOfWorkersDefaultsToTheCPUs(t *testing.T) {
	for _, n := range []int{0, -1} {
		x := NewWorkqueue(n)
		if got, want := x.Workers(), runtime.GOMAXPROCS(0); got != want {
			t.Errorf("got %d workers, want %d", got, want)
		}
		x.Close()
	}
}

func TestParseMakesTheExecutorItNames(t *testing.T) {
	for name, want := range map[string]string{
		"inline": "inline", "tasklet": "tasklet", "workqueue": "workqueue(3)",
	} {
		x, err := Parse(name, 3)
		if err != nil {
			t.Fatalf("got error %v for %q, want none", err, name)
		}
		if got := Name(x); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		x.Close()
	}
	x, err := Parse("threads", 3)
	if err == nil || !strings.Contains(err.Error(), `"threads"`) {
		t.Errorf("got error %v, want one that names the argument", err)
	}
	if got := Name(x); got != "none" {
		t.Errorf("got %q, want none", got)
	}
}
