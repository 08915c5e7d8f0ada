package verbs_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

const flushRights = AccessFlushGlobal | AccessFlushPersistent

// flushing are settings whose regions may be flushed to be visible.
func flushing() settings {
	s := standard()
	s.access |= AccessFlushGlobal
	return s
}

// fetch returns the peer's word, as atomics see it.
func (r *rig) fetch(at uint64, rkey uint32) uint64 {
	r.t.Helper()
	r.a.send(SendWR{Opcode: WRAtomicFetchAndAdd, Flags: Signaled, SG: []SGE{r.a.mr.SGE(1024, 8)}, RemoteAddr: at, RKey: rkey})
	r.a.good(r.a.scq)
	return binary.NativeEndian.Uint64(r.a.mem[1024:])
}

func TestAnAtomicWriteStoresItsWord(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		r.bothWays(func(from, to *end) {
			at, key := to.mr.Addr()+4096, to.mr.RKey()
			binary.NativeEndian.PutUint64(from.mem, 0x1122334455667788)
			binary.NativeEndian.PutUint32(from.mem[64:], 0xaabbccdd)
			var inline [8]byte
			binary.NativeEndian.PutUint64(inline[:], 42)
			from.send(
				SendWR{ID: 1, Opcode: WRAtomicWrite, Flags: Signaled, SG: []SGE{from.mr.SGE(0, 8)}, RemoteAddr: at, RKey: key},
				SendWR{ID: 2, Opcode: WRAtomicWrite, Flags: Signaled, SG: []SGE{from.mr.SGE(64, 4), from.mr.SGE(64, 4)}, RemoteAddr: at + 8, RKey: key},
				SendWR{ID: 3, Opcode: WRAtomicWrite, Flags: Signaled | Inline, Data: inline[:], RemoteAddr: at + 16, RKey: key})
			for want := uint64(1); want <= 3; want++ {
				if wc := from.good(from.scq); wc.ID != want || wc.Opcode != WCAtomicWrite {
					t.Errorf("got %+v, want ATOMIC_WRITE %d", wc, want)
				}
			}
			r.settle(from, to)
			for i, want := range []uint64{0x1122334455667788, 0xaabbccddaabbccdd, 42} {
				if got := binary.NativeEndian.Uint64(to.mem[4096+8*i:]); got != want {
					t.Errorf("got %#x in word %d, want %#x", got, i, want)
				}
			}
		})
	})
}

// Several queue pairs store words while another looks: it sees whole ones.
func TestAnAtomicWriteIsNeverSeenInPieces(t *testing.T) {
	onEach(t, func(t *testing.T, e work.Executor) {
		da, db := pair(t, e)
		reader := newRig(t, da, db, standard())
		at, key := reader.b.mr.Addr()+8, reader.b.mr.RKey()
		var all sync.WaitGroup
		for i := range uint64(3) {
			w := newEnd(t, da, standard())
			q := reader.b.newQP(standard())
			connect(t, standard(), da, db, w.qp, q)
			binary.NativeEndian.PutUint64(w.mem, 0x0101010101010101*(i+1))
			all.Go(func() {
				for range 300 {
					w.send(SendWR{Opcode: WRAtomicWrite, Flags: Signaled, SG: []SGE{w.mr.SGE(0, 8)}, RemoteAddr: at, RKey: key})
					w.good(w.scq)
				}
			})
		}
		for range 300 {
			if got := reader.fetch(at, key); got%0x0101010101010101 != 0 || got > 0x0303030303030303 {
				t.Fatalf("got word %#x, which nobody wrote", got)
			}
		}
		all.Wait()
	})
}

func TestAFlushIsAnswered(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, flushing())
		r.bothWays(func(from, to *end) {
			fill(from.mem[:5000], 3)
			at, key := to.mr.Addr()+65536, to.mr.RKey()
			from.send(
				SendWR{Opcode: WRRDMAWrite, SG: []SGE{from.mr.SGE(0, 5000)}, RemoteAddr: at, RKey: key},
				SendWR{ID: 1, Opcode: WRFlush, Flags: Signaled, RemoteAddr: at, RKey: key, FlushLen: 5000, FlushType: FlushGlobal},
				SendWR{ID: 2, Opcode: WRFlush, Flags: Signaled, RemoteAddr: at, RKey: key, FlushType: FlushGlobal},
				SendWR{ID: 3, Opcode: WRFlush, Flags: Signaled | Fence, RKey: key, FlushType: FlushGlobal, FlushLevel: FlushMR})
			for want := uint64(1); want <= 3; want++ {
				if wc := from.good(from.scq); wc.ID != want || wc.Opcode != WCFlush {
					t.Errorf("got %+v, want FLUSH %d", wc, want)
				}
			}
		})
	})
}

