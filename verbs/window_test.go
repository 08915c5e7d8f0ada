package verbs_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

const allRemote = AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic

// A windowed is a rig whose side b has a region that windows can be bound to,
// which itself is closed to peers.
type windowed struct {
	*rig
	mem []byte
	mr  *MR
}

func newWindowed(t testing.TB, da, db *Device) *windowed {
	t.Helper()
	r := newRig(t, da, db, standard())
	x := &windowed{rig: r, mem: make([]byte, 8192)}
	x.mr = must(r.b.pd.RegMR(x.mem, AccessLocalWrite|AccessMWBind))(t)
	return x
}

// bind binds a window of type 2 and waits for it.
func (x *windowed) bind(w *MW, off, n int, access Access) (rkey uint32) {
	x.t.Helper()
	rkey = IncRKey(w.RKey())
	x.b.send(SendWR{ID: 50, Opcode: WRBindMW, Flags: Signaled, BindMW: &BindMW{
		MW: w, RKey: rkey, MR: x.mr, Addr: x.mr.Addr() + uint64(off), Len: uint64(n), Access: access,
	}})
	if wc := x.b.good(x.b.scq); wc.ID != 50 || wc.Opcode != WCBindMW {
		x.t.Errorf("got %+v, want the bind", wc)
	}
	if got := w.RKey(); got != rkey {
		x.t.Errorf("got key %#x after the bind, want %#x", got, rkey)
	}
	return rkey
}

// bind1 binds a window of type 1 through the queue pair of side b.
func (x *windowed) bind1(w *MW, off, n int, access Access) (rkey uint32) {
	x.t.Helper()
	err := w.Bind(x.b.qp, MWBind{ID: 51, Flags: Signaled, MR: x.mr, Addr: x.mr.Addr() + uint64(off), Len: uint64(n), Access: access})
	if err != nil {
		x.t.Fatal(err)
	}
	if wc := x.b.good(x.b.scq); wc.ID != 51 || wc.Opcode != WCBindMW {
		x.t.Errorf("got %+v, want the bind", wc)
	}
	return w.RKey()
}

// move writes through a key, reads what it wrote, and compares.
func (x *windowed) move(rkey uint32, addr uint64, off, n, seed int) {
	x.t.Helper()
	fill(x.a.mem[:n], seed)
	clear(x.a.mem[16384:][:n])
	x.a.send(
		SendWR{ID: 1, Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, n)}, RemoteAddr: addr, RKey: rkey},
		SendWR{ID: 2, Opcode: WRRDMARead, Flags: Signaled, SG: []SGE{x.a.mr.SGE(16384, n)}, RemoteAddr: addr, RKey: rkey})
	x.a.good(x.a.scq)
	x.a.good(x.a.scq)
	x.settle(x.a, x.b)
	if !bytes.Equal(x.mem[off:off+n], x.a.mem[:n]) || !bytes.Equal(x.a.mem[16384:][:n], x.a.mem[:n]) {
		x.t.Errorf("got other bytes than the %d that were written", n)
	}
}

// refused expects that a WRITE of n bytes is refused, and why.
func (x *windowed) refused(rkey uint32, addr uint64, n int, counter string) {
	x.t.Helper()
	before := x.b.dev.Counter(counter)
	x.a.send(SendWR{ID: 9, Opcode: WRRDMAWrite, SG: []SGE{x.a.mr.SGE(0, n)}, RemoteAddr: addr, RKey: rkey})
	if wc := x.a.next(x.a.scq); wc.ID != 9 || wc.Status != WCRemAccessErr {
		x.t.Errorf("got %+v, want REM_ACCESS_ERR", wc)
	}
	if got := x.b.dev.Counter(counter) - before; got != 1 {
		x.t.Errorf("got %d more for %s, want 1", got, counter)
	}
	x.startAfresh(standard())
}

