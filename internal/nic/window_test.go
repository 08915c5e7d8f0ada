package nic

import (
	"sync"
	"testing"

	"github.com/gantry-rdma/gantry/internal/qp"
)

// While a window is bound again and again, a key opens what it was bound to with
// that key, or nothing; and as many windows count as bound as there are.
func TestAWindowIsNeverSeenHalfBound(t *testing.T) {
	b := newBench(t)
	const size = 64
	rights := qp.LocalWrite | qp.BindWindow
	var mrs [2]*MR
	for i := range mrs {
		var err error
		if mrs[i], err = b.pd.Register(make([]byte, size), rights); err != nil {
			t.Fatal(err)
		}
	}
	w, err := b.pd.NewMW(WindowType1)
	if err != nil {
		t.Fatal(err)
	}
	k := &b.d.keys
	first := w.Key()
	keyOf := func(n int) uint32 { return first&^0xff | uint32(n&1) }
	const binds = 20_000
	var all sync.WaitGroup
	all.Go(func() {
		for n := range binds {
			mr := mrs[n&1]
			ok := k.bind(b.q, &qp.Binding{Window: first, Key: keyOf(n), LKey: mr.Key(), Addr: mr.Addr(), Len: size, Access: qp.RemoteRead})
			if !ok {
				t.Errorf("got bind %d refused", n)
				return
			}
			if n%5 == 0 && !k.bind(b.q, &qp.Binding{Window: first, Key: keyOf(n)}) {
				t.Errorf("got the window not taken back before bind %d", n+1)
				return
			}
		}
	})
	for range 2 {
		all.Go(func() {
			for n := range binds {
				mr := mrs[n&1]
				mem, fault := k.openRemote(b.q, keyOf(n), mr.Addr(), size, qp.RemoteRead)
				if fault == keyGood && &mem[0] != &mr.Bytes()[0] || fault != keyGood && fault != keyStale {
					t.Errorf("got fault %d and memory at %p for key %d", fault, mem, n&1)
					return
				}
			}
		})
	}
	all.Wait()
	if last := (binds - 1) & 1; mrs[last].windows != 1 || mrs[1-last].windows != 0 {
		t.Errorf("got %d and %d windows bound, want 1 and 0", mrs[last].windows, mrs[1-last].windows)
	}
	if err := w.Dealloc(); err != nil {
		t.Fatal(err)
	}
	for _, mr := range mrs {
		if err := mr.Deregister(); err != nil {
			t.Errorf("got error %v for a region whose window is gone", err)
		}
	}
}

func TestThereAreOnlySoManyWindows(t *testing.T) {
	b := newBench(t)
	b.d.limits.MW, b.d.limits.MR = 2, 2 // one region is there
	var windows []*MW
	for range 2 {
		w, err := b.pd.NewMW(WindowType2)
		if err != nil {
			t.Fatal(err)
		}
		windows = append(windows, w)
	}
	if _, err := b.pd.NewMW(WindowType2); err == nil {
		t.Error("got a third window, the limit is 2")
	}
	mr, err := b.pd.Register(make([]byte, 8), 0)
	if err != nil {
		t.Errorf("got error %v for a second region beside two windows, the limit is 2", err)
	}
	if _, err := b.pd.Register(make([]byte, 8), 0); err == nil {
		t.Error("got a third region, the limit is 2")
	}
	for _, w := range windows {
		if err := w.Dealloc(); err != nil {
			t.Error(err)
		}
	}
	if err := mr.Deregister(); err != nil {
		t.Error(err)
	}
	if _, err := b.pd.NewMW(WindowType2); err != nil {
		t.Errorf("got error %v when windows were given up", err)
	}
}