// durable returns memory that outlasts a loss of power, or skips the test.
func durable(t *testing.T) (mem []byte, path string) {
	path = filepath.Join(t.TempDir(), "memory")
	f := must(os.Create(path))(t)
	defer f.Close()
	if err := f.Truncate(8192); err != nil {
		t.Fatal(err)
	}
	p, err := sys.MapFile(f, 0, 8192, true)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("no mapped files on this system")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Free(); err != nil {
			t.Error(err)
		}
	})
	if ok, err := sys.Durable(p.Bytes()); !ok || err != nil {
		t.Skipf("%s is on a file system in memory (%v)", path, err)
	}
	return p.Bytes(), path
}

func TestAPersistentFlushWritesAFileOut(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		mem, path := durable(t)
		s := flushing()
		s.access |= AccessFlushPersistent
		// The memory of side b is heap, which cannot have the right: so set up
		// without it, and with it for the queue pairs.
		e := flushing()
		r := &rig{t: t, a: newEnd(t, da, e), b: newEnd(t, db, e)}
		connect(t, s, da, db, r.a.qp, r.b.qp)
		mr := must(r.b.pd.RegMR(mem, AccessLocalWrite|AccessRemoteWrite|flushRights|AccessMWBind))(t)
		defer mr.Dereg()
		w := must(r.b.pd.AllocMW(MWType1))(t)
		defer w.Dealloc()
		if err := w.Bind(r.b.qp, MWBind{Flags: Signaled, MR: mr, Addr: mr.Addr() + 100, Len: 4096, Access: AccessFlushPersistent}); err != nil {
			t.Fatal(err)
		}
		r.b.good(r.b.scq)
		copy(r.a.mem, "still there")
		both := FlushGlobal | FlushPersistent
		r.a.send(
			SendWR{Opcode: WRRDMAWrite, SG: []SGE{r.a.mr.SGE(0, 11)}, RemoteAddr: mr.Addr() + 4090, RKey: mr.RKey()},
			SendWR{ID: 1, Opcode: WRFlush, Flags: Signaled, RemoteAddr: mr.Addr() + 4090, RKey: mr.RKey(), FlushLen: 11, FlushType: FlushPersistent},
			SendWR{ID: 2, Opcode: WRFlush, Flags: Signaled, RKey: mr.RKey(), FlushLevel: FlushMR, FlushType: both},
			SendWR{ID: 3, Opcode: WRFlush, Flags: Signaled, RKey: w.RKey(), FlushLevel: FlushMR, FlushType: FlushPersistent},
			SendWR{ID: 4, Opcode: WRFlush, Flags: Signaled, RKey: w.RKey(), RemoteAddr: mr.Addr() + 100, FlushLen: 4096, FlushType: FlushPersistent})
		for range 4 {
			if wc := r.a.good(r.a.scq); wc.Opcode != WCFlush {
				t.Errorf("got %+v, want a FLUSH", wc)
			}
		}
		if got := must(os.ReadFile(path))(t)[4090:4101]; string(got) != "still there" {
			t.Errorf("got %q in the file", got)
		}
	})
}

func TestMemoryThatPowerErasesCannotBeFlushedFromIt(t *testing.T) {
	da, _ := pair(t, work.NewInline())
	pd := da.AllocPD()
	if _, err := pd.RegMR(make([]byte, 64), AccessFlushPersistent); !errors.Is(err, EINVAL) && !errors.Is(err, EOPNOTSUPP) {
		t.Errorf("got error %v for heap memory, want EINVAL", err)
	}
	mem, _ := durable(t)
	mr := must(pd.RegMR(mem, AccessFlushPersistent))(t)
	heap := make([]byte, 64)
	if err := mr.Rereg(Rereg{Mem: heap}); !errors.Is(err, EINVAL) {
		t.Errorf("got error %v for heap memory in the place of a file, want EINVAL", err)
	}
	if err := mr.Dereg(); err != nil {
		t.Error(err)
	}
}

