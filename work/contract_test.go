package work

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

func TestWakeRunsAnIdleItemOnce(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		var runs atomic.Int64
		var i Item
		i.Init(x, func(int) bool { runs.Add(1); return false })
		checkState(t, &i, Idle)
		for want := int64(1); want <= 3; want++ {
			i.Wake()
			until(t, x, func() bool { return runs.Load() == want && i.State() == Idle })
		}
		checkCounts(t, &i)
		if got := i.Scheduled(); got != 3 {
			t.Errorf("got %d schedules, want 3", got)
		}
	})
}

// A stress test does not see the difference: a wake from another goroutine is
// soon followed by the next. From inside, nobody else helps.
func TestWakeFromInsideARunCausesAnother(t *testing.T) {
	forEachWake(t, func(t *testing.T, x Executor, wake func(*Item)) {
		var runs atomic.Int64
		var i Item
		i.Init(x, func(int) bool {
			if runs.Add(1) == 1 {
				wake(&i)
				wake(&i) // many wakes, one more run
				checkState(t, &i, Armed)
			}
			return false
		})
		wake(&i)
		until(t, x, func() bool { return runs.Load() == 2 && i.State() == Idle })
		if got := i.Scheduled(); got != 1 {
			t.Errorf("got %d schedules, want 1: the item never was idle", got)
		}
		checkCounts(t, &i)
	})
}

// forEachWake is forEach for both ways to wake an item.
func forEachWake(t *testing.T, f func(t *testing.T, x Executor, wake func(*Item))) {
	t.Run("Wake", func(t *testing.T) {
		forEach(t, func(t *testing.T, x Executor) { f(t, x, (*Item).Wake) })
	})
	t.Run("WakePublished", func(t *testing.T) {
		forEach(t, func(t *testing.T, x Executor) { f(t, x, (*Item).WakePublished) })
	})
}

func TestNoWakeIsLost(t *testing.T) { forEachWake(t, noWakeIsLost) }

func noWakeIsLost(t *testing.T, x Executor, wake func(*Item)) {
	const wakers, each = 8, 10_000
	var given, taken atomic.Int64
	var inside atomic.Int32
	runs := 0 // plain, so that two runs at once are a race
	var i Item
	i.Init(x, func(int) bool {
		if inside.Add(1) != 1 {
			t.Error("got two runs at once")
		}
		runs++
		taken.Add(given.Swap(0))
		inside.Add(-1)
		return false
	})
	var wg sync.WaitGroup
	for range wakers {
		wg.Go(func() {
			for n := range each {
				given.Add(1)
				wake(&i)
				if n%64 == 0 {
					runtime.Gosched() // let it go idle now and then
				}
			}
		})
	}
	until(t, x, func() bool { return taken.Load() == wakers*each && i.State() == Idle })
	wg.Wait()
	until(t, x, settled(&i))
	if runs > wakers*each {
		t.Errorf("got %d runs, want no more than %d wakes", runs, wakers*each)
	}
	checkCounts(t, &i)
}

// A countingExecutor counts what passes through the seam.
type countingExecutor struct {
	Executor
	queued atomic.Uint64
}

func (c *countingExecutor) Queue(i *Item) { c.queued.Add(1); c.Executor.Queue(i) }

func TestManyWakesCostOneQueueing(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		c := &countingExecutor{Executor: x}
		var runs atomic.Int64
		block, entered := make(chan struct{}), make(chan struct{})
		var i Item
		i.Init(c, func(int) bool {
			if runs.Add(1) == 1 {
				close(entered)
				<-block
			}
			return false
		})
		drive(t, x)
		i.Wake()
		<-entered
		for range 100 {
			i.Wake()
		}
		close(block)
		until(t, x, func() bool { return runs.Load() == 2 && i.State() == Idle })
		if got := c.queued.Load(); got != 1 || i.Scheduled() != 1 {
			t.Errorf("got %d queueings and %d schedules, want 1 of each", got, i.Scheduled())
		}
		checkCounts(t, &i)
	})
}

// vanished waits until a goroutine that was started after base was taken has
// ended, without synchronising with it.
func vanished(base int) {
	for runtime.NumGoroutine() > base {
		runtime.Gosched()
	}
}

// These two say something only under the race detector.
func TestWakeOnAQueuedItemPublishesPlainWrites(t *testing.T) {
	x := NewInline()
	defer x.Close()
	value, got := 0, 0
	var i Item
	i.Init(x, func(int) bool { got = value; return false })
	i.Wake()
	base := runtime.NumGoroutine()
	go func() { value = 1; i.Wake() }()
	vanished(base)
	x.Drive(0)
	if got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}

