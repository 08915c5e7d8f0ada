package mem

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/core"
)

func threadSafeMap(t testing.TB, n int) *Map {
	t.Helper()
	m := newMap(t, n)
	must(t, m.EnableThreadSafety())
	must(t, m.Start())
	return m
}

func TestThreadSafeMapStopsOnlyWithoutLoans(t *testing.T) {
	m, other := threadSafeMap(t, 64), threadSafeMap(t, 64)
	inv := startedInventory(t, 3)
	b := take(t, inv, m, 0, 8)
	if m.Bufs() != 0 {
		t.Errorf("%d bufs counted, want 0", m.Bufs())
	}
	must(t, b.Chain(take(t, inv, other, 0, 8)))
	must(t, b.Chain(take(t, inv, m, 0, 8)))
	must(t, b.Lend())
	checkCodes(t, []codeTest{
		{"stop while lent", m.Stop(), core.ErrNotPermitted},
		{"destroy while lent", m.Destroy(), core.ErrNotPermitted},
		{"stop the other while lent", other.Stop(), core.ErrNotPermitted},
	})
	b.Return()
	must(t, other.Stop())
	checkCodes(t, []codeTest{
		{"lend a list with memory of a stopped map", b.Lend(), core.ErrBadState},
		{"stop after a refused loan", m.Stop(), core.Success},
	})
	if b.Lent() || b.Next().Lent() {
		t.Error("a refused loan left elements lent")
	}
	must(t, m.Destroy())
	if old, err := b.Unref(); old != 1 || err != nil || inv.Free() != 3 {
		t.Errorf("drop after Destroy: %d, %v, %d free", old, err, inv.Free())
	}
}

// A loan and a Stop must never both succeed, or a worker would copy memory
// that is gone.
func TestLoansAndStopsExcludeEachOther(t *testing.T) {
	const enough = 30_000 // loans and stops
	m := threadSafeMap(t, 64)
	b := take(t, startedInventory(t, 1), m, 0, 8)
	var stopped, done atomic.Bool // stopped: the memory is as good as gone
	var loans atomic.Int64
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := 0; !done.Load(); {
			if b.Lend() != nil {
				continue
			}
			if stopped.Load() {
				t.Error("lent while the map was stopped")
				done.Store(true)
			}
			b.Return()
			if n++; n%1000 == 0 {
				loans.Store(int64(n))
			}
		}
	})
	for n := 0; (n < enough || loans.Load() < enough) && !done.Load(); {
		if m.Stop() == nil {
			stopped.Store(true)
			for range 100 {
				done.Load() // let the other side run into it
			}
			stopped.Store(false)
			must(t, m.Start())
			n++
		}
	}
	done.Store(true)
	wg.Wait()
	must(t, m.Stop())
}

func TestGoroutinesShareAThreadSafeMap(t *testing.T) {
	m := threadSafeMap(t, 4096)
	var wg sync.WaitGroup
	for g := range 4 {
		inv := startedInventory(t, 2)
		wg.Go(func() {
			for i := range 500 {
				b, err := inv.ByData(m, m.base+Addr(64*g), 64)
				if err != nil || b.Lend() != nil {
					t.Errorf("take and lend: %v", err)
					return
				}
				b.Data()[0] = byte(i)
				b.Return()
				if _, err := b.Unref(); err != nil {
					t.Errorf("Unref: %v", err)
				}
			}
		})
	}
	wg.Wait()
	must(t, m.Destroy())
}

// A worker reads the elements of a lent list while the engine's goroutine
// lends them again and returns that loan: only the race detector can fail this.
func TestWorkersReadLentBufs(t *testing.T) {
	m := startedMap(t, 64)
	b := takeList(t, startedInventory(t, 3), m, 3)[0]
	must(t, b.Lend())
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 200 {
			n := 0
			for e := b; e != nil; e = e.Next() {
				n += len(e.Data()) + len(e.TailBytes()) + e.Len()
			}
			if n != 48 {
				t.Errorf("read %d bytes, want 48", n)
			}
		}
	})
	for range 200 {
		if err := b.Lend(); err != nil {
			t.Error(err)
		}
		b.Return()
	}
	_, _ = b.Ref()
	_, _ = b.Unref()
	wg.Wait()
	b.Return()
}
