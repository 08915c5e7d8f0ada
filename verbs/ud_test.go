package verbs_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"github.com/gantry-rdma/gantry/roce"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// datagram is a SEND of n bytes at the start of from's memory to the other end.
func (e *end) datagram(id uint64, to *end, n int) SendWR {
	return SendWR{
		ID: id, Opcode: WRSend, Flags: Signaled, SG: []SGE{e.mr.SGE(0, n)},
		AH: e.ah, RemoteQPN: to.qp.Num(), RemoteQKey: 0x1234,
	}
}

func TestUDSendArrives(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UD))
		r.bothWays(func(from, to *end) {
			for n, size := range []int{0, 1, 3, 4, 64, 1023, 1024, 2048, 4096} {
				fill(from.mem[:size], n)
				to.recv(RecvWR{ID: 7, SG: []SGE{to.mr.SGE(131072, 5000)}})
				wr := from.datagram(9, to, size)
				wr.Opcode, wr.Imm = WRSendWithImm, 77
				from.send(wr)
				if wc := from.good(from.scq); wc.ID != 9 || wc.Opcode != WCSend {
					t.Errorf("got %+v, want the send", wc)
				}
				wc := to.good(to.cq)
				want := WC{
					ID: 7, Opcode: WCRecv, Flags: WCGRH | WCWithImm, ByteLen: uint32(size) + roce.GRHLen, Imm: 77,
					QPN: to.qp.Num(), SrcQP: from.qp.Num(),
				}
				if wc != want {
					t.Errorf("got %+v, want %+v", wc, want)
				}
				if !bytes.Equal(to.mem[131072+roce.GRHLen:][:size], from.mem[:size]) {
					t.Errorf("got other bytes than the %d that were sent", size)
				}
			}
		})
	})
}

// The GRH of a receive says who sent it, and how. Over UDP that is what the
// system has seen.
func TestTheGRHSaysWhereADatagramCameFrom(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) { checkGRH(t, da, db) })
	t.Run("udp/IPv6", func(t *testing.T) {
		d := open6(t)
		checkGRH(t, d, d)
	})
	t.Run("memory/IPv6", func(t *testing.T) {
		a, b, err := OpenPair(Config{Addr: netip.MustParseAddr("2001:db8::1")}, Config{Addr: netip.MustParseAddr("2001:db8::2")})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		defer a.Close()
		checkGRH(t, a, b)
	})
}

// open6 opens a device on ::1, or skips the test.
func open6(t *testing.T) *Device {
	t.Helper()
	d, err := Open(Config{Addr: netip.IPv6Loopback(), Executor: work.NewInline()})
	if err != nil {
		t.Skipf("no device on ::1: %v", err)
	}
	t.Cleanup(func() {
		d.Close()
		d.Executor().(*work.Inline).Close()
	})
	return d
}

func checkGRH(t *testing.T, da, db *Device) {
	t.Helper()
	r := newRig(t, da, db, unreliable(UD))
	for _, as := range []AHAttr{{TrafficClass: 0xb8, HopLimit: 7}, {}} {
		as.DGID, as.Port = GIDOf(db.Addr()), 1
		ah := must(r.a.pd.CreateAH(as))(t)
		wr := r.a.datagram(1, r.b, 100)
		wr.AH = ah
		fill(r.b.mem[:roce.GRHLen], 3)
		r.b.recv(RecvWR{ID: 1, SG: []SGE{r.b.mr.SGE(0, 200)}})
		r.a.send(wr)
		r.a.good(r.a.scq)
		wc := r.b.good(r.b.cq)
		g := (*roce.GRH)(r.b.mem)
		if g.Src() != da.Addr() || g.Dst() != db.Addr() || g.TrafficClass() != as.TrafficClass {
			t.Errorf("got %v to %v with class %#x, want %v to %v with %#x",
				g.Src(), g.Dst(), g.TrafficClass(), da.Addr(), db.Addr(), as.TrafficClass)
		}
		if hops := g.HopLimit(); hops != as.HopLimit && as.HopLimit != 0 || hops == 0 {
			t.Errorf("got hop limit %d, want %d", hops, as.HopLimit)
		}
		back := must(r.b.pd.CreateAHFromWC(1, &wc, g))(t)
		if got := back.Attr(); got.DGID != GIDOf(da.Addr()) || got.TrafficClass != as.TrafficClass {
			t.Errorf("got the way back %+v, want to %v", got, da.Addr())
		}
		answer := r.b.datagram(2, r.a, 10)
		answer.AH, answer.RemoteQPN = back, wc.SrcQP
		r.a.recv(RecvWR{ID: 2, SG: []SGE{r.a.mr.SGE(0, 200)}})
		r.b.send(answer)
		if err := back.Destroy(); err != nil { // posted: it is not needed any more
			t.Error(err)
		}
		r.b.good(r.b.scq)
		if wc := r.a.good(r.a.cq); wc.SrcQP != r.b.qp.Num() {
			t.Errorf("got %+v, want an answer from %d", wc, r.b.qp.Num())
		}
	}
}

