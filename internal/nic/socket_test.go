package nic

import (
	"slices"
	"sync"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
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
func (b *bench) write(n int) { b.writeWith(n, qp.Signaled) }

func (b *bench) writeWith(n int, flags qp.Flags) {
	sq, mu := b.q.SendQueue()
	mu.Lock()
	w := sq.Reserve()
	w.Op, w.RKey, w.Len, w.Flags = qp.OpWrite, 1, uint32(n), flags
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

// An asker is a link, with a descriptor or without, that notes which packets ask
// for an acknowledgement.
type asker struct {
	*script
	fd    int
	asked []bool
}

func (a *asker) Pollable() (int, bool) { return a.fd, a.fd >= 0 }

func (a *asker) Send(frames []*frame.Frame) int {
	for _, f := range frames {
		a.asked = append(a.asked, (*roce.BTH)(f.Head[:]).AckReq())
	}
	return a.script.Send(frames)
}

// Through a socket a request that nobody waits for asks for no acknowledgement,
// once a round trip is known; on other links each asks.
func TestOnlySocketsAreSparedAcknowledgements(t *testing.T) {
	for _, fd := range []int{-1, 0} {
		a := &asker{script: new(script), fd: fd}
		b := newBenchOn(t, a.script, a)
		b.q.SetSender(qp.SenderConfig{Timeout: 24, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 4, Probe: qp.DefaultProbe})
		b.write(64)
		b.s.arrive(b.d, b.packet(roce.RCAck, 0, func(_ *frame.Frame, h roce.Headers) { h.BTH().SetPSN(500) }))
		b.writeWith(64, 0)
		if want := []bool{true, fd < 0}; !slices.Equal(a.asked, want) {
			t.Errorf("descriptor %d: asked %v, want %v", fd, a.asked, want)
		}
	}
}
