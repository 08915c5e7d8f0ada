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
	b.Run("word", func(b *testing.B) { oneWay(b, new(flag), new(flag)) })
	b.Run("stream", func(b *testing.B) { oneWay(b, newPipe(b), newPipe(b)) })
	b.Run("queue", func(b *testing.B) { oneWay(b, newWay(b), newWay(b)) })
}

// A lane takes one message at a time from one goroutine to another.
type lane interface {
	send() bool
	receive() bool
}

func oneWay(b *testing.B, forth, back lane) {
	sent := false
	pingPong(b, func() bool {
		if !sent {
			sent = forth.send()
		}
		ok := back.receive()
		sent = sent && !ok
		return ok
	}, func() bool {
		if !forth.receive() {
			return false
		}
		for !back.send() {
		}
		return true
	})
}

// A flag is a word in a line of its own.
type flag struct {
	sent uint64
	_    [line]byte
	word atomic.Uint64
	_    [line]byte
	got  uint64
}

func (f *flag) send() bool {
	f.sent++
	f.word.Store(f.sent)
	return true
}

func (f *flag) receive() bool {
	if f.word.Load() == f.got {
		return false
	}
	f.got++
	return true
}

// A pipe is a stream.
type pipe struct {
	w        *Writer
	r        *Reader
	from, to [64]byte
}

func newPipe(b *testing.B) *pipe {
	p := new(pipe)
	p.w, p.r, _ = newStream(b, StreamLimits{Message: 64, Messages: 64, Bytes: 8192})
	return p
}

func (p *pipe) send() bool {
	ok, _ := p.w.Write(p.from[:])
	return ok
}

func (p *pipe) receive() bool {
	_, ok, _ := p.r.Read(p.to[:])
	return ok
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
