package verbs_test

import (
	"errors"
	"testing"

	"github.com/gantry-rdma/gantry/roce"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

func TestEveryAttributeOfATransitionIsNeeded(t *testing.T) {
	da, db := pair(t, work.NewInline())
	s := standard()
	r := newRig(t, da, db, s)
	q := r.a.newQP(s)
	rtr := QPAttr{State: StateRTR, AV: AVTo(db.Addr()), PathMTU: roce.MTU1024, DestQPN: 77, MinRNRTimer: 1}
	rts := QPAttr{State: StateRTS, Timeout: 14}
	for _, step := range []struct {
		attr QPAttr
		mask AttrMask
	}{{QPAttr{State: StateInit, Port: 1}, MaskInit}, {rtr, MaskRTR}, {rts, MaskRTS}} {
		for bit := AttrMask(2); bit <= AttrDestQPN; bit <<= 1 {
			if step.mask&bit == 0 {
				continue
			}
			if err := q.Modify(step.attr, step.mask&^bit); !errors.Is(err, EINVAL) {
				t.Errorf("got error %v for %v without attribute %#x, want EINVAL", err, step.attr.State, uint32(bit))
			}
		}
		if err := q.Modify(step.attr, step.mask|AttrQKey); !errors.Is(err, EINVAL) {
			t.Errorf("got error %v for %v with a queue key, want EINVAL", err, step.attr.State)
		}
		if err := q.Modify(step.attr, step.mask); err != nil {
			t.Fatal(err)
		}
		if got := q.State(); got != step.attr.State {
			t.Errorf("got state %v, want %v", got, step.attr.State)
		}
	}
}

func TestValuesThatAreWrongAreRefused(t *testing.T) {
	da, db := pair(t, work.NewInline())
	s := standard()
	r := newRig(t, da, db, s)
	good := QPAttr{State: StateRTR, AV: AVTo(db.Addr()), PathMTU: roce.MTU1024, DestQPN: 77, MinRNRTimer: 1}
	for what, change := range map[string]func(a *QPAttr){
		"path MTU":             func(a *QPAttr) { a.PathMTU = 9 },
		"queue pair number":    func(a *QPAttr) { a.DestQPN = 1 << 24 },
		"PSN":                  func(a *QPAttr) { a.RQPSN = 1 << 24 },
		"RNR timer":            func(a *QPAttr) { a.MinRNRTimer = 32 },
		"GID index":            func(a *QPAttr) { a.AV.SGIDIndex = 1 },
		"address family":       func(a *QPAttr) { a.AV.DGID = GID{0xfe, 0x80, 15: 1} },
		"READs of the peer":    func(a *QPAttr) { a.MaxDestRdAtomic = 129 },
		"state":                func(a *QPAttr) { a.State = 5 },
		"state far in advance": func(a *QPAttr) { a.State = StateRTS },
	} {
		q := r.a.newQP(s)
		toInit(t, q, s)
		bad := good
		change(&bad)
		if err := q.Modify(bad, MaskRTR); !errors.Is(err, EINVAL) {
			t.Errorf("got error %v for a wrong %s, want EINVAL", err, what)
		}
		if got := q.State(); got != StateInit {
			t.Errorf("got state %v after a wrong %s, want INIT", got, what)
		}
	}
}

func TestPostingFitsTheState(t *testing.T) {
	da, db := pair(t, work.NewInline())
	s := standard()
	r := newRig(t, da, db, s)
	q := r.a.newQP(s)
	if n, err := q.PostRecv(RecvWR{}); n != 0 || err != EINVAL {
		t.Errorf("got %d and error %v for a receive in RESET, want 0 and EINVAL", n, err)
	}
	toInit(t, q, s)
	if n, err := q.PostRecv(RecvWR{}); n != 1 || err != nil {
		t.Errorf("got %d and error %v for a receive in INIT, want 1", n, err)
	}
	if n, err := q.PostSend(SendWR{Opcode: WRSend}); n != 0 || err != EINVAL {
		t.Errorf("got %d and error %v for a send in INIT, want 0 and EINVAL", n, err)
	}
	many := make([]SendWR, s.cap.MaxSendWR+3)
	for i := range many {
		many[i] = SendWR{Opcode: WRRDMAWrite, Flags: Signaled}
	}
	if n, err := r.a.qp.PostSend(many...); n != s.cap.MaxSendWR || err != ENOMEM {
		t.Errorf("got %d and error %v for too many, want %d and ENOMEM", n, err, s.cap.MaxSendWR)
	}
	for range s.cap.MaxSendWR {
		r.a.good(r.a.scq)
	}
	recvs := make([]RecvWR, s.cap.MaxRecvWR+1)
	if n, err := r.a.qp.PostRecv(recvs...); n != s.cap.MaxRecvWR || err != ENOMEM {
		t.Errorf("got %d and error %v for too many, want %d and ENOMEM", n, err, s.cap.MaxRecvWR)
	}
	for what, wr := range map[string]SendWR{
		"opcode": {Opcode: 20}, "flag": {Opcode: WRSend, Flags: 1 << 5}, "scatter list": {Opcode: WRSend, SG: make([]SGE, 3)},
		"inline size": {Opcode: WRSend, Flags: Inline, Data: make([]byte, 257)},
		"inline READ": {Opcode: WRRDMARead, Flags: Inline, Data: make([]byte, 8)},
		"data":        {Opcode: WRSend, Data: make([]byte, 8)},
	} {
		if n, err := r.a.qp.PostSend(wr, SendWR{Opcode: WRSend}); n != 0 || err != EINVAL {
			t.Errorf("got %d and error %v for a wrong %s, want 0 and EINVAL", n, err, what)
		}
	}
}

func TestDrainFinishesWhatHadBegun(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		for i := range uint64(4) {
			r.a.send(SendWR{ID: i, Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 20000)},
				RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()})
		}
		if err := r.a.qp.Modify(QPAttr{State: StateSQD, SQDNotify: true}, AttrState|AttrSQDNotify); err != nil {
			t.Fatal(err)
		}
		r.a.send(SendWR{ID: 4, Opcode: WRRDMAWrite, Flags: Signaled})
		var wc [8]WC
		next := uint64(0)
		take := func() {
			for _, c := range wc[:r.a.scq.Poll(wc[:])] {
				if c.Status != WCSuccess || c.ID != next {
					t.Errorf("got completion %d with %v, want %d", c.ID, c.Status, next)
				}
				next++
			}
		}
		until(t, "SQ_DRAINED", func() bool {
			take()
			e, ok := da.TryEvent()
			return ok && e.Type == EventSQDrained && e.QP == r.a.qp
		})
		take()
		if a, _, err := r.a.qp.Query(); err != nil || a.State != StateSQD || a.SQDraining || next > 4 {
			t.Errorf("got state %v, draining %v, %d completions, error %v, want SQD with at most 4", a.State, a.SQDraining, next, err)
		}
		if err := r.a.qp.Modify(QPAttr{State: StateRTS}, AttrState); err != nil {
			t.Fatal(err)
		}
		until(t, "the rest", func() bool { take(); return next == 5 })
	})
}

