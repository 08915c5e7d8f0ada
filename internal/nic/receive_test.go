package nic

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/work"
)

// Every packet that does not belong is dropped, and counted under its reason.
func TestPacketsThatDoNotBelongAreDropped(t *testing.T) {
	type edit = func(f *frame.Frame, h roce.Headers)
	for counter, c := range map[string]struct {
		op   roce.Opcode
		size int
		edit edit
	}{
		"drop_short":         {roce.RCWriteOnly, 4, func(f *frame.Frame, h roce.Headers) { f.HeadLen = 20 }},
		"drop_version":       {roce.RCSendOnly, 4, func(f *frame.Frame, h roce.Headers) { f.Head[1] |= 1 }},
		"drop_opcode":        {roce.RCSendOnly, 4, func(f *frame.Frame, h roce.Headers) { f.Head[0] = 0x3b }},
		"drop_length":        {roce.RCAck, 0, func(f *frame.Frame, h roce.Headers) { f.Len, f.Payload = 4, [][]byte{make([]byte, 4)} }},
		"rcvd_cnp":           {roce.CNP, 0, nil},
		"drop_unknown_qp":    {roce.RCSendOnly, 4, func(f *frame.Frame, h roce.Headers) { h.BTH().SetDestQP(5) }},
		"drop_transport":     {roce.UCSendOnly, 4, nil},
		"drop_address":       {roce.RCSendOnly, 4, func(f *frame.Frame, h roce.Headers) { f.Peer.IP[15] = 9 }},
		"drop_pkey":          {roce.RCSendOnly, 4, func(f *frame.Frame, h roce.Headers) { h.BTH().SetPKey(0x8001) }},
		"out_of_seq_request": {roce.RCSendOnly, 4, func(f *frame.Frame, h roce.Headers) { h.BTH().SetPSN(100 + 1<<22) }},
		"duplicate_request":  {roce.RCSendOnly, 4, func(f *frame.Frame, h roce.Headers) { h.BTH().SetPSN(90) }},
		"drop_ghost":         {roce.RCAck, 0, func(f *frame.Frame, h roce.Headers) { h.BTH().SetPSN(900); h.AETH().Set(roce.AckUnlimited, 1) }},
	} {
		t.Run(counter, func(t *testing.T) {
			b := newBench(t)
			b.s.arrive(b.d, b.packet(c.op, c.size, c.edit))
			if got := b.d.counter(counter); got != 1 {
				t.Errorf("got %d, want 1", got)
			}
			if b.s.given != 1 {
				t.Errorf("got %d packets given back, want 1", b.s.given)
			}
			if s, _ := b.q.State(); s != RTS {
				t.Errorf("got state %v, want RTS", s)
			}
		})
	}
}

func TestLimitedMembersDoNotTalk(t *testing.T) {
	for _, c := range []struct {
		a, b uint16
		want bool
	}{{0xffff, 0xffff, true}, {0xffff, 0x7fff, true}, {0x7fff, 0x7fff, false}, {0xffff, 0x8001, false}, {0x8000, 0x8000, false}} {
		if got := samePartition(c.a, c.b); got != c.want {
			t.Errorf("got %v for %#x and %#x, want %v", got, c.a, c.b, c.want)
		}
	}
}

func TestPacketsWaitForTheirState(t *testing.T) {
	b := newBench(t)
	b.q.ToErr()
	b.s.arrive(b.d, b.packet(roce.RCSendOnly, 4, nil))
	if got := b.d.counter("drop_qp_state"); got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}

// More packets than a half takes are dropped, and the rest are given back.
func TestABacklogIsBounded(t *testing.T) {
	b := newBench(t)
	b.q.recv.disable()
	frames := make([]*frame.Frame, backlog+100)
	for i := range frames {
		frames[i] = b.packet(roce.RCSendOnly, 4, nil)
	}
	b.s.arrive(b.d, frames...)
	if got := b.d.counter("drop_backlog"); got != 100 {
		t.Errorf("got %d dropped, want 100", got)
	}
	b.q.recv.enable()
	for b.d.Drive(0) {
	}
	if b.s.given != len(frames) {
		t.Errorf("got %d packets given back, want %d", b.s.given, len(frames))
	}
}

// A link without room keeps nothing and loses nothing: what could not be sent
// goes out when there is room, in order.
func TestALinkWithoutRoomIsWaitedFor(t *testing.T) {
	b := newBench(t)
	b.s.full = true
	sq, mu := b.q.SendQueue()
	for n := range 10 {
		mu.Lock()
		w := sq.Reserve()
		w.ID, w.Op, w.Len = uint64(n), qp.OpWrite, 40*1024
		w.RKey, w.SG = 1, append(w.SG[:0], qp.SGE{Addr: b.mr.Addr(), Len: w.Len, LKey: b.mr.Key()})
		sq.Publish()
		mu.Unlock()
		b.q.Ring()
		for b.d.Drive(0) {
		}
	}
	if got := b.d.counter("no_room"); got == 0 {
		t.Error("got no wait for room")
	}
	b.s.mu.Lock()
	b.s.full = false
	b.s.mu.Unlock()
	b.s.room()
	for b.d.Drive(0) {
	}
	if len(b.s.sent) < 8 || b.s.sent[0] != roce.RCWriteFirst || b.s.sent[1] != roce.RCWriteMiddle {
		t.Errorf("got %v, want the beginning of a WRITE", b.s.sent)
	}
}