func TestAWindowOpensWhatItIsBoundTo(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := newWindowed(t, da, db)
		first := must(x.b.pd.AllocMW(MWType1))(t)
		second := must(x.b.pd.AllocMW(MWType2))(t)
		zero := must(x.b.pd.AllocMW(MWType2))(t)
		base := x.mr.Addr()
		x.move(x.bind1(first, 100, 3000, allRemote), base+100, 100, 3000, 1)
		x.move(x.bind(second, 4000, 1500, allRemote), base+4000, 4000, 1500, 2)
		x.move(x.bind(zero, 6000, 2000, allRemote|AccessZeroBased), 0, 6000, 2000, 3)
		for _, w := range []*MW{first, second, zero} {
			if err := w.Dealloc(); err != nil {
				t.Error(err)
			}
		}
		if err := x.mr.Dereg(); err != nil {
			t.Errorf("got error %v for a region without windows", err)
		}
	})
}

func TestAWindowOpensNoByteMore(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := newWindowed(t, da, db)
		first, second := must(x.b.pd.AllocMW(MWType1))(t), must(x.b.pd.AllocMW(MWType2))(t)
		at := x.mr.Addr() + 1000
		for _, key := range []uint32{x.bind1(first, 1000, 64, AccessRemoteWrite), x.bind(second, 1000, 64, AccessRemoteWrite)} {
			x.refused(key, at-1, 64, "key_range")
			x.refused(key, at+1, 64, "key_range")
			x.refused(key, at, 65, "key_range")
			x.refused(key^1, at, 64, "key_stale")
			x.refused(key^1<<20, at, 64, "key_unknown")
		}
		x.refused(x.mr.RKey(), at, 64, "key_right")
	})
}

func TestAWindowGivesItsOwnRights(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := newWindowed(t, da, db)
		w := must(x.b.pd.AllocMW(MWType1))(t)
		at := x.mr.Addr()
		for _, c := range []struct {
			access Access
			op     Opcode
		}{
			{AccessRemoteRead | AccessRemoteAtomic, WRRDMAWrite},
			{AccessRemoteWrite | AccessRemoteAtomic, WRRDMARead},
			{AccessRemoteRead | AccessRemoteWrite, WRAtomicFetchAndAdd},
			{AccessRemoteRead | AccessRemoteAtomic, WRAtomicWrite},
		} {
			key := x.bind1(w, 0, 64, c.access)
			x.a.send(SendWR{Opcode: c.op, SG: []SGE{x.a.mr.SGE(0, 8)}, RemoteAddr: at, RKey: key})
			if wc := x.a.next(x.a.scq); wc.Status != WCRemAccessErr {
				t.Errorf("got %v for %v without the right, want REM_ACCESS_ERR", wc.Status, c.op)
			}
			x.startAfresh(standard())
		}
		if got := db.Counter("key_right"); got != 4 {
			t.Errorf("got %d rights missing, want 4", got)
		}
	})
}

func TestBindingAgainClosesWhatWasOpen(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := newWindowed(t, da, db)
		w := must(x.b.pd.AllocMW(MWType1))(t)
		at := x.mr.Addr()
		x.refused(w.RKey(), at, 8, "key_stale") // not bound yet
		old := x.bind1(w, 0, 64, AccessRemoteWrite)
		key := x.bind1(w, 128, 64, AccessRemoteWrite|AccessRemoteRead)
		x.refused(old, at, 8, "key_stale")
		x.refused(key, at, 8, "key_range")
		x.move(key, at+128, 128, 64, 1)
		if err := w.Bind(x.b.qp, MWBind{Flags: Signaled}); err != nil { // nothing at all
			t.Fatal(err)
		}
		x.b.good(x.b.scq)
		x.refused(key, at+128, 8, "key_stale")
		x.refused(w.RKey(), at+128, 8, "key_stale")
		if err := x.mr.Dereg(); err != nil {
			t.Errorf("got error %v for a region whose window was taken back", err)
		}
	})
}

