package qp

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// TestAnswersKeepTheOrderOfTheirRequests: an acknowledgement never overtakes an
// earlier answer, and never names what is not executed, however short frames
// and budgets are (IBTA Vol 1, 9.5).
func TestAnswersKeepTheOrderOfTheirRequests(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		p := newPair(t, roce.MTU256, 0xfffff0, 8, 64)
		b := p.b
		b.limit = 1 + rng.IntN(3)
		for i := range uint64(100) {
			b.receive(i, SGE{addr(1, 0), 4096, 1})
		}
		var out []*frame.Frame // A's requests, in order
		for range 60 {
			op := Op(rng.IntN(int(OpLocalInv)))
			if op == OpSendInv {
				op = OpSend
			}
			p.a.post(func(w *WQE) {
				w.Op, w.RKey, w.RemoteAddr, w.Placement = op, 1, addr(1, 0), roce.PlaceGlobal
				w.Len = 8
				if op < OpCompareSwap {
					w.Len = uint32(rng.IntN(1200))
				}
				if op == OpFlush {
					return
				}
				w.SG = append(w.SG, SGE{addr(1, 4096), w.Len, 1})
			})
			p.a.s.Step(1, 64)
			out = append(out, p.a.takeOut()...)
			for len(out) > 0 && rng.IntN(4) > 0 && b.r.Receive(out[0], 1) {
				out = out[1:]
			}
			if rng.IntN(2) == 0 {
				b.r.Step(1, rng.IntN(3))
			}
			for _, f := range b.out {
				inOrder(t, b, f)
			}
			for _, f := range b.takeOut() {
				p.a.s.Receive(f, 1)
				f.Back()
			}
			p.a.sound(t)
		}
	}
}

// inOrder holds one answer of h against those before.
func inOrder(t *testing.T, h *host, f *frame.Frame) {
	t.Helper()
	psn := (*roce.BTH)(f.Head[:]).PSN()
	if len(h.answered) > 0 && psn.Sub(h.answered[len(h.answered)-1]) < 1 {
		t.Fatalf("%s behind the answer to %d", line(f), h.answered[len(h.answered)-1])
	}
	if psn.Sub(h.r.Expected()) >= 0 && !h.r.reading.active {
		t.Fatalf("%s answers what is not executed: %d is expected", line(f), h.r.Expected())
	}
	h.answered = append(h.answered, psn)
}

// TestRequestsWaitWhileAReadIsAnswered: the expected number has one owner. A
// READ moves it with the last packet of its answer, and no other request is
// even looked at before that.
func TestRequestsWaitWhileAReadIsAnswered(t *testing.T) {
	p := newPair(t, roce.MTU256, 5, 4, 64)
	p.b.limit = 2
	for i := range 2 {
		p.a.post(func(w *WQE) {
			w.Op, w.RKey, w.RemoteAddr = []Op{OpRead, OpWrite}[i], 1, addr(1, 0)
			w.SG = append(w.SG, SGE{addr(1, 4096), 1000, 1})
		})
	}
	p.a.s.Step(1, 64)
	out := p.a.takeOut()
	if !p.b.r.Receive(out[0], 1) {
		t.Fatal("the READ was not taken")
	}
	for answers := 1; answers < 4; answers++ {
		if p.b.r.Receive(out[1], 1) {
			t.Fatalf("the WRITE was taken after %d of 4 answers", answers)
		}
		if got := p.b.r.Expected(); got != 5 {
			t.Fatalf("expected is %d after %d of 4 answers", got, answers)
		}
		for _, f := range p.b.takeOut() {
			f.Back()
		}
		p.b.r.Step(1, 1)
	}
	if got := p.b.r.Expected(); got != 9 {
		t.Errorf("expected is %d after the READ, want 9", got)
	}
	if !p.b.r.Receive(out[1], 1) || p.b.r.Expected() != 10 {
		t.Errorf("the WRITE was not taken after the READ: expected is %d", p.b.r.Expected())
	}
}

