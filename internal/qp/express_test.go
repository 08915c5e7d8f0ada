package qp

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/gantry-rdma/gantry/roce"
)

// newNear returns two hosts that are near each other, with an MTU of 256.
func newNear(t *testing.T) *pair {
	t.Helper()
	p := newPair(t, roce.MTU256, 0xfffffd, 2, 64)
	for _, h := range []*host{p.a, p.b} {
		h.s.cfg.QPN, h.r.cfg.QPN = qpnA, qpnA
		h.s.cfg.DestQPN, h.r.cfg.DestQPN = qpnB, qpnB
		if h == p.b {
			h.s.cfg.QPN, h.r.cfg.QPN, h.s.cfg.DestQPN, h.r.cfg.DestQPN = qpnB, qpnB, qpnA, qpnA
		}
	}
	p.a.near = func() *Responder { return &p.b.r }
	p.b.near = func() *Responder { return &p.a.r }
	return p
}

// send is a SEND of n bytes.
func send(id uint64, n int) func(*WQE) {
	return func(w *WQE) {
		w.ID, w.Op = id, OpSend
		w.SG = append(w.SG, SGE{addr(1, 4096), uint32(n), 1})
	}
}

// TestWhatIsNearGetsMessagesWhole: no packet, no frame, no timer, and both ends
// are where packets would have left them.
func TestWhatIsNearGetsMessagesWhole(t *testing.T) {
	type left struct {
		got, sent []CQE
		mem       []byte
		expected  roce.PSN
		plain     roce.PSN
		msn       uint32
		next      roce.PSN
		una       int64
		events    string
	}
	run := func(near bool) (l left, handed, packets int) {
		p := newNear(t)
		if !near {
			p.a.near = nil
		}
		requests := []func(*WQE){
			send(0, 0), send(1, 1), send(2, 256), send(3, 257), write(4, 0), write(5, 700), write(6, 256),
			func(w *WQE) { write(7, 9)(w); w.Op, w.Imm, w.Flags = OpWriteImm, 77, Signaled|Solicited },
			func(w *WQE) { send(8, 300)(w); w.Op, w.Imm, w.Flags = OpSendImm, 78, Solicited },
			func(w *WQE) { w.ID, w.Op, w.Flags, w.Data = 9, OpSend, Signaled|Inline, append(w.Data, "inline"...) },
			func(w *WQE) { write(10, 5)(w); w.Flags |= Solicited | Fence },
		}
		for i, r := range requests {
			p.b.receive(uint64(100+i), SGE{addr(1, 512*i), 512, 1})
			p.a.post(r)
			if i%3 == 2 {
				p.run(t)
			}
		}
		p.run(t)
		for _, e := range p.b.events {
			l.events += e.String()
		}
		l.got, l.sent, l.mem = p.b.received, p.a.sent, p.b.regions[0].mem
		l.expected, l.plain, l.msn = p.b.r.expected, p.b.r.plain, p.b.r.msn
		l.next, l.una = p.a.s.NextPSN(), p.a.s.una
		if d := p.a.s.Deadline(); d != 0 || p.a.q.Len() != 0 {
			t.Errorf("near %v: deadline %d with %d requests queued", near, d, p.a.q.Len())
		}
		return l, p.a.handed, p.a.made
	}
	whole, handed, frames := run(true)
	if handed != 11 || frames != 0 {
		t.Errorf("%d messages went whole and %d frames were made, want 11 and none", handed, frames)
	}
	cut, handed, _ := run(false)
	if handed != 0 {
		t.Errorf("%d messages went whole to who is not near", handed)
	}
	if got, want := fmt.Sprintf("%+v", whole), fmt.Sprintf("%+v", cut); got != want || !bytes.Equal(whole.mem, cut.mem) {
		t.Errorf("messages that go whole leave\n%s\nand packets\n%s", got, want)
	}
}

