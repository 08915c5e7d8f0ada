package verbs_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// A sharer is a side b whose queue pairs share a receive queue, each connected
// to one of side a.
type sharer struct {
	*rig
	s    settings
	srq  *SRQ
	from []*QP
	to   []*QP
}

// share connects n queue pairs to n that share a queue.
func share(t testing.TB, da, db *Device, s settings, c SRQInit, n int) *sharer {
	t.Helper()
	x := &sharer{rig: &rig{t: t, a: newEnd(t, da, s), b: newEnd(t, db, s)}, s: s}
	x.srq = must(x.b.pd.CreateSRQ(c))(t)
	for range n {
		x.add()
	}
	return x
}

// add connects one more.
func (x *sharer) add() {
	x.t.Helper()
	x.from = append(x.from, x.a.newQP(x.s))
	x.to = append(x.to, must(x.b.pd.CreateQP(QPInit{
		Type: x.s.service(), SendCQ: x.b.scq, RecvCQ: x.b.cq, Cap: x.s.cap, SRQ: x.srq, Executor: x.s.executor,
	}))(x.t))
	last := len(x.to) - 1
	connect(x.t, x.s, x.a.dev, x.b.dev, x.from[last], x.to[last])
}

func (x *sharer) post(wrs ...RecvWR) {
	x.t.Helper()
	if n, err := x.srq.PostRecv(wrs...); err != nil {
		x.t.Fatalf("got error %v for receive %d", err, n)
	}
}

func (x *sharer) send(i int, wr SendWR) {
	x.t.Helper()
	if _, err := x.from[i].PostSend(wr); err != nil {
		x.t.Fatalf("got error %v for a send on queue pair %d", err, i)
	}
}

// drive lets both devices work while a condition does not hold.
func (x *sharer) until(what string, is func() bool) {
	x.t.Helper()
	until(x.t, what, func() bool {
		x.a.dev.Drive(0)
		x.b.dev.Drive(0)
		return is()
	})
}

// event returns the next event of side b that is not about a new connection.
func (x *sharer) event() (e Event) {
	x.t.Helper()
	x.until("an event", func() (ok bool) {
		for e, ok = x.b.dev.TryEvent(); ok && e.Type == EventCommEst; {
			e, ok = x.b.dev.TryEvent()
		}
		return ok
	})
	return e
}

// noEvent fails the test if there is one.
func (x *sharer) noEvent(when string) {
	x.t.Helper()
	for {
		e, ok := x.b.dev.TryEvent()
		if !ok {
			return
		}
		if e.Type != EventCommEst {
			x.t.Errorf("got event %v %s, want none", e.Type, when)
		}
	}
}

func TestQueuePairsShareReceivesInTheirOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := share(t, da, db, standard(), SRQInit{MaxWR: 16, MaxSGE: 2}, 4)
		for n := range 40 {
			who, size := n*7%4, sizes[n%len(sizes)]
			fill(x.a.mem[:size], n)
			x.post(RecvWR{ID: uint64(n), SG: []SGE{x.b.mr.SGE(0, 100), x.b.mr.SGE(100, 70000)}})
			wr := SendWR{Opcode: WRSendWithImm, Imm: uint32(n), Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, size)}}
			if n%3 == 0 {
				wr.Opcode, wr.RemoteAddr, wr.RKey = WRRDMAWriteWithImm, x.b.mr.Addr(), x.b.mr.RKey()
			}
			x.send(who, wr)
			x.a.good(x.a.scq)
			wc := x.b.good(x.b.cq)
			if wc.ID != uint64(n) || wc.QPN != x.to[who].Num() || wc.Imm != uint32(n) || int(wc.ByteLen) != size {
				t.Errorf("got %+v, want receive %d of %d bytes at queue pair %d", wc, n, size, who)
			}
			if !bytes.Equal(x.b.mem[:size], x.a.mem[:size]) {
				t.Errorf("got other bytes than the %d of message %d", size, n)
			}
		}
	})
}

