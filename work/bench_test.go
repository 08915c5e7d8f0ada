package work

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
)

func BenchmarkInlineWakeAndDrive(b *testing.B) {
	x := NewInline()
	var i Item
	i.Init(x, func(int) bool { return false })
	for b.Loop() {
		i.Wake()
		x.Drive(0)
	}
}

func BenchmarkWakeQueued(b *testing.B) {
	x := NewInline()
	var i Item
	i.Init(x, func(int) bool { return false })
	i.Wake()
	for b.Loop() {
		i.Wake()
	}
}

func BenchmarkInlineReady(b *testing.B) {
	x := NewInline()
	ready := 0
	for b.Loop() {
		if x.Ready() {
			ready++
		}
	}
}

// BenchmarkWakeRun is the time from a wake to its run on another goroutine,
// seen by a waker that spins for it.
func BenchmarkWakeRun(b *testing.B) {
	for _, x := range []Executor{NewTasklet(), NewWorkqueue(1), NewWorkqueue(2)} {
		b.Run(x.String(), func(b *testing.B) {
			var ran atomic.Uint64
			var i Item
			i.Init(x, func(int) bool { ran.Add(1); return false })
			for b.Loop() {
				n := ran.Load()
				i.Wake()
				for ran.Load() == n {
				}
			}
		})
		x.Close()
	}
}

// BenchmarkItems is the cost of one run when many items are always busy, each
// run doing some work of its own.
func BenchmarkItems(b *testing.B) {
	for _, x := range []Executor{NewTasklet(), NewWorkqueue(1), NewWorkqueue(2)} {
		for _, n := range []int{1, 16, 256} {
			b.Run(x.String()+"/items="+strconv.Itoa(n), func(b *testing.B) { manyItems(b, x, n) })
		}
		x.Close()
	}
}

func manyItems(b *testing.B, x Executor, n int) {
	var left atomic.Int64
	left.Store(int64(b.N))
	var done sync.WaitGroup
	done.Add(n)
	items := make([]Item, n)
	for k := range items {
		var buf [256]byte
		items[k].Init(x, func(int) bool {
			for j := range buf {
				buf[j] += byte(j)
			}
			if left.Add(-1) < 0 {
				done.Done()
				return false
			}
			return true
		})
	}
	b.ResetTimer()
	for k := range items {
		items[k].Wake()
	}
	done.Wait()
}
