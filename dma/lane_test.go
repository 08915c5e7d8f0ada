package dma

import (
	"bytes"
	"testing"

	"github.com/gantry-rdma/gantry/work"
)

// A stepper is an executor whose test decides what runs when.
type stepper struct {
	workers int
	queue   []*work.Item
}

func (s *stepper) Queue(i *work.Item) { s.queue = append(s.queue, i) }
func (s *stepper) Workers() int       { return s.workers }
func (s *stepper) String() string     { return "stepper" }
func (s *stepper) Close()             {}

// step runs the item that was queued first, and leaves the rest.
func (s *stepper) step(budget int) {
	i := s.queue[0]
	s.queue = s.queue[1:]
	if i.Exec(budget) {
		s.Queue(i)
	}
}

// A large copy is shared: each lane that takes a part calls the next one while
// parts remain, and the task completes with the last part.
func TestLargeCopyIsSharedByTheLanes(t *testing.T) {
	x := &stepper{workers: 3}
	r := newRig(t, x, 1, 4<<20)
	r.want("start", r.dma.Start(), nil)
	pattern(r.region[:1<<20], 5)
	r.want("submit", r.alloc(r.src(0, 1<<20, 3), r.dst(1<<20, 1<<20, 2)).Submit(), nil)
	for lanes := 1; lanes <= 3; lanes++ {
		if len(x.queue) != lanes {
			t.Fatalf("%d lanes at work, want %d", len(x.queue), lanes)
		}
		x.step(1) // each copies one page of its part
		if r.engine.Progress(); len(r.ok) != 0 {
			t.Fatal("the task completed with parts missing")
		}
	}
	for len(x.queue) > 0 {
		x.step(work.Budget)
	}
	r.run(1)
	if !bytes.Equal(r.region[:1<<20], r.region[1<<20:2<<20]) {
		t.Error("wrong contents")
	}
}

// A small copy is not worth a second lane.
func TestSmallCopyStaysOnOneLane(t *testing.T) {
	x := &stepper{workers: 3}
	r := newRig(t, x, 1, 1<<20)
	r.want("start", r.dma.Start(), nil)
	r.want("submit", r.alloc(r.src(0, splitAbove-1, 1), r.dst(1<<19, splitAbove, 1)).Submit(), nil)
	x.step(work.Budget)
	if len(x.queue) != 0 {
		t.Errorf("%d lanes were called for a small copy", len(x.queue))
	}
	r.run(1)
}

// Inside Progress one task is copied and reported, then the next: what is
// behind it is untouched, and a stop in the callback flushes it.
func TestInlineCopiesNotAheadOfTheCallbacks(t *testing.T) {
	r := newRig(t, nil, 16, 64<<10)
	r.want("configure", r.dma.ConfigureMemcpy(func(m *Memcpy) {
		r.succeeded(m)
		if len(r.ok) == 8 {
			_ = r.dma.Stop()
		}
	}, r.fell, 16), nil)
	r.want("start", r.dma.Start(), nil)
	for i := range 16 {
		pattern(r.region[i*64:][:64], 1)
		r.want("submit", r.alloc(r.src(i*64, 64, 1), r.dst(4096+i*64, 64, 1)).Submit(), nil)
	}
	r.run(16)
	if len(r.ok) != 8 || len(r.failed) != 8 {
		t.Errorf("%d completed and %d flushed, want 8 and 8", len(r.ok), len(r.failed))
	}
	for i, b := range r.region[4096+8*64 : 4096+16*64] {
		if b != 0 {
			t.Fatalf("byte %d of a flushed task was copied", i)
		}
	}
}

// A fullQueue refuses as a ring does while one who takes from it is
// interrupted.
type fullQueue struct {
	queue[part]
	refusals int
}

func (q *fullQueue) Push(p part) bool {
	if q.refusals > 0 {
		q.refusals--
		return false
	}
	return q.queue.Push(p)
}

// A ring with many takers can be full with room to spare. No part is lost.
func TestNoPartIsLostInAFullQueue(t *testing.T) {
	x := work.NewWorkqueue(2)
	r := newRig(t, x, 4, 4<<20)
	r.want("start", r.dma.Start(), nil)
	full := &fullQueue{queue: r.dma.parts}
	r.dma.parts = full
	for i := range 4 {
		full.refusals = 3
		r.want("submit", r.alloc(r.src(0, 256<<10, 1), r.dst((i+1)*256<<10, 256<<10, 1)).Submit(), nil)
	}
	r.run(4)
}