func TestUnreliableQueuePairsShareReceives(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		for typ, grh := range map[QPType]int{UC: 0, UD: 40} {
			s := standard()
			s.typ, s.qkey = typ, 7
			x := share(t, da, db, s, SRQInit{MaxWR: 4, MaxSGE: 1}, 2)
			ah := must(x.a.pd.CreateAH(AHTo(db.Addr())))(t)
			for n := range 10 {
				fill(x.a.mem[:500], n)
				x.post(RecvWR{ID: uint64(n), SG: []SGE{x.b.mr.SGE(0, 1000)}})
				wr := SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, 500)}}
				if typ == UD {
					wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, x.to[n%2].Num(), 7
				}
				x.send(n%2, wr)
				x.a.good(x.a.scq)
				wc := x.b.good(x.b.cq)
				if wc.ID != uint64(n) || wc.QPN != x.to[n%2].Num() || int(wc.ByteLen) != grh+500 {
					t.Errorf("got %+v, want receive %d of %d bytes", wc, n, grh+500)
				}
				if !bytes.Equal(x.b.mem[grh:][:500], x.a.mem[:500]) {
					t.Errorf("got other bytes than those of message %d", n)
				}
			}
			// Messages that find the queue empty are lost, and nobody waits.
			for range 2 {
				wr := SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, 8)}}
				if typ == UD {
					wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, x.to[0].Num(), 7
				}
				before := db.Counter("drop_no_receive")
				x.send(0, wr)
				x.a.good(x.a.scq)
				x.until("a message without a receive", func() bool { return db.Counter("drop_no_receive") > before })
			}
		}
	})
}

func TestAnEmptySharedQueueIsWaitedFor(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := share(t, da, db, standard(), SRQInit{MaxWR: 16, MaxSGE: 1}, 2)
		for i := range x.from {
			x.send(i, SendWR{ID: uint64(i), Opcode: WRSend, Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, 3000)}})
		}
		x.until("RNR NAKs", func() bool { return da.Counter("rcvd_rnr_err") >= 2 })
		x.post(RecvWR{ID: 1, SG: []SGE{x.b.mr.SGE(0, 3000)}}, RecvWR{ID: 2, SG: []SGE{x.b.mr.SGE(4096, 3000)}})
		for range x.from {
			x.a.good(x.a.scq)
			x.b.good(x.b.cq)
		}
	})
}

func TestTheLimitIsToldOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := share(t, da, db, standard(), SRQInit{MaxWR: 16, MaxSGE: 1, Limit: 4}, 2)
		take := func(n int) {
			t.Helper()
			for i := range n {
				x.send(i%2, SendWR{Opcode: WRSend, Flags: Signaled})
				x.a.good(x.a.scq)
				x.b.good(x.b.cq)
			}
		}
		for i := range uint64(8) {
			x.post(RecvWR{ID: i})
		}
		take(4) // four are left
		x.noEvent("with as many receives as the limit")
		take(1)
		if e := x.event(); e.Type != EventSRQLimitReached || e.SRQ != x.srq {
			t.Errorf("got event %v of %p, want SRQ_LIMIT_REACHED of %p", e.Type, e.SRQ, x.srq)
		}
		take(2)
		x.noEvent("behind the one for the limit")
		if a := must(x.srq.Query())(t); a.Limit != 0 || a.MaxWR != 16 || a.MaxSGE != 1 {
			t.Errorf("got %+v, want a limit of 0 in a queue of 16 with 1 entry", a)
		}

		if err := x.srq.Modify(SRQAttr{Limit: 2}, SRQLimit); err != nil {
			t.Fatal(err)
		}
		take(1) // none is left, and one was when the limit was set
		if e := x.event(); e.Type != EventSRQLimitReached {
			t.Errorf("got event %v, want SRQ_LIMIT_REACHED again", e.Type)
		}
		// Set on an empty queue, it is told to who asks for a receive in vain.
		if err := x.srq.Modify(SRQAttr{Limit: 1}, SRQLimit); err != nil {
			t.Fatal(err)
		}
		x.send(0, SendWR{Opcode: WRSend, Flags: Signaled})
		if e := x.event(); e.Type != EventSRQLimitReached {
			t.Errorf("got event %v, want SRQ_LIMIT_REACHED for an empty queue", e.Type)
		}
		x.post(RecvWR{})
		x.a.good(x.a.scq)
		x.b.good(x.b.cq)
		x.noEvent("at the end")
	})
}

