package ring

import (
	"runtime"
	"sync"
	"testing"
)

func BenchmarkSPSCPushPop(b *testing.B) {
	r := NewSPSC[uint64](64)
	for b.Loop() {
		r.Push(1)
		r.Pop()
	}
}

func BenchmarkMPMCPushPop(b *testing.B) {
	r := NewMPMC[uint64](64)
	for b.Loop() {
		r.Push(1)
		r.Pop()
	}
}

func BenchmarkSPSCEmpty(b *testing.B) {
	r := NewSPSC[uint64](64)
	n := 0
	for b.Loop() {
		if r.Empty() {
			n++
		}
	}
}

// BenchmarkSPSCStream is the cost of a value from one goroutine to another.
func BenchmarkSPSCStream(b *testing.B) {
	r := NewSPSC[uint64](1024)
	stream(b, func(v uint64) bool { return r.Push(v) }, func() bool { _, ok := r.Pop(); return ok })
}

func BenchmarkMPMCStream(b *testing.B) {
	r := NewMPMC[uint64](1024)
	stream(b, func(v uint64) bool { return r.Push(v) }, func() bool { _, ok := r.Pop(); return ok })
}

func BenchmarkChannelStream(b *testing.B) {
	c := make(chan uint64, 1024)
	stream(b, func(v uint64) bool { c <- v; return true }, func() bool { <-c; return true })
}

func stream(b *testing.B, push func(uint64) bool, pop func() bool) {
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := range b.N {
			for !push(uint64(n)) {
				runtime.Gosched()
			}
		}
	})
	for range b.N {
		for !pop() {
			runtime.Gosched()
		}
	}
	wg.Wait()
}