// A stress test hardly meets the moment between the last look of a run and its
// end. Here a packet comes just then, as from a receive goroutine.
func TestAPacketAtTheEndOfARunIsHandled(t *testing.T) {
	b := newBench(t)
	second := b.packet(roce.RCWriteOnly, 0, func(f *frame.Frame, h roce.Headers) {
		h.BTH().SetPSN(101)
		h.BTH().SetAckReq(true)
	})
	b.s.while = func() {
		b.s.in = append(b.s.in, second)
		b.d.rx.pass()
	}
	b.s.arrive(b.d, b.packet(roce.RCWriteOnly, 0, func(f *frame.Frame, h roce.Headers) { h.BTH().SetAckReq(true) }))
	if got := b.d.counter("drop_gap"); b.s.given != 2 || len(b.s.sent) != 2 || got != 0 {
		t.Errorf("got %d packets given back and %v sent, want 2 and two acknowledgements", b.s.given, b.s.sent)
	}
}

// FuzzReceive lets arbitrary bytes in: whatever they are, they are given back,
// and the device neither panics nor grows.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{}, uint8(0), uint8(0))
	for _, o := range []roce.Opcode{
		roce.RCSendFirst, roce.RCSendOnly, roce.RCSendOnlyInv, roce.RCWriteFirst, roce.RCWriteOnlyImm, roce.RCReadRequest,
		roce.RCReadResponseOnly, roce.RCAck, roce.RCAtomicAck, roce.RCCompareSwap, roce.RCFlush, roce.RCAtomicWrite, 0x18,
	} {
		var head [roce.HeadSize]byte
		h := roce.Build(&head, o)
		h.BTH().SetPSN(100)
		f.Add(append(h.Bytes(), make([]byte, 8)...), uint8(h.Len()), uint8(2))
	}
	f.Fuzz(func(t *testing.T, data []byte, headLen, cuts uint8) {
		b := newBench(t)
		b.q.LockReceives()
		for range 4 {
			w := b.q.NextReceive()
			w.SG = append(w.SG[:0], qp.SGE{Addr: b.mr.Addr(), Len: 4096, LKey: b.mr.Key()})
			b.q.PostReceive()
		}
		b.q.UnlockReceives()
		sq, mu := b.q.SendQueue()
		for _, op := range []qp.Op{qp.OpRead, qp.OpWrite, qp.OpFetchAdd} {
			mu.Lock()
			w := sq.Reserve()
			w.Op, w.Len, w.SG = op, 8, append(w.SG[:0], qp.SGE{Addr: b.mr.Addr(), Len: 8, LKey: b.mr.Key()})
			sq.Publish()
			mu.Unlock()
		}
		b.q.Ring()
		sent := 0
		for len(data) > 0 && sent < 32 {
			f := new(frame.Frame)
			n := copy(f.Head[:], data[:min(int(headLen), len(data))])
			f.HeadLen, f.Peer, f.Local = headLen, there, here
			rest := data[n:]
			take := min(len(rest), int(cuts)*8)
			f.Payload, f.Len = [][]byte{rest[:take]}, take
			data = rest[take:]
			(*roce.BTH)(f.Head[:]).SetDestQP(b.q.num)
			f.Pad = uint8((*roce.BTH)(f.Head[:]).Pad())
			if sent++; n+take == 0 {
				data = nil
			}
			b.s.arrive(b.d, f)
		}
		if b.s.given != sent {
			t.Errorf("got %d of %d packets given back", b.s.given, sent)
		}
		if len(b.s.sent) > 32*sent+8 {
			t.Errorf("got %d packets in answer to %d", len(b.s.sent), sent)
		}
	})
}

// Who finds the completions of both halves in one queue finds first why one has
// failed, and then what the other has flushed.
func TestTheOtherHalfFailsBehindTheReason(t *testing.T) {
	b := newBench(t)
	for _, x := range []work.Executor{nil, work.NewTasklet()} {
		q := b.q
		if x != nil {
			var err error
			if q, err = b.d.NewQP(QPConfig{PD: b.pd, Transport: roce.RC, SendCQ: b.cq, RecvCQ: b.cq, Executor: x}); err != nil {
				t.Fatal(err)
			}
			q.send.disable() // this test is its run
			q.recv.disable()
		}
		b.d.exclusively(func() {
			q.send.begin()
			q.send.Fatal(qp.StatusRemAccess)
			if got := q.recv.commands.Load(); got != 0 {
				t.Errorf("the other half was told %d before the run had shown its completions", got)
			}
			if x == nil {
				q.send.end()
			}
		})
		if x != nil {
			q.send.end()
		}
		if got := q.recv.commands.Load(); got != cmdFail {
			t.Errorf("the other half was told %d after the run, want to fail", got)
		}
		if x != nil {
			if err := q.Destroy(); err != nil {
				t.Error(err)
			}
			x.(interface{ Close() }).Close()
		}
	}
}