// What does not fit is dropped and counted, and its receive waits for the next.
func TestUDDropsWhatDoesNotFit(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UD))
		uc := newRig(t, da, db, unreliable(UC))
		post := func() { r.b.recv(RecvWR{ID: 5, SG: []SGE{r.b.mr.SGE(0, 140)}}) }
		for n, drop := range []struct {
			counter string
			edit    func(wr *SendWR)
		}{
			{"drop_no_receive", func(*SendWR) {}},
			{"drop_qkey", func(wr *SendWR) { wr.RemoteQKey++ }},
			{"drop_too_long", func(wr *SendWR) { wr.SG[0].Len = 101 }},
			{"drop_unknown_qp", func(wr *SendWR) { wr.RemoteQPN = 5 }},
			{"drop_group", func(wr *SendWR) { wr.RemoteQPN = 0xffffff }},
			{"drop_transport", func(wr *SendWR) { wr.RemoteQPN = uc.b.qp.Num() }},
		} {
			if n == 1 {
				post()
			}
			wr := r.a.datagram(uint64(n), r.b, 100)
			drop.edit(&wr)
			r.a.send(wr)
			if wc := r.a.good(r.a.scq); wc.ID != uint64(n) {
				t.Errorf("got %+v, want completion %d: a sender hears nothing", wc, n)
			}
			until(t, drop.counter, func() bool { db.Drive(0); return db.Counter(drop.counter) == 1 })
		}
		r.a.send(r.a.datagram(9, r.b, 100))
		if wc := r.b.good(r.b.cq); wc.ID != 5 || wc.ByteLen != 140 {
			t.Errorf("got %+v, want the receive that was posted", wc)
		}
	})
}

func TestTheTopBitOfAQKeyStandsForTheSendersOwn(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		s := unreliable(UD)
		s.qkey = 0x80000042 // another may not name it
		r := newRig(t, da, db, s)
		wr := r.a.datagram(1, r.b, 8)
		wr.RemoteQKey = 1 << 31
		r.b.recv(RecvWR{ID: 1, SG: []SGE{r.b.mr.SGE(0, 100)}})
		r.a.send(wr)
		r.a.good(r.a.scq)
		r.b.good(r.b.cq)
		if err := r.b.qp.Modify(QPAttr{State: StateRTS, QKey: 0x43}, AttrState|AttrQKey); err != nil {
			t.Fatal(err)
		}
		if a, _, err := r.b.qp.Query(); err != nil || a.QKey != 0x43 {
			t.Errorf("got Q_Key %#x, %v, want 0x43", a.QKey, err)
		}
		r.b.recv(RecvWR{ID: 2, SG: []SGE{r.b.mr.SGE(0, 100)}})
		r.a.send(wr)
		r.a.good(r.a.scq)
		until(t, "the violation", func() bool { db.Drive(0); return db.Counter("drop_qkey") == 1 })
	})
}

// A datagram that is longer than a packet cannot be sent, and completes as one
// that is lost on the way does (IBTA Vol 1, C10-93.1.1).
func TestUDLosesWhatIsLongerThanAPacket(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UD))
		r.a.send(r.a.datagram(1, r.b, da.Port().ActiveMTU.Bytes()+1))
		r.a.good(r.a.scq)
		r.b.recv(RecvWR{ID: 4, SG: []SGE{r.b.mr.SGE(0, 9000)}})
		r.a.send(r.a.datagram(2, r.b, 8))
		r.a.good(r.a.scq)
		if wc := r.b.good(r.b.cq); wc.ByteLen != 8+roce.GRHLen {
			t.Errorf("got %+v, want the datagram after it", wc)
		}
	})
}

