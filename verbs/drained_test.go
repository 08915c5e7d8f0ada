package verbs_test

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	. "github.com/gantry-rdma/gantry/verbs"
)

// drain takes the queue pair to SQD and waits for SQ_DRAINED.
func (e *end) drain() {
	e.t.Helper()
	if err := e.qp.Modify(QPAttr{State: StateSQD, SQDNotify: true}, AttrState|AttrSQDNotify); err != nil {
		e.t.Fatal(err)
	}
	e.drained()
}

// drained waits for SQ_DRAINED. Polling drives a device that needs it.
func (e *end) drained() {
	e.t.Helper()
	until(e.t, "SQ_DRAINED", func() bool {
		e.scq.Poll(nil)
		ev, ok := e.dev.TryEvent()
		return ok && ev.Type == EventSQDrained && ev.QP == e.qp
	})
}

// change sets attributes of a queue pair whose state stays.
func (e *end) change(a QPAttr, mask AttrMask) {
	e.t.Helper()
	if err := e.qp.Modify(a, mask); err != nil {
		e.t.Fatalf("modify attributes %#x: %v", uint32(mask), err)
	}
}

func (e *end) goOn() {
	e.t.Helper()
	e.change(QPAttr{State: StateRTS}, AttrState)
}

// nowhere is the address of no device: over loopback nobody listens there.
func nowhere(d *Device) netip.Addr {
	if d.Addr().IsLoopback() {
		return netip.MustParseAddr("127.0.0.254")
	}
	return netip.MustParseAddr("192.0.2.254")
}

func TestAPathMayBeChangedInSQD(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		s := standard()
		r := &rig{t: t, a: newEnd(t, da, s), b: newEnd(t, db, s)}
		toInit(t, r.a.qp, s)
		toInit(t, r.b.qp, s)
		if err := r.a.qp.Modify(QPAttr{
			State: StateRTR, AV: AVTo(nowhere(da)), PathMTU: s.mtu, DestQPN: r.b.qp.Num(), RQPSN: s.psn,
			MaxDestRdAtomic: 1, MinRNRTimer: 1,
		}, MaskRTR); err != nil {
			t.Fatal(err)
		}
		toRTR(t, s, r.b.qp, da, r.a.qp.Num())
		toRTS(t, s, r.a.qp)
		toRTS(t, s, r.b.qp)
		r.a.drain()
		r.a.send(SendWR{ID: 1, Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 20000)},
			RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()})
		r.a.change(QPAttr{AV: AVTo(db.Addr())}, AttrAV)
		fill(r.a.mem[:20000], 1)
		r.a.goOn()
		r.a.good(r.a.scq)
		if string(r.a.mem[:20000]) != string(r.b.mem[:20000]) {
			t.Error("what arrived is not what was sent")
		}
		if a, _, err := r.a.qp.Query(); err != nil || a.AV.DGID != GIDOf(db.Addr()) {
			t.Errorf("got path %v, error %v, want that to %v", a.AV.DGID, err, db.Addr())
		}
	})
}

func TestTimesAndCountsMayBeChangedInSQD(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		s := standard()
		s.timeout, s.retry, s.rdAtomic = 24, 7, 1 // a timeout of more than a minute
		r := newRig(t, da, db, s)
		fill(r.b.mem[:3000], 2)
		read := func(id uint64) SendWR {
			return SendWR{ID: id, Opcode: WRRDMARead, Flags: Signaled, SG: []SGE{r.a.mr.SGE(int(id)*3000, 3000)},
				RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()}
		}
		r.a.send(read(0))
		r.a.good(r.a.scq)
		r.a.drain()
		r.b.drain()
		r.b.change(QPAttr{MaxDestRdAtomic: 4, MinRNRTimer: 2, Access: s.access}, AttrMaxDestRdAtomic|AttrMinRNRTimer|AttrAccess)
		r.a.change(QPAttr{MaxQPRdAtomic: 4, RNRRetry: 3}, AttrMaxQPRdAtomic|AttrRNRRetry)
		r.a.goOn()
		r.b.goOn()
		for id := range uint64(8) {
			r.a.send(read(id))
		}
		for want := range uint64(8) {
			if wc := r.a.good(r.a.scq); wc.ID != want {
				t.Errorf("got completion %d, want %d", wc.ID, want)
			}
			if at := want * 3000; string(r.a.mem[at:at+3000]) != string(r.b.mem[:3000]) {
				t.Errorf("READ %d brought something else", want)
			}
		}
		r.a.drain()
		r.a.change(QPAttr{AV: AVTo(nowhere(da)), Timeout: 10, RetryCnt: 1}, AttrAV|AttrTimeout|AttrRetryCnt)
		r.a.goOn()
		begin := time.Now()
		r.a.send(SendWR{ID: 9, Opcode: WRRDMAWrite, Flags: Signaled})
		if wc := r.a.next(r.a.scq); wc.Status != WCRetryExc {
			t.Errorf("got %v, want RETRY_EXC", wc.Status)
		}
		if took := time.Since(begin); took < 8*time.Millisecond {
			t.Errorf("gave up after %v, want two times 4.2 ms", took)
		}
	})
}

func TestNothingMayBeChangedBeforeTheQueueIsDrained(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		r.a.send(SendWR{ID: 1, Opcode: WRSend, Flags: Signaled}) // there is no receive for it
		until(t, "an RNR NAK", func() bool {
			r.a.scq.Poll(nil)
			r.b.scq.Poll(nil)
			return da.Counter("rcvd_rnr_err") > 0
		})
		if err := r.a.qp.Modify(QPAttr{State: StateSQD, SQDNotify: true}, AttrState|AttrSQDNotify); err != nil {
			t.Fatal(err)
		}
		for what, mask := range map[string]AttrMask{"path": AttrAV, "timeout": AttrTimeout, "RNR timer": AttrMinRNRTimer,
			"state": AttrState} {
			if err := r.a.qp.Modify(QPAttr{State: StateRTS, AV: AVTo(db.Addr()), Timeout: 9}, mask); !errors.Is(err, EINVAL) {
				t.Errorf("got error %v for %s while draining, want EINVAL", err, what)
			}
		}
		r.b.recv(RecvWR{ID: 1})
		r.a.good(r.a.scq)
		r.a.drained()
		r.a.change(QPAttr{Timeout: 12}, AttrTimeout)
		r.a.goOn()
		for what, mask := range map[string]AttrMask{"path": AttrAV, "timeout": AttrTimeout, "retry count": AttrRetryCnt} {
			if err := r.a.qp.Modify(QPAttr{AV: AVTo(db.Addr())}, mask); !errors.Is(err, EINVAL) {
				t.Errorf("got error %v for %s in RTS, want EINVAL", err, what)
			}
		}
		r.a.change(QPAttr{MinRNRTimer: 3, Access: AccessRemoteRead, CurState: StateRTS}, AttrMinRNRTimer|AttrAccess|AttrCurState)
		if a, _, err := r.a.qp.Query(); err != nil || a.Timeout != 12 || a.MinRNRTimer != 3 || a.Access != AccessRemoteRead {
			t.Errorf("got timeout %d, RNR timer %d, access %v, error %v", a.Timeout, a.MinRNRTimer, a.Access, err)
		}
	})
}