func TestAQueuePairThatFailsLeavesTheSharedQueueToOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := share(t, da, db, standard(), SRQInit{MaxWR: 16, MaxSGE: 1}, 2)
		for i := range uint64(3) {
			x.post(RecvWR{ID: i, SG: []SGE{x.b.mr.SGE(0, 100)}})
		}
		if err := x.to[0].Modify(QPAttr{State: StateErr}, AttrState); err != nil {
			t.Fatal(err)
		}
		if e := x.event(); e.Type != EventQPLastWQE || e.QP != x.to[0] {
			t.Errorf("got event %v of %p, want QP_LAST_WQE_REACHED of %p", e.Type, e.QP, x.to[0])
		}
		for i := range uint64(3) {
			x.send(1, SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, 100)}})
			x.a.good(x.a.scq)
			if wc := x.b.good(x.b.cq); wc.ID != i || wc.QPN != x.to[1].Num() {
				t.Errorf("got %+v, want receive %d at the other queue pair", wc, i)
			}
		}
		x.noEvent("behind the last receive")
	})
}

// A queue pair that refuses a message completes the receive that it took.
func TestARefusedMessageUsesUpItsSharedReceive(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := share(t, da, db, standard(), SRQInit{MaxWR: 4, MaxSGE: 1}, 2)
		x.post(RecvWR{ID: 1, SG: []SGE{x.b.mr.SGE(0, 7)}}, RecvWR{ID: 2, SG: []SGE{x.b.mr.SGE(0, 8)}})
		x.send(0, SendWR{Opcode: WRSend, SG: []SGE{x.a.mr.SGE(0, 8)}})
		if wc := x.a.next(x.a.scq); wc.Status != WCRemInvReqErr {
			t.Errorf("got %v, want REM_INV_REQ_ERR", wc.Status)
		}
		if wc := x.b.next(x.b.cq); wc.ID != 1 || wc.Status != WCLocLenErr {
			t.Errorf("got receive %d with %v, want 1 with LOC_LEN_ERR", wc.ID, wc.Status)
		}
		x.send(1, SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, 8)}})
		x.a.good(x.a.scq)
		if wc := x.b.good(x.b.cq); wc.ID != 2 {
			t.Errorf("got receive %d, want 2", wc.ID)
		}
	})
}

// What receives name is looked up in the domain of their queue, not in that of
// the queue pair.
func TestSharedReceivesAreOfTheDomainOfTheirQueue(t *testing.T) {
	da, db := pair(t, work.NewInline())
	x := share(t, da, db, standard(), SRQInit{MaxWR: 4, MaxSGE: 1}, 0)
	pd := db.AllocPD()
	mem := make([]byte, 64)
	mr := must(pd.RegMR(mem, AccessLocalWrite))(t)
	x.srq = must(pd.CreateSRQ(SRQInit{MaxWR: 4, MaxSGE: 1}))(t)
	x.add()
	x.add()
	x.post(RecvWR{ID: 1, SG: []SGE{mr.SGE(0, 64)}}, RecvWR{ID: 2, SG: []SGE{x.b.mr.SGE(0, 64)}})
	x.send(0, SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, 8)}})
	x.a.good(x.a.scq)
	x.b.good(x.b.cq)
	x.send(0, SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, 8)}})
	if wc := x.a.next(x.a.scq); wc.Status != WCRemOpErr {
		t.Errorf("got %v for memory of another domain, want REM_OP_ERR", wc.Status)
	}
	if got := db.Counter("key_domain"); got != 1 {
		t.Errorf("got %d accesses to another domain, want 1", got)
	}
}

func TestAFailedSharedQueueTakesAndGivesNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		s := standard()
		s.rnrRetry = 1
		x := share(t, da, db, s, SRQInit{MaxWR: 4, MaxSGE: 1}, 1)
		x.post(RecvWR{ID: 1})
		x.srq.Fail()
		x.srq.Fail()
		if e := x.event(); e.Type != EventSRQErr || e.SRQ != x.srq {
			t.Errorf("got event %v of %p, want SRQ_ERR of %p", e.Type, e.SRQ, x.srq)
		}
		if n, err := x.srq.PostRecv(RecvWR{ID: 2}); n != 0 || err != EINVAL {
			t.Errorf("got %d, %v from posting, want 0, EINVAL", n, err)
		}
		x.send(0, SendWR{Opcode: WRSend})
		if wc := x.a.next(x.a.scq); wc.Status != WCRNRRetryExc {
			t.Errorf("got %v, want RNR_RETRY_EXC_ERR", wc.Status)
		}
		x.noEvent("behind the failure")
	})
}

func TestWrongUsesOfSharedQueuesAreRefused(t *testing.T) {
	da, db := pair(t, work.NewInline())
	x := share(t, da, db, standard(), SRQInit{MaxWR: 3, MaxSGE: 1}, 1)
	most := db.Attr()
	for _, c := range []SRQInit{
		{MaxWR: 0, MaxSGE: 1}, {MaxWR: most.MaxSRQWR + 1, MaxSGE: 1}, {MaxWR: 1, MaxSGE: -1},
		{MaxWR: 1, MaxSGE: most.MaxSRQSGE + 1}, {MaxWR: 2, MaxSGE: 1, Limit: 3}, {MaxWR: 2, MaxSGE: 1, Limit: -1},
	} {
		if _, err := x.b.pd.CreateSRQ(c); !errors.Is(err, EINVAL) {
			t.Errorf("got error %v for %+v, want EINVAL", err, c)
		}
	}
	for what, a := range map[string]struct {
		SRQAttr
		mask SRQAttrMask
	}{
		"an unknown attribute": {SRQAttr{}, 4},
		"a limit above":        {SRQAttr{Limit: 4}, SRQLimit},
		"a size below a limit": {SRQAttr{MaxWR: 2, Limit: 3}, SRQMaxWR | SRQLimit},
		"no size":              {SRQAttr{}, SRQMaxWR},
	} {
		if err := x.srq.Modify(a.SRQAttr, a.mask); !errors.Is(err, EINVAL) {
			t.Errorf("got error %v for %s, want EINVAL", err, what)
		}
	}
	if _, err := x.to[0].PostRecv(RecvWR{}); err != EINVAL {
		t.Errorf("got error %v for a receive of a queue pair that shares, want EINVAL", err)
	}
	if n, err := x.srq.PostRecv(RecvWR{}, RecvWR{SG: make([]SGE, 2)}); n != 1 || err != EINVAL {
		t.Errorf("got %d, %v for too many entries, want 1, EINVAL", n, err)
	}
	if n, err := x.srq.PostRecv(RecvWR{}, RecvWR{}, RecvWR{}); n != 2 || err != ENOMEM {
		t.Errorf("got %d, %v for a full queue, want 2, ENOMEM", n, err)
	}
	if err := x.srq.Modify(SRQAttr{MaxWR: 2}, SRQMaxWR); !errors.Is(err, EINVAL) {
		t.Errorf("got error %v for a size below what is in it, want EINVAL", err)
	}
	if err := x.srq.Destroy(); !errors.Is(err, EBUSY) {
		t.Errorf("got error %v for the destruction of a queue in use, want EBUSY", err)
	}
	if _, err := x.a.pd.CreateQP(QPInit{Type: RC, SendCQ: x.a.cq, RecvCQ: x.a.cq, SRQ: x.srq}); !errors.Is(err, EINVAL) {
		t.Errorf("got error %v for the queue of another device, want EINVAL", err)
	}
	if err := x.to[0].Destroy(); err != nil {
		t.Fatal(err)
	}
	if err := x.srq.Destroy(); err != nil {
		t.Errorf("got error %v for the destruction of a queue that nobody uses", err)
	}
	if _, err := x.srq.PostRecv(RecvWR{}); err != EINVAL {
		t.Errorf("got error %v for a receive of a queue that is gone, want EINVAL", err)
	}
	if err := x.srq.Destroy(); !errors.Is(err, EBADF) {
		t.Errorf("got error %v for a second destruction, want EBADF", err)
	}
	if _, err := x.b.pd.CreateQP(QPInit{Type: RC, SendCQ: x.b.cq, RecvCQ: x.b.cq, SRQ: x.srq}); !errors.Is(err, EBADF) {
		t.Errorf("got error %v for a queue pair on a queue that is gone, want EBADF", err)
	}
}

