package work

import (
	"fmt"
	"runtime"
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

// BenchmarkWakeRun is the time from a wake to its run on a worker, seen by a
// waker that spins for it: first with a worker that searches, then with one
// that is parked.
func BenchmarkWakeRun(b *testing.B) {
	for _, x := range []Executor{NewTasklet(), NewWorkqueue(2)} {
		b.Run(x.String()+"/searching", func(b *testing.B) {
			for b.Loop() {
				wakeAndWait(x)
			}
		})
		x.Close()
	}
	x := new(Workqueue)
	x.pool.start(1, 1, Budget, 0)
	defer x.Close()
	b.Run("workqueue(1)/parked", func(b *testing.B) {
		for b.Loop() {
			for x.pool.rest.Load() != parked {
				runtime.Gosched()
			}
			wakeAndWait(x)
		}
	})
}

func wakeAndWait(x Executor) {
	var ran atomic.Bool
	var i Item
	i.Init(x, func(int) bool { ran.Store(true); return false })
	i.Wake()
	for !ran.Load() {
	}
}

// A worked item has a buffer that each of its runs goes over.
type worked struct {
	Item
	left int
	buf  [4096]byte
}

// work is about 50 ns for each unit.
func (w *worked) work(units int) (last bool) {
	for range units {
		for k := range w.buf[:64] {
			w.buf[k]++
		}
	}
	w.left--
	return w.left <= 0
}

// BenchmarkBusy is the cost of a run when many items always want more.
func BenchmarkBusy(b *testing.B) {
	compare(b, func(b *testing.B, x Executor, n, units int) {
		items := make([]worked, n)
		var done sync.WaitGroup
		done.Add(n)
		for k := range items {
			w := &items[k]
			w.left = b.N/n + 1
			w.Init(x, func(int) bool {
				last := w.work(units)
				if last {
					done.Done()
				}
				return !last
			})
		}
		b.ResetTimer()
		for k := range items {
			items[k].Wake()
		}
		done.Wait()
	})
}

// BenchmarkPairs is the cost of a run when items wake each other in pairs, as
// the two sides of a connection do.
func BenchmarkPairs(b *testing.B) {
	compare(b, func(b *testing.B, x Executor, n, units int) {
		items := make([][2]worked, n)
		var done sync.WaitGroup
		done.Add(n)
		for k := range items {
			here, there := &items[k][0], &items[k][1]
			here.left = b.N/n/2 + 1
			here.Init(x, func(int) bool {
				if here.work(units) {
					done.Done()
				} else {
					there.Wake()
				}
				return false
			})
			there.Init(x, func(int) bool {
				there.work(units)
				here.Wake()
				return false
			})
		}
		b.ResetTimer()
		for k := range items {
			items[k][0].Wake()
		}
		done.Wait()
	})
}

func compare(b *testing.B, f func(b *testing.B, x Executor, n, units int)) {
	for _, n := range []int{1, 16, 256} {
		for _, units := range []int{1, 10} {
			for _, x := range []Executor{NewTasklet(), NewWorkqueue(1), NewWorkqueue(2)} {
				name := fmt.Sprintf("items=%d/units=%d/%v", n, units, x)
				b.Run(name, func(b *testing.B) { f(b, x, n, units) })
				x.Close()
			}
		}
	}
}
