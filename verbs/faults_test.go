package verbs_test

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/gantry-rdma/gantry/internal/link"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// spoiled opens a pair over a bad network, in both directions.
func spoiled(t *testing.T, x work.Executor, f link.Faults) (a, b *Device) {
	t.Helper()
	wrap := func(l link.Link) (link.Link, error) {
		f.Seed++
		return link.NewFaults(l, f), nil
	}
	a, b, err := OpenPair(Config{Executor: x, Wrap: wrap}, Config{Executor: x, Wrap: wrap})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		x.Close()
	})
	return a, b
}

func TestABadNetworkLosesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := spoiled(t, x, link.Faults{Loss: 0.02, Dup: 0.02, Reorder: 0.02, Corrupt: 0.02, Seed: 7})
		s := standard()
		s.timeout = 13 // 34 ms: a machine that is busy takes longer than that, but not 8 times
		r := newRig(t, da, db, s)
		r.exchange(200)
		if n := db.Counter("drop_icrc") + da.Counter("drop_icrc"); n == 0 {
			t.Error("got no damaged packet, want some")
		}
	})
}

// Every atomic is executed exactly once, whatever is lost or doubled.
func TestAtomicsAreExecutedOnce(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := spoiled(t, x, link.Faults{Loss: 0.05, Dup: 0.05, Reorder: 0.02, Seed: 3})
		s := standard()
		s.timeout = 13 // 34 ms: a machine that is busy takes longer than that, but not 8 times
		r := newRig(t, da, db, s)
		const n = 300
		for i := range uint64(n) {
			r.a.send(SendWR{ID: i, Opcode: WRAtomicFetchAndAdd, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 8)},
				RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey(), Add: 1})
			r.a.good(r.a.scq)
			if got := binary.NativeEndian.Uint64(r.a.mem); got != i {
				t.Fatalf("got %d before add %d, want %d", got, i, i)
			}
		}
	})
}

func TestLargeTransfersArriveOverUDP(t *testing.T) {
	da, db := udp(t, work.NewWorkqueue(2))
	s := standard()
	s.mem = 4 << 20
	r := newRig(t, da, db, s)
	const size = 2 << 20
	fill(r.a.mem[:size], 4)
	r.a.send(
		SendWR{ID: 1, Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, size)}, RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()},
		SendWR{ID: 2, Opcode: WRRDMARead, Flags: Signaled, SG: []SGE{r.a.mr.SGE(size, size)}, RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()})
	r.a.good(r.a.scq)
	r.a.good(r.a.scq)
	if !bytes.Equal(r.a.mem[size:], r.a.mem[:size]) {
		t.Error("got other bytes than were written")
	}
}
