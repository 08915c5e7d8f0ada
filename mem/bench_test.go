package mem

import "testing"

// What a task costs in this package: two bufs are lent and returned; and what
// it costs when it takes its bufs anew.
func BenchmarkBuf(b *testing.B) {
	m := startedMap(b, 4096)
	inv := startedInventory(b, 4)
	src, dst := take(b, inv, m, 0, 64), take(b, inv, m, 64, 64)
	b.Run("lend and return two", func(b *testing.B) {
		for b.Loop() {
			_ = src.Lend()
			_ = dst.LendToWrite()
			dst.Return()
			src.Return()
		}
	})
	b.Run("take and drop", func(b *testing.B) {
		at := m.base
		for b.Loop() {
			buf, _ := inv.ByData(m, at, 64)
			_, _ = buf.Unref()
		}
	})
	b.Run("reuse", func(b *testing.B) {
		at := m.base
		for b.Loop() {
			_ = inv.ReuseByAddr(src, at, 64)
		}
	})
	b.Run("chain and unchain", func(b *testing.B) {
		for b.Loop() {
			_ = src.Chain(dst)
			_ = src.Unchain(dst)
		}
	})
}

// The same in a thread-safe map, where a loan is an atomic.
func BenchmarkThreadSafeLend(b *testing.B) {
	m := newMap(b, 4096)
	must(b, m.EnableThreadSafety())
	must(b, m.Start())
	buf := take(b, startedInventory(b, 1), m, 0, 64)
	for b.Loop() {
		_ = buf.Lend()
		buf.Return()
	}
}
