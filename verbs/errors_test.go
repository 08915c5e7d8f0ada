package verbs_test

import (
	"testing"
	"time"

	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// A refusal is a request that the peer does not execute.
type refusal struct {
	name    string
	wr      func(r *rig) SendWR
	access  Access // of the peer's region and queue pair
	status  WCStatus
	counter string // at the peer
}

// remote returns a WRITE of n bytes to the peer at an offset.
func remote(r *rig, off, n int) SendWR {
	return SendWR{ID: 1, Opcode: WRRDMAWrite, SG: []SGE{r.a.mr.SGE(0, n)},
		RemoteAddr: r.b.mr.Addr() + uint64(off), RKey: r.b.mr.RKey()}
}

func refusals() []refusal {
	all := standard().access
	as := func(wr SendWR, op Opcode) SendWR { wr.Opcode = op; return wr }
	return []refusal{
		{"unknown key", func(r *rig) SendWR {
			wr := remote(r, 0, 8)
			wr.RKey ^= 1 << 20
			return wr
		}, all, WCRemAccessErr, "key_unknown"},
		{"stale generation", func(r *rig) SendWR {
			wr := remote(r, 0, 8)
			if err := r.b.mr.Rereg(Rereg{}); err != nil {
				r.t.Fatal(err)
			}
			return wr
		}, all, WCRemAccessErr, "key_stale"},
		{"another domain", func(r *rig) SendWR {
			wr := remote(r, 0, 8)
			other := must(r.b.dev.AllocPD().RegMR(make([]byte, 64), all))(r.t)
			wr.RemoteAddr, wr.RKey = other.Addr(), other.RKey()
			return wr
		}, all, WCRemAccessErr, "key_domain"},
		{"one byte before", func(r *rig) SendWR { return remote(r, -1, 8) }, all, WCRemAccessErr, "key_range"},
		{"one byte too far", func(r *rig) SendWR { return remote(r, len(r.b.mem)-7, 8) }, all, WCRemAccessErr, "key_range"},
		{"no right to write", func(r *rig) SendWR {
			wr := remote(r, 0, 8)
			m := must(r.b.pd.RegMR(make([]byte, 64), AccessLocalWrite|AccessRemoteRead))(r.t)
			wr.RemoteAddr, wr.RKey = m.Addr(), m.RKey()
			return wr
		}, all, WCRemAccessErr, "key_right"},
		{"no right to read", func(r *rig) SendWR {
			wr := as(remote(r, 0, 8), WRRDMARead)
			m := must(r.b.pd.RegMR(make([]byte, 64), AccessLocalWrite|AccessRemoteWrite))(r.t)
			wr.RemoteAddr, wr.RKey = m.Addr(), m.RKey()
			return wr
		}, all, WCRemAccessErr, "key_right"},
		{"atomic that is not aligned", func(r *rig) SendWR {
			return as(remote(r, 4, 8), WRAtomicFetchAndAdd)
		}, all, WCRemInvReqErr, ""},
		{"message longer than the receive", func(r *rig) SendWR {
			r.b.recv(RecvWR{ID: 5, SG: []SGE{r.b.mr.SGE(0, 7)}})
			return as(remote(r, 0, 8), WRSend)
		}, all, WCRemInvReqErr, ""},
		{"receive into a wrong key", func(r *rig) SendWR {
			r.b.recv(RecvWR{ID: 5, SG: []SGE{{Addr: r.b.mr.Addr(), Len: 8, LKey: r.b.mr.LKey() ^ 1}}})
			return as(remote(r, 0, 8), WRSend)
		}, all, WCRemOpErr, "key_stale"},
	}
}

// localFaults are requests that fail before they are sent.
func localFaults() []refusal {
	as := func(wr SendWR, op Opcode) SendWR { wr.Opcode = op; return wr }
	all := standard().access
	return []refusal{
		{"local key that is wrong", func(r *rig) SendWR {
			wr := remote(r, 0, 8)
			wr.SG[0].LKey ^= 1
			return wr
		}, all, WCLocProtErr, ""},
		{"local range that is wrong", func(r *rig) SendWR {
			wr := remote(r, 0, 8)
			wr.SG[0].Addr = r.a.mr.Addr() + uint64(len(r.a.mem)) - 7
			return wr
		}, all, WCLocProtErr, ""},
		{"read into memory without local write", func(r *rig) SendWR {
			wr := as(remote(r, 0, 8), WRRDMARead)
			m := must(r.a.pd.RegMR(make([]byte, 64), 0))(r.t)
			wr.SG[0] = m.SGE(0, 8)
			return wr
		}, all, WCLocProtErr, ""},
	}
}

// What is wrong is answered as the specification wants it, counted under its
// reason, and everything behind it is flushed in order.
func TestRefusedRequestsFailTheQueuePair(t *testing.T) {
	for _, c := range append(refusals(), localFaults()...) {
		t.Run(c.name, func(t *testing.T) {
			for _, e := range executors {
				da, db := pair(t, e.make())
				r := newRig(t, da, db, standard())
				r.a.send(c.wr(r))
				r.a.send(SendWR{ID: 2, Opcode: WRSend}, SendWR{ID: 3, Opcode: WRSend})
				if wc := r.a.next(r.a.scq); wc.ID != 1 || wc.Status != c.status {
					t.Errorf("got completion %d with %v, want 1 with %v", wc.ID, wc.Status, c.status)
				}
				for want := uint64(2); want <= 3; want++ {
					if wc := r.a.next(r.a.scq); wc.ID != want || wc.Status != WCFlushErr {
						t.Errorf("got completion %d with %v, want %d flushed", wc.ID, wc.Status, want)
					}
				}
				if got := r.a.qp.State(); got != StateErr {
					t.Errorf("got state %v, want ERR", got)
				}
				if c.counter != "" && db.Counter(c.counter) != 1 {
					t.Errorf("got %d for %s, want 1", db.Counter(c.counter), c.counter)
				}
			}
		})
	}
}

func TestAPeerThatVanishesEndsInTime(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := pair(t, x)
		s := standard()
		s.timeout, s.retry = 12, 2 // T is 17 ms
		r := newRig(t, da, db, s)
		if err := r.b.qp.Destroy(); err != nil {
			t.Fatal(err)
		}
		r.a.recv(RecvWR{ID: 20}, RecvWR{ID: 21})
		start := time.Now()
		for i := range uint64(5) {
			r.a.send(SendWR{ID: i, Opcode: WRSend, SG: []SGE{r.a.mr.SGE(0, 3000)}})
		}
		if wc := r.a.next(r.a.scq); wc.ID != 0 || wc.Status != WCRetryExc {
			t.Errorf("got completion %d with %v, want 0 with RETRY_EXC_ERR", wc.ID, wc.Status)
		}
		// Two retries are three waits, each from T to 4 T. The upper bound
		// leaves room for a machine that is busy.
		T := 4096 * time.Nanosecond << 12
		if took := time.Since(start); took < 3*T || took > 12*T+3*time.Second {
			t.Errorf("got the end after %v, want %v to %v", took, 3*T, 12*T)
		}
		for want := uint64(1); want < 5; want++ {
			if wc := r.a.next(r.a.scq); wc.ID != want || wc.Status != WCFlushErr {
				t.Errorf("got completion %d with %v, want %d flushed", wc.ID, wc.Status, want)
			}
		}
		for want := uint64(20); want < 22; want++ {
			if wc := r.a.next(r.a.cq); wc.ID != want || wc.Status != WCFlushErr {
				t.Errorf("got receive %d with %v, want %d flushed", wc.ID, wc.Status, want)
			}
		}
		if got := db.Counter("drop_unknown_qp"); got == 0 {
			t.Error("got no packet to an unknown queue pair counted")
		}
	})
}