// A flood sends many messages over all queue pairs from several goroutines at
// once, with few receives, which are posted again as they complete. Each message
// arrives once, in the order of its queue pair, with its own bytes.
func (x *sharer) flood(each, receives, size int, meanwhile func()) {
	x.t.Helper()
	order, sender := map[uint32]int{}, map[uint32]int{}
	for i, q := range x.to {
		order[q.Num()], sender[x.from[i].Num()] = i, i
	}
	for i := range receives {
		x.post(RecvWR{ID: uint64(i), SG: []SGE{x.b.mr.SGE(i*size, size)}})
	}
	total := each * len(x.from)
	sent := make([]int, len(x.from))
	got := make([]int, len(x.from))
	back := make([]int, len(x.from)) // sends completed
	var wc [64]WC
	var inFlight, posted, arrived, done int
	advance(x.t, "a flood", func() (int, bool) {
		for i := range sent {
			if sent[i] < each && inFlight < 128 && sent[i]-got[i] < 4 && sent[i]-back[i] < 8 {
				var data [16]byte
				binary.LittleEndian.PutUint64(data[:], uint64(i))
				binary.LittleEndian.PutUint64(data[8:], uint64(sent[i]))
				x.send(i, SendWR{Opcode: WRSend, Flags: Signaled | Inline, Data: data[:]})
				sent[i]++
				inFlight++
				posted++
			}
		}
		meanwhile()
		for _, c := range wc[:x.a.scq.Poll(wc[:])] {
			if c.Status != WCSuccess {
				x.t.Fatalf("got a send with %v", c.Status)
			}
			back[sender[c.QPN]]++
			done++
		}
		for _, c := range wc[:x.b.cq.Poll(wc[:])] {
			at := int(c.ID) * size
			who := int(binary.LittleEndian.Uint64(x.b.mem[at:]))
			n := int(binary.LittleEndian.Uint64(x.b.mem[at+8:]))
			if c.Status != WCSuccess || order[c.QPN] != who || n != got[who] {
				x.t.Fatalf("got message %d of %d at %d with %v, want %d", n, who, order[c.QPN], c.Status, got[who])
			}
			got[who]++
			arrived++
			inFlight--
			x.post(RecvWR{ID: c.ID, SG: []SGE{x.b.mr.SGE(at, size)}})
		}
		return arrived + done, arrived == total && done == total
	})
}

func TestAThousandQueuePairsShareOneQueue(t *testing.T) {
	n := 1000
	if testing.Short() {
		n = 100
	}
	onEach(t, func(t *testing.T, e work.Executor) {
		da, db := pair(t, e)
		s := standard()
		s.cap = QPCap{MaxSendWR: 8, MaxSendSGE: 1, MaxInline: 16}
		s.cqe = 4096
		x := share(t, da, db, s, SRQInit{MaxWR: 96, MaxSGE: 1}, n)
		x.flood(10, 96, 16, func() {})
	})
}

func TestASharedQueueIsResizedAtWork(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		s := standard()
		s.cqe = 4096
		x := share(t, da, db, s, SRQInit{MaxWR: 40, MaxSGE: 1}, 16)
		n := 0
		x.flood(100, 40, 16, func() {
			n++
			size := []int{40, 64, 200, 41}[n%4]
			if err := x.srq.Modify(SRQAttr{MaxWR: size, Limit: 1}, SRQMaxWR|SRQLimit); err != nil {
				t.Fatal(err)
			}
			if a := must(x.srq.Query())(t); a.MaxWR != size {
				t.Fatalf("got a size of %d, want %d", a.MaxWR, size)
			}
		})
	})
}