// placementFaults are FLUSHes and ATOMIC WRITEs that are refused.
func placementFaults() []refusal {
	all := flushing().access
	flush := func(r *rig, off, n int) SendWR {
		return SendWR{ID: 1, Opcode: WRFlush, RemoteAddr: r.b.mr.Addr() + uint64(off), RKey: r.b.mr.RKey(),
			FlushLen: uint32(n), FlushType: FlushGlobal}
	}
	store := func(r *rig, off, n int) SendWR {
		wr := remote(r, off, n)
		wr.Opcode = WRAtomicWrite
		return wr
	}
	with := func(wr SendWR, f func(wr *SendWR)) SendWR { f(&wr); return wr }
	size := standard().mem
	return []refusal{
		{"flush one byte before", func(r *rig) SendWR { return flush(r, -1, 8) }, all, WCRemAccessErr, "key_range"},
		{"flush one byte too far", func(r *rig) SendWR { return flush(r, 0, size+1) }, all, WCRemAccessErr, "key_range"},
		{"flush of nothing outside", func(r *rig) SendWR { return flush(r, -1, 0) }, all, WCRemAccessErr, "key_range"},
		{"flush with a stale key", func(r *rig) SendWR {
			return with(flush(r, 0, 8), func(wr *SendWR) { wr.RKey ^= 1 })
		}, all, WCRemAccessErr, "key_stale"},
		{"flush of an unknown region", func(r *rig) SendWR {
			return with(flush(r, 0, 0), func(wr *SendWR) { wr.RKey ^= 1 << 20; wr.FlushLevel = FlushMR })
		}, all, WCRemAccessErr, "key_unknown"},
		{"flush of a region without the right", func(r *rig) SendWR {
			mr := must(r.b.pd.RegMR(make([]byte, 64), AccessRemoteRead))(r.t)
			return with(flush(r, 0, 0), func(wr *SendWR) { wr.RKey, wr.FlushLevel = mr.RKey(), FlushMR })
		}, all, WCRemAccessErr, "key_right"},
		{"persistent flush without the right of the queue pair", func(r *rig) SendWR {
			return with(flush(r, 0, 8), func(wr *SendWR) { wr.FlushType = FlushPersistent })
		}, all, WCRemAccessErr, ""},
		{"flush of another domain", func(r *rig) SendWR {
			mr := must(r.b.dev.AllocPD().RegMR(make([]byte, 64), all))(r.t)
			return with(flush(r, 0, 8), func(wr *SendWR) { wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey() })
		}, all, WCRemAccessErr, "key_domain"},
		{"flush that reaches nowhere", func(r *rig) SendWR {
			return with(flush(r, 0, 8), func(wr *SendWR) { wr.FlushType = 0 })
		}, all, WCLocQPOpErr, ""},
		{"flush with scatter entries", func(r *rig) SendWR {
			return with(flush(r, 0, 8), func(wr *SendWR) { wr.SG = []SGE{r.a.mr.SGE(0, 8)} })
		}, all, WCLocQPOpErr, ""},
		{"atomic write that is not aligned", func(r *rig) SendWR { return store(r, 4, 8) }, all, WCRemInvReqErr, ""},
		{"atomic write too far", func(r *rig) SendWR { return store(r, size, 8) }, all, WCRemAccessErr, "key_range"},
		{"atomic write of 4 bytes", func(r *rig) SendWR { return store(r, 0, 4) }, all, WCLocLenErr, ""},
		{"atomic write without the right", func(r *rig) SendWR {
			mr := must(r.b.pd.RegMR(make([]byte, 64), AccessLocalWrite|AccessRemoteAtomic))(r.t)
			return with(store(r, 0, 8), func(wr *SendWR) { wr.RemoteAddr, wr.RKey = mr.Addr(), mr.RKey() })
		}, all, WCRemAccessErr, "key_right"},
	}
}

func TestWrongPlacementsFailTheQueuePair(t *testing.T) {
	for _, c := range placementFaults() {
		t.Run(c.name, func(t *testing.T) {
			for _, e := range executors {
				da, db := pair(t, e.make())
				r := newRig(t, da, db, flushing())
				r.a.send(c.wr(r), SendWR{ID: 2, Opcode: WRSend})
				if wc := r.a.next(r.a.scq); wc.ID != 1 || wc.Status != c.status {
					t.Errorf("%s: got completion %d with %v, want 1 with %v", e.name, wc.ID, wc.Status, c.status)
				}
				if wc := r.a.next(r.a.scq); wc.ID != 2 || wc.Status != WCFlushErr {
					t.Errorf("%s: got completion %d with %v, want 2 flushed", e.name, wc.ID, wc.Status)
				}
				if c.counter != "" && db.Counter(c.counter) != 1 {
					t.Errorf("%s: got %d for %s, want 1", e.name, db.Counter(c.counter), c.counter)
				}
			}
		})
	}
}