func TestAWindowOfType2IsInvalidated(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := newWindowed(t, da, db)
		w := must(x.b.pd.AllocMW(MWType2))(t)
		at := x.mr.Addr()
		for range 3 {
			key := x.bind(w, 0, 64, AccessRemoteWrite|AccessRemoteRead)
			x.move(key, at, 0, 64, 1)
			x.b.send(SendWR{Opcode: WRLocalInv, Flags: Signaled, Imm: key})
			x.b.good(x.b.scq)
			x.refused(key, at, 8, "key_stale")

			key = x.bind(w, 64, 64, AccessRemoteWrite|AccessRemoteRead)
			x.move(key, at+64, 64, 64, 2)
			x.b.recv(RecvWR{SG: []SGE{x.b.mr.SGE(0, 64)}})
			x.a.send(SendWR{Opcode: WRSendWithInv, Flags: Signaled, Imm: key, SG: []SGE{x.a.mr.SGE(0, 8)}})
			x.a.good(x.a.scq)
			if wc := x.b.good(x.b.cq); wc.Flags&WCWithInv == 0 || wc.Imm != key {
				t.Errorf("got %+v, want the invalidated key %#x", wc, key)
			}
			x.refused(key, at+64, 8, "key_stale")
		}
		// What nobody may invalidate fails: a window that is not bound, another
		// key of it, and one of type 1.
		first := must(x.b.pd.AllocMW(MWType1))(t)
		bound := x.bind(w, 0, 64, AccessRemoteWrite)
		for _, key := range []uint32{bound + 1, x.bind1(first, 0, 64, AccessRemoteWrite)} {
			x.b.send(SendWR{Opcode: WRLocalInv, Imm: key})
			if wc := x.b.next(x.b.scq); wc.Status == WCSuccess {
				t.Errorf("got success for the invalidation of key %#x", key)
			}
			x.startAfresh(standard())
		}
		x.move(x.bind1(first, 0, 64, AccessRemoteWrite|AccessRemoteRead), at, 0, 64, 5)
	})
}

// A window of type 2 counts for the queue pair that bound it, one of type 1 for
// all of its domain, and neither for another domain.
func TestAWindowOfType2IsOfItsQueuePair(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := newWindowed(t, da, db)
		at := x.mr.Addr()
		first, second := must(x.b.pd.AllocMW(MWType1))(t), must(x.b.pd.AllocMW(MWType2))(t)
		key1, key2 := x.bind1(first, 0, 64, allRemote), x.bind(second, 0, 64, allRemote)

		y := *x // other queue pairs of the same domain
		y.rig = &rig{t: t, a: x.a, b: x.b}
		aqp, bqp := x.a.qp, x.b.qp
		x.a.qp, x.b.qp = x.a.newQP(standard()), x.b.newQP(standard())
		connect(t, standard(), da, db, x.a.qp, x.b.qp)
		y.move(key1, at, 0, 64, 1)
		y.refused(key2, at, 8, "key_domain")
		x.b.send(SendWR{Opcode: WRLocalInv, Imm: key2})
		if wc := x.b.next(x.b.scq); wc.Status == WCSuccess {
			t.Error("got success for the invalidation of another queue pair's window")
		}
		x.a.qp, x.b.qp = aqp, bqp
		x.move(key2, at, 0, 64, 2)

		other := newRig(t, da, db, standard()) // another domain
		z := windowed{rig: other, mem: x.mem, mr: x.mr}
		z.refused(key1, at, 8, "key_domain")
		z.refused(key2, at, 8, "key_domain")
	})
}

