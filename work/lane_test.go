package work

import (
	"sync"
	"sync/atomic"
	"testing"
)

// lanesOf returns a pool without goroutines that holds n items, all in the
// first lane. Each counts its runs and wants more as long as it is told to.
func lanesOf(lanes, n int, more bool) (p *pool, items []Item, runs *atomic.Int64) {
	x := new(Workqueue)
	p, items, runs = &x.pool, make([]Item, n), new(atomic.Int64)
	p.lanes = make([]lane, lanes)
	for k := range items {
		items[k].Init(x, func(int) bool { runs.Add(1); return more })
		items[k].Wake()
	}
	return p, items, runs
}

func TestAnIdleWorkerStealsHalf(t *testing.T) {
	p, items, _ := lanesOf(3, 9, false)
	if i := p.take(1); i != &items[0] || i.home != 1 {
		t.Errorf("got lane %d, want the oldest item in lane 1", items[0].home)
	}
	if a, b := p.lanes[0].list.Len(), p.lanes[1].list.Len(); a != 4 || b != 4 {
		t.Errorf("got %d and %d items left, want 4 and 4", a, b)
	}
	for range 8 {
		if p.take(2) == nil {
			t.Error("got nothing, want an item from another lane")
		}
	}
	if p.pending() || p.take(0) != nil {
		t.Error("got more than was queued")
	}
}

func TestLanesMayStealFromEachOther(t *testing.T) {
	p, items, runs := lanesOf(2, 8, true)
	var wg sync.WaitGroup
	var here atomic.Int64
	for n := range p.lanes {
		wg.Go(func() {
			here.Add(1)
			for here.Load() < 2 { // begin together
			}
			for range 50_000 {
				p.steal(n, 1-n)
				if i := p.lanes[n].pop(); i != nil && i.Exec(0) {
					p.queue(i)
				}
			}
		})
	}
	wg.Wait()
	left := 0
	for i := p.take(0); i != nil; i = p.take(0) {
		i.Drop()
		left++
	}
	if left != len(items) || runs.Load() == 0 {
		t.Errorf("got %d items after %d runs, want all %d", left, runs.Load(), len(items))
	}
}

func TestAPollerThatStealsCallsAWorkerForTheRest(t *testing.T) {
	p, _, _ := lanesOf(2, 3, false)
	w := &worker{wake: make(chan struct{}, 1)}
	p.parked = append(p.parked, w)
	p.rest.Store(parked)
	if !p.help(1) {
		t.Error("got no run, want one")
	}
	if len(w.wake) != 1 || p.rest.Load() != searching {
		t.Errorf("got rest %#x, want the parked worker to search", p.rest.Load())
	}
}

func TestAPollerFinishesWhatItStoleFromAClosedQueue(t *testing.T) {
	p, items, runs := lanesOf(2, 4, true)
	p.close()
	for p.help(1) {
	}
	if got := runs.Load(); got < int64(len(items)) || p.pending() {
		t.Errorf("got %d runs, want at least %d and nothing left", got, len(items))
	}
	for k := range items {
		checkState(t, &items[k], Idle)
		checkCounts(t, &items[k])
	}
}

func TestOnePollAfterCloseLeavesNothingInItsLane(t *testing.T) {
	p, _, _ := lanesOf(2, 4, false)
	p.close()
	p.help(1)
	if p.lanes[1].pending() {
		t.Error("got items in the pollers' lane, want none: nobody may come again")
	}
}