func TestAbsentReceivesExhaustTheRetries(t *testing.T) {
	da, db := pair(t, work.NewInline())
	s := standard()
	s.rnrRetry = 3
	r := newRig(t, da, db, s)
	r.a.send(SendWR{ID: 1, Opcode: WRSend, SG: []SGE{r.a.mr.SGE(0, 8)}})
	if wc := r.a.next(r.a.scq); wc.Status != WCRNRRetryExc {
		t.Errorf("got %v, want RNR_RETRY_EXC_ERR", wc.Status)
	}
	if sent, got := db.Counter("send_rnr_err"), da.Counter("rcvd_rnr_err"); sent != 4 || got != 4 {
		t.Errorf("got %d RNR NAKs sent and %d received, want 4", sent, got)
	}
}

func TestALateReceiveIsWaitedFor(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		r.a.send(SendWR{ID: 1, Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 8)}})
		until(t, "an RNR NAK", func() bool {
			r.a.scq.Poll(nil)
			da.Drive(0)
			return da.Counter("rcvd_rnr_err") > 0
		})
		r.b.recv(RecvWR{ID: 2, SG: []SGE{r.b.mr.SGE(0, 8)}})
		r.a.good(r.a.scq)
		r.b.good(r.b.cq)
	})
}

func TestALostEntryFailsTheQueuePairAndRaisesAnEvent(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := pair(t, x)
		s := standard()
		s.cqe = 4
		r := newRig(t, da, db, s)
		for i := range uint64(10) {
			r.b.recv(RecvWR{ID: i})
		}
		for i := range uint64(10) {
			r.a.send(SendWR{ID: i, Opcode: WRSend})
		}
		var e Event
		until(t, "an event", func() (ok bool) {
			db.Drive(0)
			for e, ok = db.TryEvent(); ok && e.Type == EventCommEst; {
				e, ok = db.TryEvent()
			}
			return ok
		})
		if e.Type != EventCQErr || e.CQ != r.b.cq {
			t.Errorf("got event %v of queue %p, want CQ_ERR of %p", e.Type, e.CQ, r.b.cq)
		}
		until(t, "state ERR", func() bool { db.Drive(0); return r.b.qp.State() == StateErr })
		for want := range uint64(4) {
			if wc := r.b.good(r.b.cq); wc.ID != want {
				t.Errorf("got receive %d, want %d", wc.ID, want)
			}
		}
	})
}