func TestErrFlushesBothQueuesInOrder(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		s := standard()
		r := newRig(t, da, db, s)
		for i := range uint64(5) {
			r.a.recv(RecvWR{ID: 100 + i})
		}
		if err := r.a.qp.Modify(QPAttr{State: StateErr}, AttrState); err != nil {
			t.Fatal(err)
		}
		r.a.send(SendWR{ID: 0, Opcode: WRSend}, SendWR{ID: 1, Opcode: WRSend})
		r.a.recv(RecvWR{ID: 105})
		for want := range uint64(2) {
			if wc := r.a.next(r.a.scq); wc.ID != want || wc.Status != WCFlushErr {
				t.Errorf("got send %d with %v, want %d flushed", wc.ID, wc.Status, want)
			}
		}
		for want := uint64(100); want <= 105; want++ {
			if wc := r.a.next(r.a.cq); wc.ID != want || wc.Status != WCFlushErr {
				t.Errorf("got receive %d with %v, want %d flushed", wc.ID, wc.Status, want)
			}
		}
		r.startAfresh(s)
		r.b.recv(RecvWR{ID: 1})
		r.a.send(SendWR{ID: 2, Opcode: WRSend, Flags: Signaled})
		r.a.good(r.a.scq)
		r.b.good(r.b.cq)
	})
}

func TestRightsOfAQueuePairCanBeTakenAway(t *testing.T) {
	da, db := pair(t, work.NewWorkqueue(2))
	r := newRig(t, da, db, standard())
	if err := r.b.qp.Modify(QPAttr{Access: AccessRemoteRead}, AttrAccess); err != nil {
		t.Fatal(err)
	}
	r.a.send(SendWR{Opcode: WRRDMAWrite, SG: []SGE{r.a.mr.SGE(0, 8)}, RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()})
	if wc := r.a.next(r.a.scq); wc.Status != WCRemAccessErr && wc.Status != WCRemInvReqErr {
		t.Errorf("got %v, want a refusal", wc.Status)
	}
}

func TestAQueuePairMayHaveItsOwnExecutor(t *testing.T) {
	da, db := pair(t, work.NewWorkqueue(1))
	s := standard()
	x := work.NewInline()
	defer x.Close()
	s.executor = x
	r := newRig(t, da, db, s)
	defer r.dismantle()
	r.b.recv(RecvWR{SG: []SGE{r.b.mr.SGE(0, 5000)}})
	r.a.send(SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 5000)}})
	r.a.good(r.a.scq)
	r.b.good(r.b.cq)
}