// badBinds are binds that complete with an error.
func badBinds(x *windowed) map[string]BindMW {
	t := x.t
	w := must(x.b.pd.AllocMW(MWType2))(t)
	good := BindMW{MW: w, RKey: IncRKey(w.RKey()), MR: x.mr, Addr: x.mr.Addr(), Len: 64, Access: AccessRemoteWrite}
	with := func(f func(b *BindMW)) BindMW {
		b := good
		f(&b)
		return b
	}
	region := func(pd *PD, a Access) func(b *BindMW) {
		mr := must(pd.RegMR(make([]byte, 64), a))(t)
		return func(b *BindMW) { b.MR, b.Addr = mr, mr.Addr() }
	}
	bound := must(x.b.pd.AllocMW(MWType2))(t)
	x.bind(bound, 0, 8, 0)
	gone := must(x.b.pd.AllocMW(MWType2))(t)
	if err := gone.Dealloc(); err != nil {
		t.Fatal(err)
	}
	foreign := must(x.b.dev.AllocPD().AllocMW(MWType2))(t)
	return map[string]BindMW{
		"one byte before the region":  with(func(b *BindMW) { b.Addr-- }),
		"one byte behind the region":  with(func(b *BindMW) { b.Addr += 8192 - 63 }),
		"longer than the region":      with(func(b *BindMW) { b.Len = 8193 }),
		"longer than any memory":      with(func(b *BindMW) { b.Len = 1 << 63 }),
		"no byte":                     with(func(b *BindMW) { b.Len = 0 }),
		"no right to bind":            with(region(x.b.pd, AccessLocalWrite)),
		"write without local write":   with(region(x.b.pd, AccessMWBind)),
		"flush of what cannot be":     with(func(b *BindMW) { b.Access = AccessFlushGlobal }),
		"zero-based region":           with(region(x.b.pd, AccessLocalWrite|AccessMWBind|AccessZeroBased)),
		"region of another domain":    with(region(x.b.dev.AllocPD(), AccessLocalWrite|AccessMWBind)),
		"window of another domain":    with(func(b *BindMW) { b.MW, b.RKey = foreign, IncRKey(foreign.RKey()) }),
		"window that is bound":        with(func(b *BindMW) { b.MW, b.RKey = bound, IncRKey(bound.RKey()) }),
		"window that is gone":         with(func(b *BindMW) { b.MW, b.RKey = gone, IncRKey(gone.RKey()) }),
		"key of another window":       with(func(b *BindMW) { b.RKey ^= 1 << 12 }),
		"atomics without local write": with(func(b *BindMW) { region(x.b.pd, AccessMWBind)(b); b.Access = AccessRemoteAtomic }),
	}
}

func TestBindsThatMayNotBeFail(t *testing.T) {
	onEach(t, func(t *testing.T, e work.Executor) {
		da, db := pair(t, e)
		x := newWindowed(t, da, db)
		for name, bad := range badBinds(x) {
			x.b.send(SendWR{ID: 1, Opcode: WRBindMW, BindMW: &bad}, SendWR{ID: 2, Opcode: WRSend})
			if wc := x.b.next(x.b.scq); wc.ID != 1 || wc.Status != WCMWBindErr {
				t.Errorf("%s: got completion %d with %v, want 1 with MW_BIND_ERR", name, wc.ID, wc.Status)
			}
			if wc := x.b.next(x.b.scq); wc.ID != 2 || wc.Status != WCFlushErr {
				t.Errorf("%s: got completion %d with %v, want 2 flushed", name, wc.ID, wc.Status)
			}
			x.startAfresh(standard())
		}
	})
}

