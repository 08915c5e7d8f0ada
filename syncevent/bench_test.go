package syncevent

import (
	"testing"
)

func BenchmarkGet(b *testing.B) {
	e := startEvent(b)
	for b.Loop() {
		_, _ = e.Get()
	}
}

func BenchmarkAdd(b *testing.B) {
	e := startEvent(b)
	for b.Loop() {
		_, _ = e.Add(1)
	}
}

// BenchmarkIdleProgress is a call that finds a waiting task and no new value.
func BenchmarkIdleProgress(b *testing.B) {
	r := newRig(b, newEvent(b, openDevice(b)))
	r.waitFor(1, Equal, 1, all)
	for b.Loop() {
		r.engine.Progress()
	}
}

// BenchmarkNotifyAdd is a task from its allocation to its end.
func BenchmarkNotifyAdd(b *testing.B) {
	r := newRig(b, newEvent(b, openDevice(b)))
	for b.Loop() {
		r.done = r.done[:0]
		x, _ := r.AllocNotifyAdd(1)
		_ = x.Submit()
		r.engine.Progress()
	}
}

// BenchmarkPingPong is a round between two goroutines, each of which waits for
// the other.
func BenchmarkPingPong(b *testing.B) {
	for _, w := range waits {
		b.Run(w.name, func(b *testing.B) {
			e := startEvent(b)
			ctx := b.Context()
			go func() {
				for i := uint64(1); w.wait(e, ctx, Equal, i, all) == nil; i += 2 {
					_ = e.Set(i + 1)
				}
			}()
			i := uint64(0)
			for b.Loop() {
				_ = e.Set(i + 1)
				i += 2
				_ = w.wait(e, ctx, Equal, i, all)
			}
		})
	}
}
