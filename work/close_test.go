package work

import (
	"sync/atomic"
	"testing"
)

func TestCloseOfAnExecutorRunsWhatIsQueuedOnce(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		var runs atomic.Int64
		items := make([]Item, 50)
		for n := range items {
			items[n].Init(x, func(int) bool { runs.Add(1); return false })
			items[n].Wake()
		}
		x.Close()
		if got := runs.Load(); got != int64(len(items)) {
			t.Errorf("got %d runs, want %d", got, len(items))
		}
		for n := range items {
			checkState(t, &items[n], Idle)
			checkCounts(t, &items[n])
		}
	})
}

func TestItemsThatNeverEndDoNotKeepAnExecutorOpen(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		var ping, pong, more Item
		ping.Init(x, func(int) bool { pong.Wake(); return false })
		pong.Init(x, func(int) bool { ping.Wake(); return false })
		more.Init(x, func(int) bool { more.Wake(); return true })
		for _, i := range []*Item{&ping, &pong, &more} {
			i.Wake()
		}
		x.Close()
		x.Close()
		for _, i := range []*Item{&ping, &pong, &more} {
			checkState(t, i, Idle)
			checkCounts(t, i)
		}
	})
}

func TestWakesAfterTheExecutorIsClosedAreDropped(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		var runs atomic.Int64
		var i Item
		i.Init(x, func(int) bool { runs.Add(1); return false })
		x.Close()
		i.Wake()
		i.Wake()
		checkState(t, &i, Idle)
		checkCounts(t, &i)
		i.Disable()
		checkState(t, &i, Drained)
		i.Close()
		if got := runs.Load(); got != 0 {
			t.Errorf("got %d runs, want 0", got)
		}
	})
}

func TestCloseOfTheExecutorFromInsideARunReturns(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		var closer, queuedBehind Item
		queuedBehind.Init(x, func(int) bool { return false })
		closer.Init(x, func(int) bool {
			queuedBehind.Wake()
			x.Close()
			return true
		})
		closer.Wake()
		until(t, x, func() bool { return settled(&closer)() && settled(&queuedBehind)() })
		checkCounts(t, &closer)
		checkCounts(t, &queuedBehind)
	})
}

// Wakers race with Close: whatever they bring is run or dropped, and nothing
// stays behind in a queue that nobody looks at.
func TestNothingIsStrandedByClose(t *testing.T) {
	for range 200 {
		for _, make := range makers {
			x := make()
			var i Item
			i.Init(x, func(int) bool { return false })
			woken := startWaking(&i)
			polled := startPolling(x)
			x.Close()
			<-woken
			<-polled
			if !settled(&i)() {
				t.Fatalf("got state %v left behind by %v, want it settled", i.State(), x)
			}
			checkCounts(t, &i)
		}
	}
}

// startPolling helps a work queue for a while.
func startPolling(x Executor) <-chan struct{} {
	done := make(chan struct{})
	q, ok := x.(*Workqueue)
	if !ok {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		for range 100 {
			q.Drive(0)
		}
	}()
	return done
}

func startWaking(i *Item) <-chan struct{} {
	done := make(chan struct{})
	started := make(chan struct{})
	go func() {
		defer close(done)
		i.Wake()
		close(started)
		for range 50 {
			i.Wake()
		}
	}()
	<-started
	return done
}