// TestDuplicatesMoveNothing: whatever arrives a second time, the expected
// number, the count of messages and memory stay.
func TestDuplicatesMoveNothing(t *testing.T) {
	p := newPair(t, roce.MTU256, 0xfffffe, 8, 64)
	for i := range uint64(5) {
		p.b.receive(i, SGE{addr(1, 0), 2000, 1})
	}
	for op := OpSend; op < OpLocalInv; op++ {
		if op == OpSendInv {
			continue
		}
		p.a.post(func(w *WQE) {
			w.Op, w.RKey, w.RemoteAddr, w.SwapAdd, w.Placement = op, 1, addr(1, 0), 1, roce.PlaceGlobal
			if op != OpFlush {
				w.SG = append(w.SG, SGE{addr(1, 4096), 8, 1})
			}
		})
	}
	p.a.s.Step(1, 64)
	out := p.a.takeOut()
	for range 3 {
		for _, f := range out {
			for !p.b.r.Receive(f, 1) {
				p.b.r.Step(1, 8)
			}
		}
	}
	if got := p.b.r.Expected(); got != roce.PSN(0xfffffe).Add(len(out)) {
		t.Errorf("expected is %d after %d requests", got, len(out))
	}
	if p.b.r.msn != uint32(len(out)) || p.b.atomics != 3 || len(p.b.received) != 3 || len(p.b.flushes) != 1 {
		t.Errorf("executed %d messages, %d atomics, %d receives, %d FLUSHes: want %d, 3, 3, 1", p.b.r.msn, p.b.atomics,
			len(p.b.received), len(p.b.flushes), len(out))
	}
}

// A looseEnv gives frames back on other goroutines.
type looseEnv struct {
	*host
	wake chan struct{}
	back sync.WaitGroup
}

func (e *looseEnv) Frame() *frame.Frame {
	return &frame.Frame{Owner: e, Payload: make([][]byte, 0, 4)}
}

func (e *looseEnv) FrameBack(f *frame.Frame) {
	if e.s.FrameBack(f) {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// TestACompletionWaitsForFramesAndNoWakeIsLost: requests are acknowledged at
// once and their frames come back on another goroutine. The Sender runs only
// when it is woken, and must complete everything.
func TestACompletionWaitsForFramesAndNoWakeIsLost(t *testing.T) {
	e := &looseEnv{host: newHost(t, "A", 64), wake: make(chan struct{}, 1)}
	e.register(make([]byte, 4096), LocalWrite)
	e.s.Init(e, e.q)
	e.s.Start(SenderConfig{MTU: roce.MTU256, MaxWindow: 64})
	frames := make(chan *frame.Frame, 1024)
	var out atomic.Int64
	e.back.Go(func() {
		for f := range frames {
			out.Add(-1)
			f.Back()
		}
	})
	completed := 0
	e.onSend = func(c *CQE) {
		if c.Status != StatusSuccess || c.ID != uint64(completed) {
			t.Errorf("completion %d is %d %v", completed, c.ID, c.Status)
		}
		completed++
	}
	const total = 20_000
	for posted := 0; completed < total; {
		for posted < total && e.post(func(w *WQE) {
			w.ID, w.Op = uint64(posted), OpWrite
			w.SG = append(w.SG, SGE{addr(1, 0), 100, 1})
		}) {
			posted++
		}
		for e.s.Step(1, 64) {
		}
		if len(e.out) == 0 && completed < total && posted-completed == 64 {
			<-e.wake // woken by the last frame that is missing, or never
			continue
		}
		batch := e.takeOut()
		for _, f := range batch {
			out.Add(1)
			frames <- f
		}
		if len(batch) > 0 {
			e.s.Receive(ack(e.s.NextPSN().Add(-1), roce.AckUnlimited), 1)
		}
	}
	close(frames)
	e.back.Wait()
	if n := out.Load(); n != 0 {
		t.Errorf("%d frames are out", n)
	}
}

// ack returns an acknowledgement.
func ack(psn roce.PSN, s roce.Syndrome) *frame.Frame {
	f := &frame.Frame{}
	h := roce.Build(&f.Head, roce.RCAck)
	h.BTH().SetPSN(psn)
	h.AETH().Set(s, 0)
	f.HeadLen = uint8(h.Len())
	return f
}

// TestPostingBesideARunLosesNothing: requests are published on one goroutine
// while the Sender runs on another.
func TestPostingBesideARunLosesNothing(t *testing.T) {
	p := newPair(t, roce.MTU256, 0, 4, 64)
	p.a.s.cfg.Probe, p.b.s.cfg.Probe = 0, 0
	const total = 4000
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := uint64(0); i < total; {
			if p.a.post(func(w *WQE) {
				w.ID, w.Op, w.RKey, w.RemoteAddr = i, OpWrite, 1, addr(1, 0)
				w.SG = append(w.SG, SGE{addr(1, 4096), 8, 1})
			}) {
				i++
			} else {
				runtime.Gosched()
			}
		}
	})
	next := uint64(0)
	p.a.onSend = func(c *CQE) {
		if c.ID != next {
			t.Errorf("got completion %d, want %d", c.ID, next)
		}
		next++
	}
	for next < total {
		busy := p.turn(t, p.a, 0)
		if !p.turn(t, p.b, 1) && !busy {
			runtime.Gosched()
		}
	}
	wg.Wait()
}
