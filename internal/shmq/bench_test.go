package shmq

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
)

func TestStreamAllocatesNothing(t *testing.T) {
	w, r, _ := newStream(t, StreamLimits{Message: 64, Messages: 8, Bytes: 512})
	p := make([]byte, 64)
	allocs.None(t, func() {
		_, _ = w.Write(p)
		_ = w.Reader().Take()
		_, _, _ = r.Read(p)
		_ = r.Writer().Take()
		_, _ = w.Unread()
	})
}

func TestQueueAllocatesNothing(t *testing.T) {
	s, r, _ := newQueue(t, 8, 1000)
	imm := make([]byte, MaxImmData)
	var a Arrival
	allocs.None(t, func() {
		r.Post(3, 0, 100)
		c, _, _ := s.Peek()
		s.Claim()
		s.Arrive(c.Slot, 100, 1, imm)
		_ = s.Receiver().Take()
		_, _ = r.Next(&a)
	})
}

// pingPong times b.N round trips between two goroutines on two CPUs and
// reports half of one. Each side is a step that reports whether it did its
// part.
func pingPong(b *testing.B, there, back func() bool) {
	if runtime.GOMAXPROCS(0) < 2 {
		b.Skip("needs two CPUs")
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread()
		for range b.N {
			for !back() {
			}
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	b.ResetTimer()
	for range b.N {
		for !there() {
		}
	}
	<-over
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(2*b.N), "ns/way")
}

// BenchmarkOneWay compares a message of 64 bytes through a queue and through a
// stream with the least that two CPUs can do: a word each way.
func BenchmarkOneWay(b *testing.B) {
	b.Run("word", func(b *testing.B) {
		w, _ := words(memory(4096), 4096)
		var a, c uint64
		var ping, pong *atomic.Uint64 = &w[128], &w[256]
		sent := false
		pingPong(b, func() bool {
			if !sent {
				a++
				ping.Store(a)
				sent = true
			}
			if pong.Load() != a {
				return false
			}
			sent = false
			return true
		}, func() bool {
			if ping.Load() != c+1 {
				return false
			}
			c++
			pong.Store(c)
			return true
		})
	})
	b.Run("stream", func(b *testing.B) {
		l := StreamLimits{Message: 64, Messages: 64, Bytes: 8192}
		w1, r1, _ := newStream(b, l)
		w2, r2, _ := newStream(b, l)
		p, q := make([]byte, 64), make([]byte, 64)
		sent := false
		pingPong(b, func() bool {
			if !sent {
				sent, _ = w1.Write(p)
			}
			_, ok, _ := r2.Read(p)
			sent = sent && !ok
			return ok
		}, func() bool {
			_, ok, _ := r1.Read(q)
			if ok {
				_, _ = w2.Write(q)
			}
			return ok
		})
	})
	b.Run("queue", func(b *testing.B) {
		near, far := newWay(b), newWay(b)
		sent := false
		pingPong(b, func() bool {
			if !sent {
				sent = near.send()
			}
			ok := far.receive()
			sent = sent && !ok
			return ok
		}, func() bool {
			if !near.receive() {
				return false
			}
			for !far.send() {
			}
			return true
		})
	})
}

// A way is a queue with the receives that it fills: 64 bytes each.
type way struct {
	s        *Sender
	r        *Receiver
	room     []byte
	from, to [64]byte
}

func newWay(b *testing.B) *way {
	const depth = 16
	w := &way{room: memory(64 * depth)}
	w.s, w.r, _ = newQueue(b, depth, uint64(len(w.room)))
	for i := range depth {
		w.r.Post(i, uint64(64*i), 64)
	}
	return w
}

func (w *way) send() bool {
	c, ok, _ := w.s.Peek()
	if ok {
		w.s.Claim()
		copy(w.room[c.Off:][:64], w.from[:])
		w.s.Arrive(c.Slot, 64, 1, nil)
		_ = w.s.Receiver().Take()
	}
	return ok
}

func (w *way) receive() bool {
	var a Arrival
	ok, _ := w.r.Next(&a)
	if ok {
		copy(w.to[:], w.room[64*a.Slot:])
		w.r.Post(a.Slot, uint64(64*a.Slot), 64)
		_ = w.r.Credit().Take()
	}
	return ok
}

func BenchmarkQueueOneCPU(b *testing.B) {
	w := newWay(b)
	for b.Loop() {
		w.send()
		w.receive()
	}
}
