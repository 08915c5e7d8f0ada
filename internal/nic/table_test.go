package nic

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/qp"
)

func TestATableFindsWhatItHolds(t *testing.T) {
	type thing struct{ n uint32 }
	var tab table[thing]
	tab.init()
	have := map[uint32]*thing{}
	for range 5000 {
		v := tab.add(5000, anyNumber, func(n uint32) *thing { return &thing{n} })
		have[v.n] = v
	}
	if v := tab.add(5000, anyNumber, func(n uint32) *thing { return &thing{n} }); v != nil {
		t.Error("got a thing beyond the limit")
	}
	for n, v := range have {
		if tab.at(n) != v {
			t.Fatalf("got another thing for number %d", n)
		}
		if n%2 == 0 {
			tab.remove(n)
			delete(have, n)
		}
	}
	for n, v := range have {
		if tab.at(n) != v {
			t.Fatalf("got another thing for number %d after removals", n)
		}
	}
	if tab.len() != len(have) {
		t.Errorf("got %d things, want %d", tab.len(), len(have))
	}
}

func TestANumberRestsAfterItsQueuePair(t *testing.T) {
	var r recent
	r.add(77, 1000)
	if !r.has(77, 2000) || r.has(78, 2000) {
		t.Error("got 77 free or 78 kept, want the opposite")
	}
	if r.has(77, 1000+timeWait) {
		t.Error("got 77 kept after its time")
	}
	for n := range uint32(lateNumbers + 10) {
		r.add(n, 5000)
	}
	if len(r.queue) != lateNumbers || len(r.until) != lateNumbers {
		t.Errorf("got %d numbers kept, want %d", len(r.queue), lateNumbers)
	}
}

func TestTimersWakeAtTheLatestDeadline(t *testing.T) {
	b := newBench(t)
	h := &b.q.send.half
	tm := &b.d.timers
	for b.d.inline.Drive(0) {
	}
	now := instant()
	tm.schedule(h, now+1000)
	tm.schedule(h, now+5000) // moves away, as with every acknowledgement
	tm.expire(now + 2000)
	if h.posted.Load() {
		t.Error("got a wake before the deadline")
	}
	tm.expire(now + 5000)
	if !h.posted.Load() {
		t.Error("got no wake at the deadline")
	}
	if at := tm.next.Load(); at != 0 {
		t.Errorf("got instant %d left, want none", at)
	}
	for b.d.inline.Drive(0) {
	}
}

func TestTimersKeepTheirOrder(t *testing.T) {
	b := newBench(t)
	var halves []*half
	now := instant() + 1e12 // far away: driving acts upon what is due
	for n := range 50 {
		q := b.newQP(t)
		halves = append(halves, &q.send.half)
		for b.d.inline.Drive(0) {
		}
		b.d.timers.schedule(halves[n], now+qp.Instant(1000*((n*17)%50+1)))
	}
	for n := range 50 {
		at := b.d.timers.next.Load()
		if want := int64(now) + int64(1000*(n+1)); at != want {
			t.Fatalf("got %d as the next, want %d", at, want)
		}
		b.d.timers.expire(qp.Instant(at))
	}
}

// Queue pairs that come and go leave no frames behind.
func TestThePoolIsAsLargeAsItsQueuePairs(t *testing.T) {
	b := newBench(t)
	p := b.q.send.pool
	before := p.size()
	for range 20 {
		q, other := b.newQP(t), b.newQP(t)
		for _, q := range []*QP{q, other} {
			if err := q.Destroy(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if got, want := p.size(), before+2*framesPerQP; got != want {
		t.Errorf("got %d frames after queue pairs have come and gone, want %d", got, want)
	}
}