func TestBindsThatMakeNoSenseCannotBePosted(t *testing.T) {
	da, db := pair(t, work.NewInline())
	x := newWindowed(t, da, db)
	first, second := must(x.b.pd.AllocMW(MWType1))(t), must(x.b.pd.AllocMW(MWType2))(t)
	for name, wr := range map[string]SendWR{
		"nothing to bind":      {},
		"no window":            {BindMW: &BindMW{MR: x.mr, Len: 8}},
		"no region":            {BindMW: &BindMW{MW: second, Len: 8}},
		"a window of type 1":   {BindMW: &BindMW{MW: first, MR: x.mr, Len: 8}},
		"a local right":        {BindMW: &BindMW{MW: second, MR: x.mr, Len: 8, Access: AccessLocalWrite}},
		"scatter entries":      {BindMW: &BindMW{MW: second, MR: x.mr, Len: 8}, SG: []SGE{x.b.mr.SGE(0, 8)}},
		"inline data":          {BindMW: &BindMW{MW: second, MR: x.mr, Len: 8}, Flags: Inline},
		"the right to bind it": {BindMW: &BindMW{MW: second, MR: x.mr, Len: 8, Access: AccessMWBind}},
	} {
		wr.Opcode = WRBindMW
		if n, err := x.b.qp.PostSend(wr); n != 0 || err != EINVAL {
			t.Errorf("%s: got %d, %v, want 0, EINVAL", name, n, err)
		}
	}
	for name, c := range map[string]struct {
		w *MW
		b MWBind
	}{
		"a window of type 2": {second, MWBind{MR: x.mr, Len: 8}},
		"no region":          {first, MWBind{Len: 8}},
		"zero-based":         {first, MWBind{MR: x.mr, Len: 8, Access: AccessZeroBased}},
	} {
		key := c.w.RKey()
		if err := c.w.Bind(x.b.qp, c.b); err != EINVAL || c.w.RKey() != key {
			t.Errorf("%s: got %v and key %#x, want EINVAL and %#x", name, err, c.w.RKey(), key)
		}
	}
	if _, err := x.b.pd.AllocMW(3); !errors.Is(err, EINVAL) {
		t.Errorf("got error %v for a window of type 3, want EINVAL", err)
	}
}

func TestARegionStaysWhileAWindowIsBoundToIt(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := newWindowed(t, da, db)
		w := must(x.b.pd.AllocMW(MWType2))(t)
		key := x.bind(w, 0, 64, AccessRemoteWrite|AccessRemoteRead)
		if err := x.mr.Dereg(); !errors.Is(err, EBUSY) {
			t.Errorf("got error %v from Dereg, want EBUSY", err)
		}
		if err := x.mr.Rereg(Rereg{}); !errors.Is(err, EBUSY) {
			t.Errorf("got error %v from Rereg, want EBUSY", err)
		}
		if err := x.b.pd.Dealloc(); !errors.Is(err, EBUSY) {
			t.Errorf("got error %v from the domain, want EBUSY", err)
		}
		x.b.send(SendWR{Opcode: WRLocalInv, Imm: x.mr.LKey()})
		if wc := x.b.next(x.b.scq); wc.Status == WCSuccess {
			t.Error("got a region invalidated that a window is bound to")
		}
		x.startAfresh(standard())
		x.move(key, x.mr.Addr(), 0, 64, 1) // and nothing was changed
		if err := w.Dealloc(); err != nil {
			t.Fatal(err)
		}
		if err := w.Dealloc(); !errors.Is(err, EBADF) {
			t.Errorf("got error %v from a second Dealloc, want EBADF", err)
		}
		x.refused(key, x.mr.Addr(), 8, "key_unknown")
		if err := x.mr.Dereg(); err != nil {
			t.Errorf("got error %v from Dereg when the window is gone", err)
		}
	})
}

