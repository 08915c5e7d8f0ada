package mem

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
)

func TestBufVerbsAllocateNothing(t *testing.T) {
	m, inv := newMap(t, 64), startedInventory(t, 4)
	d := openDevice(t, 0)
	must(t, m.AddDevice(d))
	must(t, m.Start())
	defer m.Destroy()
	at := m.base
	src, dst := take(t, inv, m, 0, 8), take(t, inv, m, 8, 8)
	drop := func(b *Buf, err error) {
		if err != nil {
			t.Fatal(err)
		}
		_, _ = b.Unref()
	}
	for name, f := range map[string]func(){
		"take by address": func() { drop(inv.ByAddr(m, at, 8)) },
		"take by data":    func() { drop(inv.ByData(m, at, 8)) },
		"take by args":    func() { drop(inv.ByArgs(m, at, 8, at+1, 2)) },
		"duplicate":       func() { drop(inv.Dup(src)) },
		"refused take":    func() { _, _ = inv.ByAddr(m, at+60, 8) },
		"reuse":           func() { _ = inv.ReuseByArgs(src, at, 8, at+1, 2) },
		"refused reuse":   func() { _ = inv.ReuseByAddr(src, at+60, 8) },
		"set data":        func() { _ = src.SetData(at, 4); _ = src.SetDataLen(2); _ = src.ResetDataLen(); _ = src.Grow(4) },
		"refused data":    func() { _ = src.SetData(at, 9); _ = src.SetDataAt(9, 9) },
		"read":            func() { _, _, _ = src.Data(), src.TailBytes(), src.Head() },
		"reference":       func() { _, _ = src.Ref(); _, _ = src.Unref() },
		"chain":           func() { _ = src.Chain(dst); _, _ = src.ListLen(); _, _ = src.Last(); _ = src.Unchain(dst) },
		"lend":            func() { _ = src.Lend(); src.Return() },
		"lend to write":   func() { _ = src.LendToWrite(); src.Return() },
		"lend a list":     func() { _ = src.Chain(dst); _ = src.Lend(); src.Return(); _ = src.Unchain(dst) },
		"refused change":  func() { _ = src.Lend(); _ = src.ResetDataLen(); src.Return() },
		"questions":       func() { _, _, _, _ = m.HasDevice(d), m.Started(), m.Access(), m.Faulting() },
	} {
		t.Run(name, func(t *testing.T) { allocs.None(t, f) })
	}
}

func TestEmptyInventoryAllocatesNothing(t *testing.T) {
	m, inv := startedMap(t, 64), startedInventory(t, 1)
	take(t, inv, m, 0, 8)
	allocs.None(t, func() { _, _ = inv.ByAddr(m, m.base, 8) })
}

func TestPoolAllocAllocatesNothing(t *testing.T) {
	m := startedMap(t, 64)
	p := newPool(t, 2, 16, m)
	must(t, p.Start())
	allocs.None(t, func() {
		b, _ := p.Alloc()
		_, _ = b.Unref()
	})
}

func TestThreadSafeLendAllocatesNothing(t *testing.T) {
	m, inv := newMap(t, 64), startedInventory(t, 2)
	must(t, m.EnableThreadSafety())
	must(t, m.Start())
	b := take(t, inv, m, 0, 8)
	allocs.None(t, func() { _ = b.Lend(); b.Return() })
	must(t, m.Stop())
	allocs.None(t, func() { _ = b.Lend() })
}