// Queue pairs come and go, in the middle of messages too, while others use the
// queue: in the end as many receives can be posted as ever.
func TestNoSharedReceiveIsLostWithItsQueuePair(t *testing.T) {
	onEach(t, func(t *testing.T, e work.Executor) {
		da, db := pair(t, e)
		s := standard()
		s.cqe = 1 << 14
		const depth, size = 6, 40_000 // a message takes more than one run
		x := share(t, da, db, s, SRQInit{MaxWR: depth, MaxSGE: 1}, 3)
		stop := x.load(size)
		post := func(id int) { x.post(RecvWR{ID: uint64(id), SG: []SGE{x.b.mr.SGE(id*size, size)}}) }
		for id := range depth {
			post(id)
		}
		var wc [16]WC
		reap := func() (n int) {
			n = x.b.cq.Poll(wc[:])
			for _, c := range wc[:n] {
				post(int(c.ID))
			}
			return n
		}
		for n := range lives(t) / 5 / len(executors) {
			for range 10 {
				reap()
			}
			q := n % 2
			for _, qp := range []*QP{x.from[q], x.to[q]} {
				if err := qp.Modify(QPAttr{State: StateReset}, AttrState); err != nil {
					t.Fatal(err)
				}
			}
			connect(t, s, da, db, x.from[q], x.to[q])
		}
		stop()
		for _, q := range x.to {
			if err := q.Destroy(); err != nil {
				t.Fatal(err)
			}
		}
		for reap() > 0 {
		}
		if n, err := x.srq.PostRecv(RecvWR{}); n != 0 || err != ENOMEM {
			t.Errorf("got %d, %v for one receive more than there were, want 0, ENOMEM", n, err)
		}
		x.useUp(depth)
	})
}

// load lets all queue pairs of side a send messages, whatever their state, until
// stop is called.
func (x *sharer) load(size int) (stop func()) {
	var done atomic.Bool
	var all sync.WaitGroup
	for _, q := range x.from {
		all.Go(func() {
			var wc [16]WC
			for !done.Load() {
				_, _ = q.PostSend(SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, size)}})
				x.a.scq.Poll(wc[:])
			}
		})
	}
	return func() {
		done.Store(true)
		all.Wait()
	}
}

// useUp takes all receives, which are to be n, each once.
func (x *sharer) useUp(n int) {
	x.t.Helper()
	x.from, x.to = nil, nil
	x.add()
	for range n {
		x.send(0, SendWR{Opcode: WRSend, Flags: Signaled})
	}
	seen := map[uint64]bool{}
	var wc [16]WC
	until(x.t, "all receives", func() bool {
		x.a.scq.Poll(wc[:])
		for _, c := range wc[:x.b.cq.Poll(wc[:])] {
			if seen[c.ID] {
				x.t.Fatalf("got receive %d twice", c.ID)
			}
			seen[c.ID] = true
		}
		return len(seen) == n
	})
}

func TestSharedReceivesAllocateNothing(t *testing.T) {
	onEach(t, func(t *testing.T, e work.Executor) {
		da, db := pair(t, e)
		x := share(t, da, db, standard(), SRQInit{MaxWR: 4, MaxSGE: 1}, 2)
		recv := []RecvWR{{SG: []SGE{x.b.mr.SGE(0, 64)}}, {SG: []SGE{x.b.mr.SGE(64, 64)}}}
		send := []SendWR{{Opcode: WRSend, Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, 64)}}}
		var wc [4]WC
		allocs.None(t, func() {
			if _, err := x.srq.PostRecv(recv...); err != nil {
				t.Fatal(err)
			}
			for _, q := range x.from {
				if _, err := q.PostSend(send...); err != nil {
					t.Fatal(err)
				}
			}
			for sent, got := 0, 0; sent < 2 || got < 2; {
				sent += x.a.scq.Poll(wc[:])
				got += x.b.cq.Poll(wc[:])
			}
		})
	})
}