// TestWhatIsInTheWayGoesInPackets: each of these is for packets to sort out, and
// ends as it does with them.
func TestWhatIsInTheWayGoesInPackets(t *testing.T) {
	ok := []Status{StatusSuccess}
	for _, c := range []struct {
		name string
		set  func(p *pair)
		post func(*WQE)
		want []Status
	}{
		{"more than one entry", nil, func(w *WQE) {
			send(0, 4)(w)
			w.SG = append(w.SG, SGE{addr(1, 0), 4, 1})
		}, ok},
		{"a receive of two entries", func(p *pair) {
			p.b.posted[0].SG = []SGE{{addr(1, 0), 3, 1}, {addr(1, 9), 9, 1}}
		}, send(0, 8), ok},
		{"a receive of no entry", func(p *pair) { p.b.posted[0].SG = nil }, send(0, 8), []Status{StatusRemInvRequest}},
		{"a receive that is too short", func(p *pair) { p.b.posted[0].SG[0].Len = 7 }, send(0, 8), []Status{StatusRemInvRequest}},
		{"a receive with a bad key", func(p *pair) { p.b.posted[0].SG[0].LKey = 9 }, send(0, 8), []Status{StatusRemOp}},
		{"no local write", func(p *pair) { p.b.regions[0].rights &^= LocalWrite }, send(0, 8), []Status{StatusRemOp}},
		{"no receive", func(p *pair) { p.b.posted = nil; p.a.s.retry.rnrLeft = 0 }, send(0, 8), []Status{StatusRNRExceeded}},
		{"no receive for immediate data", func(p *pair) { p.b.posted = nil; p.a.s.retry.rnrLeft = 0 },
			func(w *WQE) { write(0, 8)(w); w.Op = OpWriteImm }, []Status{StatusRNRExceeded}},
		{"a bad local key", nil, func(w *WQE) { send(0, 8)(w); w.SG[0].LKey = 9 }, []Status{StatusLocProt}},
		{"a bad remote key", nil, func(w *WQE) { write(0, 8)(w); w.RKey = 9 }, []Status{StatusRemAccess}},
		{"out of range by a byte", nil, func(w *WQE) { write(0, 8)(w); w.RemoteAddr = addr(1, 8192-7) }, []Status{StatusRemAccess}},
		{"no remote write of the region", func(p *pair) { p.b.regions[0].rights &^= RemoteWrite }, write(0, 8), []Status{StatusRemAccess}},
		{"no remote write of the queue pair", func(p *pair) { p.b.r.SetAccess(RemoteRead) }, write(0, 8), []Status{StatusRemAccess}},
		{"inline data of another length", nil, func(w *WQE) {
			w.Op, w.Flags, w.Len, w.Data = OpSend, Signaled|Inline, 9, append(w.Data, 1, 2)
		}, []Status{StatusLocQPOp}},
		{"a key to invalidate", func(p *pair) { p.b.register(make([]byte, 8), RemoteRead) },
			func(w *WQE) { send(0, 8)(w); w.Op, w.Imm = OpSendInv, 2 }, ok},
		{"a READ", nil, func(w *WQE) { write(0, 8)(w); w.Op = OpRead }, ok},
		{"more than a run may send", nil, write(0, 4*256), ok},
		{"a message that was begun", func(p *pair) { p.b.r.inside = sendMessage }, send(0, 8), []Status{StatusRemInvRequest}},
		{"another number expected", func(p *pair) { p.b.r.expected = 7; p.a.s.retry.left = 0 }, send(0, 8), []Status{StatusRetryExceeded}},
		{"another MTU", func(p *pair) { p.b.r.mtu = 512 }, send(0, 8), ok},
		{"a peer that has failed", func(p *pair) { p.b.r.Fail(); p.a.s.cfg.EndlessRetry = false; p.a.s.retry.left = 0 },
			send(0, 8), []Status{StatusRetryExceeded}},
		{"a peer whose queue is full", func(p *pair) { p.b.room = 0; p.a.s.cfg.EndlessRetry = false; p.a.s.retry.left = 0 },
			send(0, 8), []Status{StatusRetryExceeded}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newNear(t)
			p.b.receive(0, SGE{addr(1, 0), 512, 1})
			if c.set != nil {
				c.set(p)
			}
			p.a.s.cfg.EndlessRetry = false
			p.a.post(c.post)
			p.run(t)
			if p.a.handed != 0 || p.a.made == 0 && c.want[0] != StatusLocQPOp {
				t.Errorf("it went whole")
			}
			if len(p.a.sent) != 1 || p.a.sent[0].Status != c.want[0] {
				t.Errorf("got %v, want %v", p.a.sent, c.want)
			}
		})
	}
}

// TestNothingGoesWholePastWhatIsOutstanding: the order is that of the queue.
func TestNothingGoesWholePastWhatIsOutstanding(t *testing.T) {
	p := newNear(t)
	for i := range 3 {
		p.b.receive(uint64(i), SGE{addr(1, 0), 512, 1})
	}
	p.a.near = nil
	p.a.post(send(0, 8))
	p.a.s.Step(p.now, 1) // its packet is out
	p.a.near = func() *Responder { return &p.b.r }
	p.a.post(send(1, 8))
	p.a.s.Step(p.now, 1)
	if p.a.handed != 0 || len(p.b.received) != 0 {
		t.Error("a message overtook one before it")
	}
	lost := p.takeAll()
	p.now = p.a.s.Deadline()
	p.a.s.Step(p.now, 1) // asks for an answer, or goes back: to what has begun
	if p.a.handed != 0 {
		t.Error("a message that was sent in packets went whole as well")
	}
	lost += p.takeAll()
	p.run(t)
	p.a.post(send(2, 8))
	p.run(t)
	if p.a.handed != 1 || len(p.a.sent) != 3 || len(p.b.received) != 3 || lost < 2 {
		t.Errorf("%d went whole, %d were sent and %d received, want 1, 3 and 3", p.a.handed, len(p.a.sent), len(p.b.received))
	}
}