// Queue pair 1 is one of a device, and has a Q_Key of its own.
func TestQueuePairOneIsThereOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		s := unreliable(GSI)
		other := newEnd(t, da, standard())
		many := []*QP{other.qp}
		for range 200 { // none may have its place in the table
			many = append(many, other.newQP(standard()))
		}
		r := newRig(t, da, db, s)
		if r.a.qp.Num() != 1 || r.b.qp.Num() != 1 {
			t.Errorf("got queue pairs %d and %d, want 1 and 1", r.a.qp.Num(), r.b.qp.Num())
		}
		if _, err := r.a.pd.CreateQP(QPInit{Type: GSI, SendCQ: r.a.scq, RecvCQ: r.a.cq, Cap: s.cap}); !errors.Is(err, EBUSY) {
			t.Errorf("another one gives %v, want EBUSY", err)
		}
		wr := r.a.datagram(1, r.b, 256)
		for _, key := range []uint32{0x80010000, 0x1234} {
			wr.RemoteQKey = key
			r.b.recv(RecvWR{ID: uint64(key), SG: []SGE{r.b.mr.SGE(0, 400)}})
			r.a.send(wr)
			r.a.good(r.a.scq)
		}
		if wc := r.b.good(r.b.cq); wc.ID != 0x80010000 || wc.SrcQP != 1 {
			t.Errorf("got %+v, want a datagram from queue pair 1", wc)
		}
		until(t, "the violation", func() bool { db.Drive(0); return db.Counter("drop_qkey") == 1 })
		for _, q := range append(many, r.a.qp) {
			if err := q.Destroy(); err != nil {
				t.Error(err)
			}
		}
		if again := r.a.newQP(s); again.Num() != 1 {
			t.Errorf("got queue pair %d, want 1 again", again.Num())
		}
	})
}

func TestAddressHandlesAreChecked(t *testing.T) {
	da, db := pair(t, work.NewInline())
	r := newRig(t, da, db, unreliable(UD))
	good := AHTo(db.Addr())
	for what, edit := range map[string]func(a *AHAttr){
		"GID index": func(a *AHAttr) { a.SGIDIndex = 1 },
		"port":      func(a *AHAttr) { a.Port = 0 },
		"family":    func(a *AHAttr) { a.DGID = GID{0xfe, 0x80, 15: 1} },
		"no peer":   func(a *AHAttr) { a.DGID = GID{10: 0xff, 11: 0xff} },
	} {
		a := good
		edit(&a)
		if _, err := r.a.pd.CreateAH(a); !errors.Is(err, EINVAL) {
			t.Errorf("%s: got error %v, want EINVAL", what, err)
		}
	}
	pd := da.AllocPD()
	ah := must(pd.CreateAH(good))(t)
	if err := pd.Dealloc(); !errors.Is(err, EBUSY) {
		t.Errorf("got error %v for a domain with an address handle, want EBUSY", err)
	}
	gone := must(r.a.pd.CreateAH(good))(t)
	for range 2 {
		gone.Destroy()
	}
	for what, edit := range map[string]func(wr *SendWR){
		"no handle":             func(wr *SendWR) { wr.AH = nil },
		"handle of another PD":  func(wr *SendWR) { wr.AH = ah },
		"handle destroyed":      func(wr *SendWR) { wr.AH = gone },
		"25 bits of queue pair": func(wr *SendWR) { wr.RemoteQPN = 1 << 24 },
	} {
		wr := r.a.datagram(1, r.b, 8)
		edit(&wr)
		if _, err := r.a.qp.PostSend(wr); err != EINVAL {
			t.Errorf("%s: got error %v, want EINVAL", what, err)
		}
	}
	if err := ah.Destroy(); err != nil {
		t.Error(err)
	}
	if err := ah.Destroy(); !errors.Is(err, EINVAL) {
		t.Errorf("got error %v for a second Destroy, want EINVAL", err)
	}
	if err := pd.Dealloc(); err != nil {
		t.Error(err)
	}
	wc := WC{Flags: WCGRH}
	var six roce.GRH
	six[0] = 0x60
	for what, err := range map[string]error{
		"port":   second(r.a.pd.CreateAHFromWC(2, &wc, new(roce.GRH))),
		"no GRH": second(r.a.pd.CreateAHFromWC(1, new(WC), new(roce.GRH))),
		"family": second(r.a.pd.CreateAHFromWC(1, &wc, &six)),
	} {
		if !errors.Is(err, EINVAL) {
			t.Errorf("%s: got error %v, want EINVAL", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }
