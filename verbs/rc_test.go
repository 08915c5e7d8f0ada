package verbs_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	. "github.com/gantry-rdma/gantry/verbs"
)

// sizes around the edges of packets of 1024 bytes.
var sizes = []int{0, 1, 3, 4, 64, 1023, 1024, 1025, 2048, 5000, 65536}

// settle lets one empty message follow what from did. Its completion is what
// makes the bytes of a WRITE visible; without it the race detector objects.
func (r *rig) settle(from, to *end) {
	r.t.Helper()
	to.recv(RecvWR{ID: 999})
	from.send(SendWR{ID: 999, Opcode: WRSend, Flags: Signaled})
	from.good(from.scq)
	to.good(to.cq)
}

// bothWays runs f in both directions.
func (r *rig) bothWays(f func(from, to *end)) {
	f(r.a, r.b)
	f(r.b, r.a)
}

func TestSendArrives(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		r.bothWays(func(from, to *end) {
			for n, size := range sizes {
				fill(from.mem[:size], n)
				to.recv(RecvWR{ID: 7, SG: []SGE{to.mr.SGE(131072, 70000)}})
				from.send(SendWR{ID: 9, Opcode: WRSend, Flags: Signaled, SG: []SGE{from.mr.SGE(0, size)}})
				if wc := from.good(from.scq); wc.ID != 9 || wc.Opcode != WCSend {
					t.Errorf("got %+v, want the send", wc)
				}
				wc := to.good(to.cq)
				if wc.ID != 7 || wc.Opcode != WCRecv || int(wc.ByteLen) != size || wc.QPN != to.qp.Num() {
					t.Errorf("got %+v, want the receive of %d bytes", wc, size)
				}
				if !bytes.Equal(to.mem[131072:][:size], from.mem[:size]) {
					t.Errorf("got other bytes than the %d that were sent", size)
				}
			}
		})
	})
}

func TestScatterEntriesAreJoinedAndSplit(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		fill(r.a.mem[:8192], 3)
		r.b.recv(RecvWR{ID: 1, SG: []SGE{r.b.mr.SGE(0, 1500), r.b.mr.SGE(4096, 4000)}})
		r.a.send(SendWR{ID: 2, Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(100, 700), r.a.mr.SGE(4000, 3000)}})
		r.a.good(r.a.scq)
		if wc := r.b.good(r.b.cq); wc.ByteLen != 3700 {
			t.Errorf("got %d bytes, want 3700", wc.ByteLen)
		}
		want := append(bytes.Clone(r.a.mem[100:800]), r.a.mem[4000:7000]...)
		got := append(bytes.Clone(r.b.mem[:1500]), r.b.mem[4096:4096+2200]...)
		if !bytes.Equal(got, want) {
			t.Error("got other bytes than were sent")
		}
	})
}

func TestInlineDataIsCopiedWhenPosted(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		data := []byte("posted inline")
		want := bytes.Clone(data)
		r.b.recv(RecvWR{SG: []SGE{r.b.mr.SGE(0, 64)}})
		r.a.send(SendWR{Opcode: WRSend, Flags: Signaled | Inline, Data: data})
		clear(data)
		r.a.good(r.a.scq)
		r.b.good(r.b.cq)
		if got := r.b.mem[:len(want)]; !bytes.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestImmediateDataArrives(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		fill(r.a.mem[:3000], 5)
		r.b.recv(RecvWR{ID: 1, SG: []SGE{r.b.mr.SGE(0, 4096)}}, RecvWR{ID: 2})
		r.a.send(
			SendWR{ID: 1, Opcode: WRSendWithImm, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 3000)}, Imm: 0xdeadbeef},
			SendWR{ID: 2, Opcode: WRRDMAWriteWithImm, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 3000)}, Imm: 77,
				RemoteAddr: r.b.mr.Addr() + 9000, RKey: r.b.mr.RKey()})
		wc := r.b.good(r.b.cq)
		if wc.ID != 1 || wc.Opcode != WCRecv || wc.Flags&WCWithImm == 0 || wc.Imm != 0xdeadbeef {
			t.Errorf("got %+v, want a receive with immediate data 0xdeadbeef", wc)
		}
		wc = r.b.good(r.b.cq)
		if wc.ID != 2 || wc.Opcode != WCRecvRDMAWithImm || wc.Flags&WCWithImm == 0 || wc.Imm != 77 || wc.ByteLen != 3000 {
			t.Errorf("got %+v, want a write of 3000 bytes with immediate data 77", wc)
		}
		if a, b := r.a.good(r.a.scq), r.a.good(r.a.scq); a.Opcode != WCSend || b.Opcode != WCRDMAWrite {
			t.Errorf("got %v and %v, want SEND and RDMA_WRITE", a.Opcode, b.Opcode)
		}
		for _, at := range []int{0, 9000} {
			if !bytes.Equal(r.b.mem[at:at+3000], r.a.mem[:3000]) {
				t.Errorf("got other bytes than were sent at %d", at)
			}
		}
	})
}

