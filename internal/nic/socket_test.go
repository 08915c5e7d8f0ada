package nic

import (
	"sync"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
)

// A keeper is a socket that is not done with the frames when Send returns, and
// takes only some.
type keeper struct {
	*script
	most int
	kept []*frame.Frame
}

func (k *keeper) Send(frames []*frame.Frame) int {
	n := min(k.most, len(frames))
	for _, f := range frames[:n] {
		f.Handed()
	}
	k.kept = append(k.kept, frames[:n]...)
	return n
}

// write posts a WRITE of n bytes.
func (b *bench) write(n int) {
	sq, mu := b.q.SendQueue()
	mu.Lock()
	w := sq.Reserve()
	w.Op, w.RKey, w.Len, w.Flags = qp.OpWrite, 1, uint32(n), qp.Signaled
	w.SG = append(w.SG[:0], qp.SGE{Addr: b.mr.Addr(), Len: w.Len, LKey: b.mr.Key()})
	sq.Publish()
	mu.Unlock()
	b.q.Ring()
	b.d.driveIdle()
}

func TestFramesOfASocketComeBackToTheDriver(t *testing.T) {
	b := newBench(t)
	b.d.tx.socket = true
	b.write(8 * 1024)
	h := &b.q.send.half
	if !h.out.none(0) || !h.out.none(1) || h.returned.top.Load() != nil {
		t.Error("the frames that were sent did not come back to the driver at once")
	}
	for o := h.pool.atHand.first; o != nil; o = o.next {
		if o.here {
			t.Fatal("a frame is free, and still comes back here")
		}
	}
}

func TestAFrameThatASocketKeepsComesBackAsFromAnyone(t *testing.T) {
	b := newBench(t)
	k := &keeper{script: b.s, most: 3}
	b.d.tx.link, b.d.tx.socket = k, true
	b.write(8 * 1024)
	if len(k.kept) < 3 || b.d.tx.n == 0 {
		t.Fatalf("kept %d frames, and %d were not taken; want both", len(k.kept), b.d.tx.n)
	}
	for _, f := range append(k.kept, b.d.tx.frames[:b.d.tx.n]...) {
		if f.Owner.(*outFrame).here {
			t.Fatal("after Send a frame is still one of the driver's")
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, f := range k.kept {
			f.Back()
		}
	})
	wg.Wait()
	b.d.tx.link, b.d.tx.socket = b.s, false
}