func TestWakeOnAnArmedItemPublishesPlainWrites(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		value, got := 0, 0
		var runs atomic.Int64
		var i Item
		i.Init(x, func(int) bool {
			if runs.Load() == 0 {
				i.Wake()
				base := runtime.NumGoroutine()
				go func() { value = 1; i.Wake() }()
				vanished(base)
			} else {
				got = value
			}
			runs.Add(1)
			return false
		})
		i.Wake()
		until(t, x, func() bool { return runs.Load() == 2 && i.State() == Idle })
		if got != 1 {
			t.Errorf("got %d, want 1", got)
		}
	})
}

func TestAnItemThatWantsMoreGoesBehindTheOthers(t *testing.T) {
	const turns = 500
	forEach(t, func(t *testing.T, x Executor) {
		var first, second, lead atomic.Int64
		var gate, a, b Item
		a.Init(x, func(int) bool {
			n := first.Add(1)
			lead.Store(max(lead.Load(), n-second.Load()))
			return n < turns
		})
		b.Init(x, func(int) bool { return second.Add(1) < turns })
		gate.Init(x, func(int) bool { a.Wake(); b.Wake(); return false })
		gate.Wake()
		until(t, x, func() bool { return settled(&a)() && settled(&b)() && second.Load() == turns })
		// With one at a time they alternate. With more the other may be
		// taken off the CPU, so only the end counts.
		if serial(x) && lead.Load() > 1 {
			t.Errorf("got a lead of %d runs, want 1", lead.Load())
		}
		if first.Load() != turns {
			t.Errorf("got %d runs, want %d", first.Load(), turns)
		}
		checkCounts(t, &a)
		checkCounts(t, &b)
	})
}

func serial(x Executor) bool {
	q, ok := x.(*Workqueue)
	return !ok || q.Workers() == 1
}

func TestRunsGetTheBudgetOfTheirExecutor(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		var got atomic.Int64
		var i Item
		i.Init(x, func(budget int) bool { got.Store(int64(budget)); return false })
		i.Wake()
		until(t, x, func() bool { return got.Load() != 0 && i.State() == Idle })
		want := int64(Budget)
		if _, ok := x.(*Tasklet); ok {
			want = Unlimited
		}
		if got.Load() != want {
			t.Errorf("got a budget of %d, want %d", got.Load(), want)
		}
	})
}

func TestItemsRunInTheOrderOfTheirWakes(t *testing.T) {
	forEach(t, func(t *testing.T, x Executor) {
		if !serial(x) {
			t.Skip("several workers start in order, but that cannot be seen")
		}
		var gate Item
		items := make([]Item, 100)
		var order []int
		var left atomic.Int64
		left.Store(int64(len(items)))
		for n := range items {
			items[n].Init(x, func(int) bool {
				order = append(order, n)
				left.Add(-1)
				return false
			})
		}
		gate.Init(x, func(int) bool {
			for n := range items {
				items[n].Wake()
			}
			return false
		})
		gate.Wake()
		until(t, x, func() bool { return left.Load() == 0 })
		for n, got := range order {
			if got != n {
				t.Fatalf("got item %d in place %d, want %d", got, n, n)
			}
		}
	})
}

// Two items that wake each other many times: each wake may meet a worker that
// is about to park.
func TestNoWakeIsLostWhileWorkersPark(t *testing.T) {
	const rounds = 20_000
	forEach(t, func(t *testing.T, x Executor) {
		var ping, pong Item
		var turns atomic.Int64
		ping.Init(x, func(int) bool {
			if turns.Add(1) < rounds {
				pong.Wake()
			}
			return false
		})
		pong.Init(x, func(int) bool { ping.Wake(); return false })
		ping.Wake()
		until(t, x, func() bool { return turns.Load() == rounds })
		until(t, x, func() bool { return settled(&ping)() && settled(&pong)() })
	})
}

func TestTheZeroItemIgnoresEverything(t *testing.T) {
	var i Item
	i.Wake()
	i.WakePublished()
	i.Disable()
	i.Enable()
	i.Close()
	i.Init(nil, func(int) bool { return false })
	i.Init(NewInline(), nil)
	checkState(t, &i, Invalid)
	checkCounts(t, &i)
}

func TestASecondInitDoesNothing(t *testing.T) {
	x := NewInline()
	defer x.Close()
	runs := 0
	var i Item
	i.Init(x, func(int) bool { runs++; return false })
	i.Wake()
	i.Init(x, func(int) bool { runs += 100; return false })
	x.Drive(0)
	if runs != 1 {
		t.Errorf("got %d, want 1 from the first function", runs)
	}
}

func TestStatesHaveNames(t *testing.T) {
	want := map[State]string{
		Invalid: "invalid", Idle: "idle", Busy: "busy", Armed: "armed",
		Draining: "draining", Drained: "drained", 6: "state(6)",
	}
	for s, name := range want {
		if got := s.String(); got != name {
			t.Errorf("got %q, want %q", got, name)
		}
	}
}