func TestWriteAndReadMoveMemory(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		r.bothWays(func(from, to *end) {
			for n, size := range sizes {
				fill(from.mem[:size], n)
				clear(from.mem[131072:][:size])
				remote, key := to.mr.Addr()+65536, to.mr.RKey()
				from.send(
					SendWR{ID: 1, Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{from.mr.SGE(0, size)}, RemoteAddr: remote, RKey: key},
					SendWR{ID: 2, Opcode: WRRDMARead, Flags: Signaled, SG: []SGE{from.mr.SGE(131072, size)}, RemoteAddr: remote, RKey: key})
				if wc := from.good(from.scq); wc.ID != 1 || wc.Opcode != WCRDMAWrite {
					t.Errorf("got %+v, want the write", wc)
				}
				if wc := from.good(from.scq); wc.ID != 2 || wc.Opcode != WCRDMARead {
					t.Errorf("got %+v, want the read", wc)
				}
				r.settle(from, to)
				if !bytes.Equal(to.mem[65536:][:size], from.mem[:size]) {
					t.Errorf("got other bytes than the %d that were written", size)
				}
				if !bytes.Equal(from.mem[131072:][:size], from.mem[:size]) {
					t.Errorf("read other bytes than the %d that were written", size)
				}
			}
		})
	})
}

func TestAtomicsChangeMemory(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		r.bothWays(func(from, to *end) {
			word := to.mem[800:808]
			binary.NativeEndian.PutUint64(word, 1000)
			at, key := to.mr.Addr()+800, to.mr.RKey()
			if at%8 != 0 {
				t.Skipf("memory at %#x is not aligned", at)
			}
			from.send(
				SendWR{ID: 1, Opcode: WRAtomicFetchAndAdd, Flags: Signaled, SG: []SGE{from.mr.SGE(0, 8)}, RemoteAddr: at, RKey: key, Add: 5},
				SendWR{ID: 2, Opcode: WRAtomicCmpAndSwp, Flags: Signaled, SG: []SGE{from.mr.SGE(8, 8)}, RemoteAddr: at, RKey: key, Compare: 1005, Swap: 42},
				SendWR{ID: 3, Opcode: WRAtomicCmpAndSwp, Flags: Signaled, SG: []SGE{from.mr.SGE(16, 8)}, RemoteAddr: at, RKey: key, Compare: 1, Swap: 2})
			for _, op := range []WCOpcode{WCFetchAdd, WCCompSwap, WCCompSwap} {
				if wc := from.good(from.scq); wc.Opcode != op {
					t.Errorf("got %v, want %v", wc.Opcode, op)
				}
			}
			for i, want := range []uint64{1000, 1005, 42} {
				if got := binary.NativeEndian.Uint64(from.mem[8*i:]); got != want {
					t.Errorf("got %d from atomic %d, want %d", got, i+1, want)
				}
			}
			r.settle(from, to)
			if got := binary.NativeEndian.Uint64(word); got != 42 {
				t.Errorf("got %d in memory, want 42", got)
			}
		})
	})
}

func TestInvalidatedKeysOpenNothing(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		mem := make([]byte, 64)
		mine := must(r.a.pd.RegMR(mem, AccessLocalWrite))(t)
		theirs := must(r.b.pd.RegMR(make([]byte, 64), AccessLocalWrite|AccessRemoteWrite))(t)
		r.b.recv(RecvWR{SG: []SGE{r.b.mr.SGE(0, 64)}})
		r.a.send(
			SendWR{ID: 1, Opcode: WRSendWithInv, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 10)}, Imm: theirs.RKey()},
			SendWR{ID: 2, Opcode: WRLocalInv, Flags: Signaled, Imm: mine.LKey()})
		r.a.good(r.a.scq)
		if wc := r.a.good(r.a.scq); wc.Opcode != WCLocalInv {
			t.Errorf("got %v, want LOCAL_INV", wc.Opcode)
		}
		if wc := r.b.good(r.b.cq); wc.Flags&WCWithInv == 0 || wc.Imm != theirs.RKey() {
			t.Errorf("got %+v, want the invalidated key %#x", wc, theirs.RKey())
		}
		r.a.send(SendWR{ID: 3, Opcode: WRRDMAWrite, SG: []SGE{r.a.mr.SGE(0, 8)}, RemoteAddr: theirs.Addr(), RKey: theirs.RKey()})
		if wc := r.a.next(r.a.scq); wc.Status != WCRemAccessErr {
			t.Errorf("got %v, want REM_ACCESS_ERR", wc.Status)
		}
		if got := db.Counter("key_stale"); got != 1 {
			t.Errorf("got %d stale keys, want 1", got)
		}
		for _, m := range []*MR{mine, theirs} {
			if err := m.Dereg(); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestUnsignaledSendsCompleteSilently(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		for i := range 20 {
			r.b.recv(RecvWR{ID: uint64(i), SG: []SGE{r.b.mr.SGE(0, 64)}})
		}
		for i := range uint64(20) {
			wr := SendWR{ID: i, Opcode: WRSend, SG: []SGE{r.a.mr.SGE(0, 8)}}
			if i == 19 {
				wr.Flags = Signaled
			}
			r.a.send(wr)
		}
		if wc := r.a.good(r.a.scq); wc.ID != 19 {
			t.Errorf("got completion %d, want 19 alone", wc.ID)
		}
		for i := range uint64(20) {
			if wc := r.b.good(r.b.cq); wc.ID != i {
				t.Errorf("got receive %d, want %d", wc.ID, i)
			}
		}
	})
}