// Binds run in the order of the send queue: the peer is told the key by a SEND
// that follows at once.
func TestAKeyThatIsSentBehindItsBindIsGood(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		x := newWindowed(t, da, db)
		w := must(x.b.pd.AllocMW(MWType2))(t)
		key := w.RKey()
		for n := range 20 {
			key = IncRKey(key)
			bind := BindMW{MW: w, RKey: key, MR: x.mr, Addr: x.mr.Addr(), Len: 64, Access: AccessRemoteWrite}
			x.a.recv(RecvWR{})
			x.b.send(SendWR{Opcode: WRBindMW, BindMW: &bind}, SendWR{Opcode: WRSendWithImm, Imm: key, Flags: Signaled})
			got := x.a.good(x.a.cq)
			x.b.recv(RecvWR{ID: uint64(n)})
			x.a.send(
				SendWR{Opcode: WRRDMAWrite, SG: []SGE{x.a.mr.SGE(0, 64)}, RemoteAddr: x.mr.Addr(), RKey: got.Imm},
				SendWR{Opcode: WRSendWithInv, Flags: Signaled, Imm: got.Imm})
			x.a.good(x.a.scq)
			if wc := x.b.good(x.b.cq); wc.Imm != key || wc.ID != uint64(n) {
				t.Errorf("got %+v, want receive %d with key %#x", wc, n, key)
			}
			x.b.good(x.b.scq)
		}
	})
}

func TestBindingAllocatesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, e work.Executor) {
		da, db := pair(t, e)
		x := newWindowed(t, da, db)
		first, second := must(x.b.pd.AllocMW(MWType1))(t), must(x.b.pd.AllocMW(MWType2))(t)
		key, at := second.RKey(), x.mr.Addr()
		bind := BindMW{MW: second, MR: x.mr, Addr: at, Len: 64, Access: AccessRemoteWrite}
		binds := []SendWR{{Opcode: WRBindMW, Flags: Signaled, BindMW: &bind}}
		writes := []SendWR{{Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{x.a.mr.SGE(0, 64)}, RemoteAddr: at}}
		invs := []SendWR{{Opcode: WRLocalInv, Flags: Signaled}}
		var wc [1]WC
		do := func(e *end, wrs []SendWR) {
			if _, err := e.qp.PostSend(wrs...); err != nil {
				t.Fatal(err)
			}
			for e.scq.Poll(wc[:]) == 0 {
			}
		}
		allocs.None(t, func() {
			key = IncRKey(key)
			bind.RKey, writes[0].RKey, invs[0].Imm = key, key, key
			do(x.b, binds)
			do(x.a, writes)
			do(x.b, invs)
			if err := first.Bind(x.b.qp, MWBind{Flags: Signaled, MR: x.mr, Addr: at, Len: 64}); err != nil {
				t.Fatal(err)
			}
			for x.b.scq.Poll(wc[:]) == 0 {
			}
		})
	})
}

func TestAnUnreliablePeerWritesThroughAWindow(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		s := standard()
		s.typ = UC
		r := newRig(t, da, db, s)
		x := &windowed{rig: r, mem: make([]byte, 8192)}
		x.mr = must(r.b.pd.RegMR(x.mem, AccessLocalWrite|AccessMWBind))(t)
		w := must(r.b.pd.AllocMW(MWType2))(t)
		key, at := x.bind(w, 100, 3000, AccessRemoteWrite), x.mr.Addr()+100
		fill(r.a.mem[:3000], 4)
		r.b.recv(RecvWR{ID: 1})
		r.a.send(SendWR{Opcode: WRRDMAWriteWithImm, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 3000)}, RemoteAddr: at, RKey: key})
		r.a.good(r.a.scq)
		r.b.good(r.b.cq)
		if !bytes.Equal(x.mem[100:3100], r.a.mem[:3000]) {
			t.Error("got other bytes than those that were written")
		}
		r.a.send(SendWR{Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 3000)}, RemoteAddr: at + 1, RKey: key})
		r.a.good(r.a.scq)
		until(t, "a WRITE that is dropped", func() bool { db.Drive(0); return db.Counter("key_range") == 1 })
		r.b.send(SendWR{Opcode: WRLocalInv, Flags: Signaled, Imm: key})
		r.b.good(r.b.scq)
		r.a.send(SendWR{Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 8)}, RemoteAddr: at, RKey: key})
		r.a.good(r.a.scq)
		until(t, "another", func() bool { db.Drive(0); return db.Counter("key_stale") == 1 })
	})
}