// The rights of the queue pair are asked beside those of the region.
func TestAQueuePairMayForbidAFlush(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := &rig{t: t, a: newEnd(t, da, flushing()), b: newEnd(t, db, flushing())}
		connect(t, standard(), da, db, r.a.qp, r.b.qp)
		r.a.send(SendWR{Opcode: WRFlush, RKey: r.b.mr.RKey(), FlushLevel: FlushMR, FlushType: FlushGlobal})
		if wc := r.a.next(r.a.scq); wc.Status != WCRemAccessErr {
			t.Errorf("got %v, want REM_ACCESS_ERR", wc.Status)
		}
		if got := db.Counter("key_fault"); got != 0 {
			t.Errorf("got %d keys refused, want 0", got)
		}
	})
}

func TestAZeroBasedRegionBeginsAtZero(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r := newRig(t, da, db, standard())
		mem := make([]byte, 4096)
		mr := must(r.b.pd.RegMR(mem, AccessLocalWrite|AccessRemoteWrite|AccessRemoteRead|AccessZeroBased|AccessRelaxedOrdering))(t)
		if mr.Addr() != 0 || mr.SGE(8, 4).Addr != 8 {
			t.Errorf("got address %#x and %#x of byte 8, want 0 and 8", mr.Addr(), mr.SGE(8, 4).Addr)
		}
		x := windowed{rig: r, mem: mem, mr: mr}
		x.move(mr.RKey(), 0, 0, 4096, 1)
		x.refused(mr.RKey(), 1, 4096, "key_range")
		x.refused(mr.RKey(), ^uint64(0), 2, "key_range")
		// Receives go there too.
		fill(r.a.mem[:100], 9)
		r.b.recv(RecvWR{SG: []SGE{mr.SGE(200, 100)}})
		r.a.send(SendWR{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 100)}})
		r.a.good(r.a.scq)
		r.b.good(r.b.cq)
		if string(mem[200:300]) != string(r.a.mem[:100]) {
			t.Error("got other bytes than were sent")
		}
		// And no longer after a registration that says so.
		access := AccessLocalWrite | AccessRemoteWrite | AccessRemoteRead
		if err := mr.Rereg(Rereg{Access: &access}); err != nil {
			t.Fatal(err)
		}
		if mr.Addr() == 0 {
			t.Error("got address 0 of a region that is not zero-based any more")
		}
		x.move(mr.RKey(), mr.Addr(), 0, 4096, 2)
	})
}

func TestAccessThatThereIsNotIsRefused(t *testing.T) {
	da, _ := pair(t, work.NewInline())
	pd := da.AllocPD()
	for _, a := range []Access{1 << 6, 1 << 7, 1 << 10, 1 << 19, 1 << 30} {
		if _, err := pd.RegMR(make([]byte, 8), a); !errors.Is(err, EINVAL) {
			t.Errorf("got error %v for access %#x, want EINVAL", err, uint32(a))
		}
	}
	if _, err := pd.RegMR(make([]byte, 8), AccessRelaxedOrdering|1<<29); err != nil {
		t.Errorf("got error %v for what a device may ignore", err)
	}
}

func TestThereIsOnePartition(t *testing.T) {
	da, db := pair(t, work.NewInline())
	if k := must(da.PKey(0))(t); k != 0xffff || da.Port().PKeys != 1 || da.Attr().PKeys != 1 {
		t.Errorf("got partition key %#x of %d, want 0xffff alone", k, da.Port().PKeys)
	}
	if _, err := da.PKey(1); !errors.Is(err, EINVAL) {
		t.Errorf("got error %v for a second one, want EINVAL", err)
	}
	q := newEnd(t, db, standard()).qp
	if err := q.Modify(QPAttr{State: StateInit, Port: 1, PKeyIndex: 1}, MaskInit); !errors.Is(err, EINVAL) {
		t.Errorf("got error %v for a queue pair in a second one, want EINVAL", err)
	}
}

func TestPlacementsAllocateNothing(t *testing.T) {
	onEach(t, func(t *testing.T, e work.Executor) {
		da, db := pair(t, e)
		r := newRig(t, da, db, flushing())
		at, key := r.b.mr.Addr(), r.b.mr.RKey()
		send := []SendWR{
			{Opcode: WRAtomicWrite, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 8)}, RemoteAddr: at, RKey: key},
			{Opcode: WRFlush, Flags: Signaled, RemoteAddr: at, RKey: key, FlushLen: 8, FlushType: FlushGlobal},
		}
		var wc [2]WC
		allocs.None(t, func() {
			if _, err := r.a.qp.PostSend(send...); err != nil {
				t.Fatal(err)
			}
			for n := 0; n < 2; {
				n += r.a.scq.Poll(wc[:])
			}
		})
	})
}
