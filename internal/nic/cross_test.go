package nic

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/work"
)

// An end is one of two devices that are joined through memory, with a queue pair
// that is connected to the other's.
type end struct {
	d      *Device
	pd     *PD
	sq, rq *CQ
	mem    []byte
	mr     *MR
	q      *QP
	next   uint64 // ID of the next request
	cut    bool   // requests have two pieces of memory, and so go in packets
}

const crossDepth = 8

// newEnds returns two devices of one circle. Packets cross between them, unless
// wrap puts something around the link of the second.
func newEnds(t testing.TB, wrap func(link.Link) link.Link) (a, b *end) {
	t.Helper()
	x := work.NewInline()
	return newEndsOn(t, wrap, x, x)
}

// newEndsOn returns two devices on those executors, which it closes at the end.
func newEndsOn(t testing.TB, wrap func(link.Link) link.Link, xa, xb work.Executor) (a, b *end) {
	t.Helper()
	_, polled := xa.(*work.Inline)
	la, lb := link.NewPair(link.PairConfig{Alone: polled})
	var other link.Link = lb
	if wrap != nil {
		other = wrap(lb)
	}
	a, b = new(end), new(end)
	a.open(t, la, xa)
	b.open(t, other, xb)
	a.connect(b)
	b.connect(a)
	t.Cleanup(func() {
		for _, e := range [...]*end{a, b} {
			if err := e.d.Close(); err != nil {
				t.Error(err)
			}
		}
		xa.Close()
		if xb != xa {
			xb.Close()
		}
	})
	return a, b
}

func (e *end) open(t testing.TB, l link.Link, x work.Executor) {
	t.Helper()
	var errs [5]error
	e.d, errs[0] = Open(Config{Link: l, Executor: x})
	e.pd = e.d.NewPD()
	e.sq, errs[1] = e.d.NewCQ(64, nil)
	e.rq, errs[2] = e.d.NewCQ(64, nil)
	e.mem = make([]byte, 1<<16)
	e.mr, errs[3] = e.pd.Register(e.mem, qp.LocalWrite|qp.RemoteRead|qp.RemoteWrite|qp.RemoteAtomic)
	e.q, errs[4] = e.d.NewQP(QPConfig{PD: e.pd, Transport: roce.RC, SendCQ: e.sq, RecvCQ: e.rq,
		SendDepth: 4 * crossDepth, RecvDepth: crossDepth, SendSGE: 2, RecvSGE: 1, SignalAll: true})
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func (e *end) connect(to *end) {
	all := qp.RemoteRead | qp.RemoteWrite | qp.RemoteAtomic
	e.q.ToInit()
	e.q.ToRTR(qp.ResponderConfig{DestQPN: to.q.num, MTU: roce.MTU1024, PSN: 100, MaxDestRdAtomic: 4, MinRNRTimer: 1, Access: all},
		AddressVector{IP: to.d.Local().IP})
	e.q.ToRTS(qp.SenderConfig{DestQPN: to.q.num, MTU: roce.MTU1024, PSN: 100, Timeout: 14, RetryCount: 7, RNRRetry: 7, MaxRdAtomic: 4})
}

// post posts n requests of size bytes, and receive posts n receives.
func (e *end) post(t testing.TB, op qp.Op, n, size int, to *end) {
	t.Helper()
	sq, mu := e.q.SendQueue()
	mu.Lock()
	for range n {
		w := sq.Reserve()
		if w == nil {
			t.Fatal("the send queue is full")
		}
		w.ID, w.Op, w.Flags, w.Len = e.next, op, 0, uint32(size)
		first := 0
		if w.SG = w.SG[:0]; e.cut {
			first = 1
			w.SG = append(w.SG, qp.SGE{Addr: e.mr.Addr(), Len: 1, LKey: e.mr.Key()})
		}
		w.SG = append(w.SG, qp.SGE{Addr: e.mr.Addr() + uint64(first), Len: uint32(size - first), LKey: e.mr.Key()})
		w.RemoteAddr, w.RKey = to.mr.Addr(), to.mr.Key()
		e.next++
	}
	sq.Publish()
	mu.Unlock()
	e.q.Ring()
}

func (e *end) receive(t testing.TB, n int) {
	t.Helper()
	e.q.LockReceives()
	defer e.q.UnlockReceives()
	for range n {
		w := e.q.NextReceive()
		if w == nil {
			t.Fatal("the receive queue is full")
		}
		w.SG = append(w.SG[:0], qp.SGE{Addr: e.mr.Addr(), Len: 4096, LKey: e.mr.Key()})
		e.q.PostReceive()
	}
}

// ended returns how many entries are in a queue, without driving, and takes
// them. All must be successes, in order.
func (q *CQ) ended(t testing.TB) (n int) {
	t.Helper()
	q.d.exclusively(func() {
		for ; q.head != q.tail; q.head++ {
			if e := q.ring[q.head&uint64(len(q.ring)-1)]; e.Status != qp.StatusSuccess {
				t.Fatalf("got status %d", e.Status)
			}
			n++
		}
	})
	return n
}

// inBothShapes runs a test with messages that go whole, and in packets.
func inBothShapes(t *testing.T, test func(t *testing.T, a, b *end)) {
	for _, cut := range []bool{false, true} {
		name := "whole"
		if cut {
			name = "packets"
		}
		t.Run(name, func(t *testing.T) {
			a, b := newEnds(t, nil)
			a.cut, b.cut = cut, cut
			a.d.driveIdle() // the queue pairs are new
			test(t, a, b)
			n := a.d.counter("sent_pkts")
			if acks := b.d.counter("sent_pkts"); n == 0 || cut != (acks > 1) { // one may have gone in a packet
				t.Errorf("%d packets and %d answers passed", n, acks)
			}
		})
	}
}

func TestAMessageCrossesAndIsAcknowledgedInOneRound(t *testing.T) {
	inBothShapes(t, crossesInOneRound)
}

func crossesInOneRound(t *testing.T, a, b *end) {
	for range 3 * crossDepth {
		b.receive(t, 1)
		a.post(t, qp.OpSend, 1, 64, b)
		a.d.Drive(0) // of one round
		if sent, got := a.sq.ended(t), b.rq.ended(t); sent != 1 || got != 1 {
			t.Fatalf("got %d and %d completions after a round, want one at each end", sent, got)
		}
	}
	if at := a.d.timers.next.Load(); at != 0 {
		t.Error("a timer runs for messages that were answered at once")
	}
	if a.d.far != b.d || b.d.far != a.d {
		t.Error("nothing crosses")
	}
}

// Those who have seen a completion may post the next receive.
func TestReceivesAreFreeWhenTheirCompletionsAreSeen(t *testing.T) {
	inBothShapes(t, receivesAreFree)
}

func receivesAreFree(t *testing.T, a, b *end) {
	for range 4 {
		b.receive(t, crossDepth) // fails when one is not free
		a.post(t, qp.OpSend, crossDepth, 64, b)
		a.d.Drive(0)
		if n := b.rq.ended(t); n != crossDepth {
			t.Fatalf("got %d receives, want %d", n, crossDepth)
		}
	}
	// What is to run anyway, when its turn comes, takes nothing before.
	b.receive(t, 1)
	a.post(t, qp.OpSend, 1, 64, b)
	a.d.exclusively(func() {
		a.d.circle.due.push(&b.q.recv.half)
		a.q.send.run(16)
	})
	if b.rq.ended(t) != 0 {
		t.Error("a receive completed long before its slot is free")
	}
	a.d.driveIdle()
	if b.rq.ended(t) != 1 {
		t.Error("the receive did not complete")
	}
}

func TestAReceiveQueueThatWasResetHoldsItsDepth(t *testing.T) {
	a, b := newEnds(t, nil)
	for range 3 {
		b.receive(t, crossDepth)
		a.post(t, qp.OpSend, crossDepth, 64, b)
		a.d.driveIdle()
	}
	if err := b.q.ToReset(); err != nil {
		t.Fatal(err)
	}
	b.q.LockReceives()
	defer b.q.UnlockReceives()
	n := 0
	for ; b.q.NextReceive() != nil && n < 4*crossDepth; n++ {
		b.q.PostReceive()
	}
	if n != crossDepth {
		t.Errorf("got %d receives into a queue of %d", n, crossDepth)
	}
}

// Answers that come from inside of a Step wait for its end.
func TestNoMachineIsEnteredFromInsideOfItself(t *testing.T) {
	a, b := newEnds(t, nil)
	a.d.driveIdle()
	inside := 0
	a.q.send.m.SetTrace(func(string, roce.PSN) {
		if b.q.recv.inside { // the responder took a packet from inside of Emit
			inside++
		}
	})
	for range 4 {
		a.post(t, qp.OpRead, 4, 100, b)
		a.d.driveIdle()
	}
	if n := a.sq.ended(t); n != 16 {
		t.Errorf("got %d READs, want 16", n)
	}
	if inside > 0 {
		t.Errorf("%d steps of the completer ran inside of the requester's", inside)
	}
}

// While something is on the long way, all goes there, in order.
func TestNothingOvertakesOnTheShortWay(t *testing.T) {
	a, b := newEnds(t, nil)
	a.d.driveIdle()
	b.receive(t, crossDepth)
	a.cut = true
	a.d.exclusively(func() {
		far := a.d.far
		a.d.far = nil // the first two take the long way
		a.post(t, qp.OpSend, 2, 64, b)
		a.q.send.run(16)
		a.d.far = far
		a.post(t, qp.OpSend, 2, 64, b)
		a.q.send.run(16)
		if a.d.tx.n != 4 {
			t.Errorf("got %d packets in the outbox, want all 4", a.d.tx.n)
		}
		a.d.tx.send()
		a.post(t, qp.OpSend, 2, 64, b) // the link is not empty
		a.q.send.run(16)
		if a.d.tx.n != 2 {
			t.Errorf("got %d packets in the outbox, want 2 behind those on the link", a.d.tx.n)
		}
	})
	a.d.driveIdle()
	if n := b.d.counter("out_of_seq_request"); n != 0 {
		t.Errorf("%d packets were overtaken", n)
	}
	if sent, got := a.sq.ended(t), b.rq.ended(t); sent != 6 || got != 6 {
		t.Errorf("got %d and %d completions, want 6", sent, got)
	}
}

func TestWhatCrossesIsChecked(t *testing.T) {
	a, b := newEnds(t, nil)
	a.d.driveIdle()
	b.receive(t, 2)
	a.post(t, qp.OpSend, 1, 64, b)
	a.d.driveIdle()
	b.q.ToErr() // the two know each other by now
	a.post(t, qp.OpSend, 1, 64, b)
	a.d.driveIdle()
	if n := b.d.counter("drop_qp_state"); n == 0 {
		t.Error("a queue pair in error took a packet that crossed")
	}
	if n := b.d.counter("rcvd_pkts"); n != 2 {
		t.Errorf("got %d packets counted, want 2", n)
	}
	if sent, came := a.d.counter("sent_bytes"), b.d.counter("rcvd_bytes"); sent != came || sent == 0 {
		t.Errorf("sent %d bytes and received %d", sent, came)
	}
}

func TestAStoppedHalfGetsWhatCrossedWhenItGoesOn(t *testing.T) {
	a, b := newEnds(t, nil)
	a.d.driveIdle()
	b.receive(t, 2)
	b.q.recv.disable()
	a.post(t, qp.OpSend, 2, 64, b)
	a.d.driveIdle()
	if n := b.rq.ended(t); n != 0 {
		t.Fatalf("a half that is stopped took %d messages", n)
	}
	if b.q.recv.waiting != 2 {
		t.Errorf("%d packets wait for it, want 2", b.q.recv.waiting)
	}
	if a.q.send.idle(0) && a.q.send.idle(1) {
		t.Error("the frames that wait are not counted as out")
	}
	b.receive(t, 2)
	a.post(t, qp.OpSend, 2, 64, b)
	a.d.exclusively(func() {
		b.q.recv.stopped = false
		a.q.send.run(16)
	})
	if b.q.recv.waiting != 4 {
		t.Errorf("%d packets wait, want 2 behind the first 2", b.q.recv.waiting)
	}
	b.q.recv.enable()
	a.d.driveIdle()
	if sent, got := a.sq.ended(t), b.rq.ended(t); sent != 4 || got != 4 {
		t.Errorf("got %d and %d completions, want 4", sent, got)
	}
}

// A watched link is anything around a memory link.
type watched struct {
	link.Link
	sent int
}

func (w *watched) Send(f []*frame.Frame) int {
	n := w.Link.Send(f)
	w.sent += n
	return n
}

func TestNothingCrossesUnseen(t *testing.T) {
	w := new(watched)
	a, b := newEnds(t, func(l link.Link) link.Link { w.Link = l; return w })
	b.receive(t, 1)
	a.post(t, qp.OpSend, 1, 64, b)
	a.d.driveIdle()
	if n := b.rq.ended(t); n != 1 || w.sent != 1 {
		t.Errorf("got %d messages and %d answers through what is around the link, want 1", n, w.sent)
	}
	if a.d.far != nil || b.d.far != nil {
		t.Error("packets would cross past what is around a link")
	}
}

func TestNothingCrossesOnALinkThatIsShared(t *testing.T) {
	a, b := newEnds(t, nil)
	a.d.exclusively(a.d.share)
	a.cut = true
	b.receive(t, 1)
	a.post(t, qp.OpSend, 1, 64, b)
	a.d.Drive(0)
	if n := b.rq.ended(t); n != 0 {
		t.Error("a packet crossed on a link that others use")
	}
	a.d.driveIdle()
	if n := b.rq.ended(t); n != 1 {
		t.Errorf("got %d messages, want 1", n)
	}
}

// A half that failed, and was reset before it could tell the other one, tells
// nobody in the next life.
func TestAFailureEndsWithTheResetBehindIt(t *testing.T) {
	a, b := newEnds(t, nil)
	a.d.driveIdle()
	a.d.exclusively(func() {
		a.q.send.follows = &a.q.recv.half
		a.d.circle.due.push(&a.q.send.half)
	})
	for _, e := range [...]*end{a, b} {
		e.q.ToReset()
	}
	a.connect(b)
	b.connect(a)
	b.receive(t, 1)
	a.receive(t, 1)
	a.post(t, qp.OpSend, 1, 64, b)
	b.post(t, qp.OpSend, 1, 64, a)
	a.d.driveIdle()
	state, _ := a.q.State()
	if n := a.rq.ended(t); n != 1 || state != RTS {
		t.Errorf("got %d messages and state %v, want one and RTS", n, state)
	}
}

// Who was shut while a packet was looked at gets no more of them: the view that
// is remembered is the one that let the packet in, not the one after it. A packet
// for a queue pair that is gone would never come back.
func TestWhoIsShutMeanwhileIsNoAcquaintance(t *testing.T) {
	a, b := newEnds(t, nil)
	open := b.q.view.Load()
	var stop atomic.Bool
	var others sync.WaitGroup
	others.Go(func() {
		for !stop.Load() {
			b.q.shut()
			b.q.view.Store(open)
		}
	})
	a.d.exclusively(func() {
		h := &a.q.send.half
		for range 20_000 {
			h.met = acquaintance{}
			o := h.frameOfCircle().Owner.(*outFrame)
			head := roce.Build((*[roce.HeadSize]byte)(&o.Head), roce.RCSendOnly)
			head.BTH().SetDestQP(b.q.num)
			head.BTH().SetPSN(99) // a duplicate
			o.HeadLen = uint8(head.Len())
			h.cross(&o.Frame, a.q.view.Load())
			if m := h.met; m.half != nil && !m.theirs.requests {
				t.Error("the view that is remembered lets nothing in")
				break
			}
			h.circle.answer(16)
		}
	})
	stop.Store(true)
	others.Wait()
}
