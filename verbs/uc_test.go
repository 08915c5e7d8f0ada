package verbs_test

import (
	"bytes"
	"testing"

	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/roce"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

func unreliable(typ QPType) settings {
	s := standard()
	s.typ, s.qkey = typ, 0x1234
	return s
}

func TestUCSendArrives(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UC))
		r.bothWays(func(from, to *end) {
			for n, size := range sizes {
				fill(from.mem[:size], n)
				to.recv(RecvWR{ID: 7, SG: []SGE{to.mr.SGE(131072, 70000)}})
				from.send(SendWR{ID: 9, Opcode: WRSend, Flags: Signaled, SG: []SGE{from.mr.SGE(0, size)}})
				if wc := from.good(from.scq); wc.ID != 9 || wc.Opcode != WCSend {
					t.Errorf("got %+v, want the send", wc)
				}
				wc := to.good(to.cq)
				want := WC{ID: 7, Opcode: WCRecv, ByteLen: uint32(size), QPN: to.qp.Num(), SrcQP: from.qp.Num()}
				if wc != want {
					t.Errorf("got %+v, want %+v", wc, want)
				}
				if !bytes.Equal(to.mem[131072:][:size], from.mem[:size]) {
					t.Errorf("got other bytes than the %d that were sent", size)
				}
			}
		})
	})
}

func TestUCSendWithImmediateArrives(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UC))
		r.b.recv(RecvWR{ID: 7, SG: []SGE{r.b.mr.SGE(0, 5000)}})
		r.a.send(SendWR{ID: 9, Opcode: WRSendWithImm, Flags: Signaled | Inline, Data: []byte("inline"), Imm: 0xfffefdfc})
		r.a.good(r.a.scq)
		wc := r.b.good(r.b.cq)
		if wc.Flags != WCWithImm || wc.Imm != 0xfffefdfc || string(r.b.mem[:wc.ByteLen]) != "inline" {
			t.Errorf("got %+v and %q, want the immediate data and %q", wc, r.b.mem[:wc.ByteLen], "inline")
		}
	})
}

func TestUCWriteArrives(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UC))
		r.bothWays(func(from, to *end) {
			for n, size := range sizes {
				fill(from.mem[:size], n)
				from.send(SendWR{ID: 9, Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{from.mr.SGE(0, size)},
					RemoteAddr: to.mr.Addr() + 131072, RKey: to.mr.RKey()})
				if wc := from.good(from.scq); wc.ID != 9 || wc.Opcode != WCRDMAWrite {
					t.Errorf("got %+v, want the write", wc)
				}
				r.settle(from, to)
				if !bytes.Equal(to.mem[131072:][:size], from.mem[:size]) {
					t.Errorf("got other bytes than the %d that were written", size)
				}
			}
		})
	})
}

func TestUCWriteWithImmediateUsesUpAReceive(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UC))
		for n, size := range sizes {
			fill(r.a.mem[:size], n)
			r.b.recv(RecvWR{ID: 7})
			r.a.send(SendWR{ID: 9, Opcode: WRRDMAWriteWithImm, Flags: Signaled, Imm: 5, SG: []SGE{r.a.mr.SGE(0, size)},
				RemoteAddr: r.b.mr.Addr() + 131072, RKey: r.b.mr.RKey()})
			r.a.good(r.a.scq)
			wc := r.b.good(r.b.cq)
			if wc.ID != 7 || wc.Opcode != WCRecvRDMAWithImm || int(wc.ByteLen) != size || wc.Imm != 5 {
				t.Errorf("got %+v, want the receive of a write of %d bytes", wc, size)
			}
			if !bytes.Equal(r.b.mem[131072:][:size], r.a.mem[:size]) {
				t.Errorf("got other bytes than the %d that were written", size)
			}
		}
	})
}

