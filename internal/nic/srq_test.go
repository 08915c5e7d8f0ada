package nic

import (
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/work"
)

// sharing returns a bench whose queue pair takes from a shared queue with two
// receives, 7 and then 8.
func sharing(t *testing.T) (*bench, *SRQ) {
	b := newBench(t)
	s, err := b.pd.NewSRQ(2, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	b.q = b.newQPOf(t, s)
	for id := range uint64(2) {
		s.LockReceives()
		w := s.NextReceive()
		w.ID, w.SG = 7+id, append(w.SG[:0], qp.SGE{Addr: b.mr.Addr(), Len: 4096, LKey: b.mr.Key()})
		s.PostReceive()
		s.UnlockReceives()
	}
	return b, s
}

// first is the first packet of a SEND, which makes the queue pair take a receive.
func (b *bench) first() *frame.Frame { return b.packet(roce.RCSendFirst, 1024, nil) }

// ids returns which receives are in the queue, oldest first.
func (s *SRQ) ids() (ids []uint64) {
	for i := s.posted.out; i != s.posted.put; i++ {
		ids = append(ids, s.posted.slots[i&uint32(len(s.posted.slots)-1)].ID)
	}
	return ids
}

// A message that had begun is no more: its receive is the next to be taken.
func TestAReceiveInUseGoesBackWithItsQueuePair(t *testing.T) {
	for name, end := range map[string]func(q *QP) error{
		"Destroy": func(q *QP) error { return q.Destroy() },
		"ToReset": func(q *QP) error { return q.ToReset() },
	} {
		b, s := sharing(t)
		b.s.arrive(b.d, b.first())
		if got := s.ids(); len(got) != 1 || got[0] != 8 {
			t.Fatalf("got receives %v in the queue, want 8 alone", got)
		}
		if err := end(b.q); err != nil {
			t.Fatal(err)
		}
		if got := s.ids(); len(got) != 2 || got[0] != 7 || got[1] != 8 {
			t.Errorf("got receives %v in the queue after %s, want 7 and 8", got, name)
		}
		if s.NextReceive() != nil {
			t.Errorf("got room for a third receive after %s", name)
		}
	}
}

// A queue pair that fails flushes the receive in use, and says then that it was
// the last. What is in the queue stays.
func TestAReceiveInUseIsFlushedBeforeTheLastIsReported(t *testing.T) {
	b, s := sharing(t)
	b.s.arrive(b.d, b.first())
	for e, ok := b.d.TryEvent(); ok; e, ok = b.d.TryEvent() {
		if e.Kind == EventLastWQE {
			t.Error("got the last receive reported while one is in use")
		}
	}
	b.q.ToErr()
	for b.d.Drive(0) {
	}
	entries, _ := b.cq.Take(8)
	if len(entries) != 1 || entries[0].ID != 7 || entries[0].Status != qp.StatusFlushed {
		t.Errorf("got completions %+v, want receive 7 flushed", entries)
	}
	b.cq.Done(len(entries))
	if e, ok := b.d.TryEvent(); !ok || e.Kind != EventLastWQE || e.QP != b.q {
		t.Errorf("got event %+v, want the last receive", e)
	}
	if e, ok := b.d.TryEvent(); ok {
		t.Errorf("got event %+v behind the last receive, want none", e)
	}
	if got := s.ids(); len(got) != 1 || got[0] != 8 {
		t.Errorf("got receives %v in the queue, want 8 alone", got)
	}
}

// Slots are neither lost nor doubled, whatever posters, takers and those who
// resize do at once; and they are taken in the order in which they were posted.
func TestSlotsOfASharedQueueGoRound(t *testing.T) {
	x := work.NewTasklet()
	defer x.Close()
	d, err := Open(Config{Link: new(script), Executor: x})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	s, err := d.NewPD().NewSRQ(5, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	const total = 20_000
	var all sync.WaitGroup
	all.Go(func() { s.postAll(total) })
	takers := takers{t: t, s: s, total: total}
	for range 3 {
		all.Go(takers.take)
	}
	all.Go(func() {
		for range 2000 {
			depth := 1 + rand.IntN(40)
			_ = s.Modify(&depth, nil) // it is refused while more are in use
		}
	})
	all.Wait()
	seen := map[*qp.RecvWQE]bool{}
	for w := s.back.pop(); w != nil; w = s.back.pop() {
		seen[w] = true
	}
	if len(seen) != s.depth {
		t.Errorf("got %d slots in the end, want %d", len(seen), s.depth)
	}
}

// postAll posts receives 0 to total, a few at a time.
func (s *SRQ) postAll(total uint64) {
	for id := uint64(0); id < total; {
		s.LockReceives()
		for range rand.IntN(3) + 1 {
			w := s.NextReceive()
			if w == nil || id == total {
				break
			}
			w.ID = id
			s.PostReceive()
			id++
		}
		s.UnlockReceives()
	}
}

// takers take receives and give them back.
type takers struct {
	t     *testing.T
	s     *SRQ
	total uint64

	mu   sync.Mutex // so that the order of taking is known
	next uint64     // the receive that is the oldest
}

// one takes a receive, or none. Now and then it thinks better of it.
func (x *takers) one() (w *qp.RecvWQE, more bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.next == x.total {
		return nil, false
	}
	w = x.s.take(false)
	switch {
	case w == nil:
	case w.ID != x.next:
		x.t.Errorf("got receive %d, want %d", w.ID, x.next)
	case rand.IntN(10) == 0:
		x.s.repost(w)
		w = nil
	default:
		x.next++
	}
	return w, true
}

// take takes receives until there are none, holds a few, and gives them back in
// any order.
func (x *takers) take() {
	var held []*qp.RecvWQE
	for w, more := x.one(); more; w, more = x.one() {
		if w != nil {
			held = append(held, w)
		}
		rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
		for len(held) > rand.IntN(3) {
			x.s.done(held[0], false)
			held = held[1:]
		}
	}
	for _, w := range held {
		x.s.done(w, false)
	}
}
