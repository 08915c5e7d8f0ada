package verbs_test

import (
	"runtime"
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// A loop posts one of each kind and polls until all is done.
func (r *rig) loop() func() {
	send := []SendWR{
		{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 5000)}},
		{Opcode: WRSend, Flags: Signaled | Inline, Data: make([]byte, 20)},
		{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 50), r.a.mr.SGE(50, 50)}}, // in packets everywhere
		{Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 5000)}, RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()},
		{Opcode: WRRDMARead, Flags: Signaled, SG: []SGE{r.a.mr.SGE(8192, 5000)}, RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()},
		{Opcode: WRAtomicFetchAndAdd, Flags: Signaled, SG: []SGE{r.a.mr.SGE(16384, 8)}, RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()},
	}
	room := RecvWR{SG: []SGE{r.b.mr.SGE(65536, 8192)}}
	recv := []RecvWR{room, room, room}
	var wc [8]WC
	return func() {
		_, errR := r.b.qp.PostRecv(recv...)
		_, errS := r.a.qp.PostSend(send...)
		if errR != nil || errS != nil {
			r.t.Fatal(errR, errS)
		}
		r.b.cq.Arm(false)
		for sent, got := 0, 0; sent < len(send) || got < len(recv); {
			n, m := r.a.scq.Poll(wc[:]), r.b.cq.Poll(wc[:])
			if sent, got = sent+n, got+m; n+m == 0 {
				runtime.Gosched()
			}
		}
		r.a.dev.Drive(0)
	}
}

func TestMovingDataAllocatesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := pair(t, x)
		allocs.None(t, newRig(t, da, db, standard()).loop())
	})
	t.Run("udp", func(t *testing.T) {
		da, db := udp(t, work.NewInline())
		allocs.None(t, newRig(t, da, db, standard()).loop())
	})
}

func TestRefusedPostsAllocateNothing(t *testing.T) {
	da, db := pair(t, work.NewInline())
	r := newRig(t, da, db, standard())
	long := make([]SGE, 5)
	allocs.None(t, func() {
		if _, err := r.a.qp.PostSend(SendWR{Opcode: WRSend, SG: long}); err != EINVAL {
			t.Errorf("got error %v, want EINVAL", err)
		}
	})
}

// An idle queue pair is small, so that thousands can be had.
func TestAnIdleQueuePairTakesLittleMemory(t *testing.T) {
	da, db := pair(t, work.NewInline())
	s := standard()
	s.cap = QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSendSGE: 1, MaxRecvSGE: 1}
	s.mem, s.cqe = 4096, 64
	r := newRig(t, da, db, s)
	const n = 500
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	qps := make([]*QP, 0, 2*n)
	for range n {
		a, b := r.a.newQP(s), r.b.newQP(s)
		connect(t, s, da, db, a, b)
		qps = append(qps, a, b)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	each := int(after.HeapAlloc-before.HeapAlloc) / len(qps)
	t.Logf("%d bytes each", each)
	if each > 16<<10 {
		t.Errorf("got %d bytes for an idle queue pair, want at most 16384", each)
	}
	runtime.KeepAlive(qps)
}

func TestUnreliableMessagesAllocateNothing(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := pair(t, x)
		sendUnreliably(t, da, db)
	})
	t.Run("udp", func(t *testing.T) {
		da, db := udp(t, work.NewInline())
		sendUnreliably(t, da, db)
	})
}

func sendUnreliably(t *testing.T, da, db *Device) {
	r := newRig(t, da, db, unreliable(UC))
	allocs.None(t, r.bounce(
		SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 5000)}},
		SendWR{Opcode: WRSend, Flags: Signaled | Inline, Data: make([]byte, 20)},
		SendWR{Opcode: WRRDMAWriteWithImm, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 5000)},
			RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()},
	))
	r = newRig(t, da, db, unreliable(UD))
	wr := r.a.datagram(1, r.b, 1000)
	allocs.None(t, r.bounce(wr, wr))
	// To two of a group, so that one has a copy, or both a reference.
	s := unreliable(UD)
	here, there := r.b.join(s, true), r.b.join(s, true)
	from := r.a.join(s, true)
	ends := []*end{here, there, from}
	recvs := make([][]RecvWR, len(ends))
	for i, e := range ends {
		recvs[i] = []RecvWR{{SG: []SGE{e.mr.SGE(65536, 8192)}}}
	}
	queues := []*CQ{from.scq, here.cq, there.cq, from.cq}
	var wc [1]WC
	wr = from.datagram(1, there, 1000)
	wr.RemoteQPN = 0xffffff
	allocs.None(t, func() {
		for i, e := range ends {
			e.qp.PostRecv(recvs[i]...)
		}
		from.qp.PostSend(wr)
		for _, cq := range queues {
			for cq.Poll(wc[:]) == 0 {
				runtime.Gosched()
			}
		}
	})
	for _, e := range ends {
		e.detach()
	}
}

// bounce returns a function that sends all of it and takes it at the other end.
func (r *rig) bounce(send ...SendWR) func() {
	recv := make([]RecvWR, len(send))
	for i := range recv {
		recv[i].SG = []SGE{r.b.mr.SGE(65536, 8192)}
	}
	var wc [8]WC
	return func() {
		_, errR := r.b.qp.PostRecv(recv...)
		_, errS := r.a.qp.PostSend(send...)
		if errR != nil || errS != nil {
			r.t.Fatal(errR, errS)
		}
		r.b.cq.Arm(false)
		for sent, got := 0, 0; sent < len(send) || got < len(recv); {
			n, m := r.a.scq.Poll(wc[:]), r.b.cq.Poll(wc[:])
			if sent, got = sent+n, got+m; n+m == 0 {
				runtime.Gosched()
			}
		}
	}
}