// Messages come whole, in order and at most once, or not at all.
func TestUCLosesWholeMessages(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := spoiled(t, x, link.Faults{Loss: 0.05, Dup: 0.05, Reorder: 0.02, Corrupt: 0.02, Seed: 11})
		r := newRig(t, da, db, unreliable(UC))
		const n, size, slots = 1000, 2500, 32
		var wc [16]WC
		posted, sent, done, last, got := 0, 0, 0, -1, 0
		take := func() {
			for _, c := range wc[:r.b.cq.Poll(wc[:])] {
				if c.Status != WCSuccess || c.ByteLen != size || int(c.Imm) <= last || int(c.ID) != got {
					t.Fatalf("got %+v after message %d and receive %d", c, last, got-1)
				}
				last = int(c.Imm)
				for i, b := range r.b.mem[got%slots*size:][:size] {
					if b != byte(last+i) {
						t.Fatalf("got byte %d of message %d wrong", i, last)
					}
				}
				got++
			}
		}
		until(t, "the sends", func() bool {
			for posted-got < slots/2 {
				r.b.recv(RecvWR{ID: uint64(posted), SG: []SGE{r.b.mr.SGE(posted%slots*size, size)}})
				posted++
			}
			if sent < n && sent-done < 8 {
				at := sent % 8 * size
				for i := range size {
					r.a.mem[at+i] = byte(sent + i)
				}
				r.a.send(SendWR{ID: uint64(sent), Opcode: WRSendWithImm, Imm: uint32(sent), Flags: Signaled, SG: []SGE{r.a.mr.SGE(at, size)}})
				sent++
			}
			for _, c := range wc[:r.a.scq.Poll(wc[:])] {
				if c.Status != WCSuccess || int(c.ID) != done {
					t.Fatalf("got %+v, want completion %d", c, done)
				}
				done++
			}
			take()
			return done == n
		})
		if take(); got < n/2 || got == n {
			t.Errorf("got %d of %d messages, want most and not all", got, n)
		}
		if db.Counter("drop_late")+db.Counter("drop_rest")+db.Counter("drop_order") == 0 {
			t.Error("got no packet of a message that was lost")
		}
	})
}

func TestUCDropsWhatItMayNotDo(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := pair(t, x)
		s := unreliable(UC)
		s.access = AccessLocalWrite | AccessRemoteRead
		r := newRig(t, da, db, s)
		write := SendWR{Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 2500)},
			RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()}
		for _, drop := range []struct {
			counter string
			wr      SendWR
		}{
			{"drop_no_receive", SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 2500)}}},
			{"drop_access", write},
		} {
			fill(r.a.mem[:2500], 3)
			r.a.send(drop.wr)
			r.a.good(r.a.scq)
			until(t, drop.counter, func() bool { db.Drive(0); return db.Counter(drop.counter) > 0 })
		}
		if r.settle(r.a, r.b); r.b.qp.State() != StateRTS {
			t.Errorf("got state %v, want RTS: the next message is fine", r.b.qp.State())
		}
		if !bytes.Equal(r.b.mem[:2500], make([]byte, 2500)) {
			t.Error("got bytes that nobody may write")
		}
	})
}

// Where the receive is to blame, it says so.
func TestUCFailsAReceiveThatIsTooShort(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UC))
		r.b.recv(RecvWR{ID: 1, SG: []SGE{r.b.mr.SGE(0, 1500)}})
		r.a.send(SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 2500)}})
		r.a.good(r.a.scq)
		if wc := r.b.next(r.b.cq); wc.ID != 1 || wc.Status != WCLocLenErr {
			t.Errorf("got %+v, want LOC_LEN_ERR", wc)
		}
		if got := r.b.qp.State(); got != StateErr {
			t.Errorf("got state %v, want ERR", got)
		}
	})
}

func TestUnreliableServicesRefuseWhatNeedsAnAnswer(t *testing.T) {
	da, db := pair(t, work.NewInline())
	for _, typ := range []QPType{UC, UD, GSI} {
		s := unreliable(typ)
		r := newRig(t, da, db, s)
		refused := []Opcode{WRRDMARead, WRAtomicCmpAndSwp, WRAtomicFetchAndAdd, WRSendWithInv}
		if typ != UC {
			refused = append(refused, WRRDMAWrite, WRRDMAWriteWithImm, WRLocalInv)
		}
		for _, o := range refused {
			wr := r.a.datagram(1, r.b, 8)
			wr.Opcode, wr.RemoteAddr, wr.RKey = o, r.b.mr.Addr(), r.b.mr.RKey()
			if n, err := r.a.qp.PostSend(wr); n != 0 || err != EINVAL {
				t.Errorf("posting %v on type %d gives %d, %v, want EINVAL", o, typ, n, err)
			}
		}
	}
}