// takeAll loses what the first host has sent, and returns how much that is.
func (p *pair) takeAll() (n int) {
	for _, f := range p.a.takeOut() {
		f.Back()
		n++
	}
	return n
}

// TestNothingGoesWholeWhileTheQueueDrains, nor after it, until it goes on.
func TestNothingGoesWholeWhileTheQueueDrains(t *testing.T) {
	p := newNear(t)
	p.a.s.Drain()
	p.a.post(write(0, 8))
	p.run(t)
	if p.a.handed != 0 || len(p.a.sent) != 0 || p.a.s.State() != Drained {
		t.Errorf("a drained queue has sent %d", len(p.a.sent))
	}
	p.a.s.Resume()
	p.run(t)
	if p.a.handed != 1 || len(p.a.sent) != 1 {
		t.Errorf("%d went whole and %d completed after it, want one", p.a.handed, len(p.a.sent))
	}
}

// TestASlotForgetsHowItEnded: what failed once does not fail again in another life.
func TestASlotForgetsHowItEnded(t *testing.T) {
	p := newNear(t)
	for i := range p.a.q.Depth() {
		p.a.post(func(w *WQE) { write(uint64(i), 8)(w); w.RKey = 9 })
	}
	p.run(t)
	c := p.a.s.cfg
	p.a.s.Reset()
	c.PSN, p.b.r.expected = 1, 1
	p.a.s.Start(c)
	p.b.r.state, p.b.s.state, p.a.r.state = Running, Running, Running
	p.a.sent = nil
	for i := range p.a.q.Depth() {
		p.a.post(write(uint64(i), 8))
	}
	p.run(t)
	for _, e := range p.a.sent {
		if e.Status != StatusSuccess {
			t.Fatalf("got %+v", e)
		}
	}
	if p.a.handed != p.a.q.Depth() {
		t.Errorf("%d went whole, want all %d", p.a.handed, p.a.q.Depth())
	}
}

// Over UC nobody says what has arrived. A frame that is back has.
func TestOverUCNothingPassesWhatIsOnItsWay(t *testing.T) {
	p := newNear(t)
	for _, h := range []*host{p.a, p.b} {
		h.s.cfg.Transport, h.r.cfg.Transport = roce.UC, roce.UC
	}
	for i := range 4 {
		p.b.receive(uint64(i), SGE{addr(1, 0), 512, 1})
	}
	p.a.post(send(0, 8))
	p.a.s.Step(p.now, 16)
	if p.a.handed != 1 || len(p.b.received) != 1 || len(p.a.sent) != 1 {
		t.Fatalf("%d went whole, %d were received and %d completed, want one", p.a.handed, len(p.b.received), len(p.a.sent))
	}
	p.a.post(func(w *WQE) {
		send(1, 4)(w)
		w.SG = append(w.SG, SGE{addr(1, 0), 4, 1})
	})
	p.a.post(send(2, 8))
	p.a.s.Step(p.now, 16)
	p.a.post(send(3, 8))
	p.a.s.Step(p.now, 16)
	if n := len(p.b.received); n != 1 || p.a.handed != 1 {
		t.Errorf("%d messages passed one that is on its way", n-1)
	}
	p.run(t)
	for i, e := range p.b.received {
		if e.ID != uint64(i) || e.Status != StatusSuccess {
			t.Errorf("receive %d is %+v", i, e)
		}
	}
	p.b.receive(4, SGE{addr(1, 0), 512, 1})
	p.a.post(send(4, 8))
	p.run(t)
	if len(p.b.received) != 5 || p.a.handed != 2 {
		t.Errorf("%d were received and %d went whole, want 5 and 2", len(p.b.received), p.a.handed)
	}
}

// A budget is not overrun: what does not fit its rest waits for the next Step,
// and is not cut for that.
func TestAStepHandsOverNoMoreThanItsBudget(t *testing.T) {
	p := newNear(t)
	for i := range 3 {
		p.a.post(write(uint64(i), 512)) // two packets
	}
	for i := 1; i <= 3; i++ {
		p.a.s.wait = WaitEarlier // of a Step before
		more := p.a.s.Step(p.now, 3)
		if more && p.a.s.Waiting() != WaitNothing {
			t.Errorf("after step %d it waits for %v, and has more to do", i, p.a.s.Waiting())
		}
		if p.a.handed != i || more != (i < 3) {
			t.Errorf("after step %d: %d went whole, more to do: %v", i, p.a.handed, more)
		}
	}
}