func TestUCQueuePairIsFlushed(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UC))
		r.b.recv(RecvWR{ID: 1}, RecvWR{ID: 2})
		if err := r.b.qp.Modify(QPAttr{State: StateErr}, AttrState); err != nil {
			t.Fatal(err)
		}
		r.b.send(SendWR{ID: 3, Opcode: WRSend})
		for id := range uint64(2) {
			if wc := r.b.next(r.b.cq); wc.ID != id+1 || wc.Status != WCFlushErr {
				t.Errorf("got %+v, want receive %d flushed", wc, id+1)
			}
		}
		if wc := r.b.next(r.b.scq); wc.ID != 3 || wc.Status != WCFlushErr {
			t.Errorf("got %+v, want the send flushed", wc)
		}
	})
}

func TestUCCanBeDrainedAndRedirected(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, unreliable(UC))
		if err := r.a.qp.Modify(QPAttr{State: StateSQD}, AttrState); err != nil {
			t.Fatal(err)
		}
		r.a.send(SendWR{Opcode: WRSend, Flags: Signaled})
		until(t, "the end of the drain", func() bool {
			da.Drive(0)
			a, _, err := r.a.qp.Query()
			return err == nil && !a.SQDraining
		})
		av := AVTo(db.Addr())
		av.TrafficClass = 8
		if err := r.a.qp.Modify(QPAttr{State: StateSQD, AV: av}, AttrState|AttrAV); err != nil {
			t.Fatal(err)
		}
		r.b.recv(RecvWR{ID: 4})
		if err := r.a.qp.Modify(QPAttr{State: StateRTS}, AttrState); err != nil {
			t.Fatal(err)
		}
		r.a.good(r.a.scq)
		if wc := r.b.good(r.b.cq); wc.ID != 4 {
			t.Errorf("got %+v, want the send of before", wc)
		}
	})
}

// maskOf are the attributes that a type needs on its way.
var maskOf = map[QPType][3]AttrMask{
	UC:  {MaskInitUC, MaskRTRUC, MaskRTSUC},
	UD:  {MaskInitUD, MaskRTRUD, MaskRTSUD},
	GSI: {MaskInitGSI, MaskRTRUD, MaskRTSUD},
}

func TestUnreliableServicesNeedTheirAttributes(t *testing.T) {
	for typ, masks := range maskOf {
		da, db := pair(t, work.NewInline())
		s := unreliable(typ)
		e := newEnd(t, da, s)
		attr := QPAttr{Port: 1, AV: AVTo(db.Addr()), PathMTU: roce.MTU1024, DestQPN: 77, Timeout: 14}
		for i, mask := range masks {
			attr.State = StateInit + QPState(i)
			for bit := AttrMask(2); bit <= AttrDestQPN; bit <<= 1 {
				if mask&bit == 0 {
					continue
				}
				if err := e.qp.Modify(attr, mask&^bit); err == nil {
					t.Errorf("type %d went to %v without attribute %#x", typ, attr.State, uint32(bit))
				}
			}
			if err := e.qp.Modify(attr, mask|AttrTimeout); err == nil {
				t.Errorf("type %d went to %v with a timeout", typ, attr.State)
			}
			if err := e.qp.Modify(attr, mask); err != nil {
				t.Fatalf("type %d: %v", typ, err)
			}
		}
	}
}

// Nothing holds a sender of UC back but the link. On one executor it must leave
// the receiver its turn, or the socket between them overflows.
func TestASenderDoesNotBuryItsReceiver(t *testing.T) {
	da, db := udp(t, work.NewInline())
	s := unreliable(UC)
	s.cap.MaxRecvWR = 256
	s.mtu = da.Port().ActiveMTU
	r := newRig(t, da, db, s)
	const n, size = 1200, 65536
	recv := RecvWR{SG: []SGE{r.b.mr.SGE(0, size)}}
	for range 256 {
		r.b.recv(recv)
	}
	var wc [64]WC
	sent, done, got := 0, 0, 0
	until(t, "the sends", func() bool {
		for sent < n && sent-done < 64 {
			r.a.send(SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, size)}})
			sent++
		}
		done += r.a.scq.Poll(wc[:])
		for range r.b.cq.Poll(wc[:]) {
			r.b.recv(recv)
			got++
		}
		return done == n
	})
	until(t, "the receives", func() bool { got += r.b.cq.Poll(wc[:]); return got == n })
	if lost := db.Counter("drop_socket_buffer"); lost != 0 {
		t.Errorf("got %d datagrams lost in the socket buffer, want none", lost)
	}
}
