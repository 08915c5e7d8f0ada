package comch

import (
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
)

// A duplex is one side of a ping-pong: a consumer and a producer at one
// engine.
type duplex struct {
	in     *sink
	out    *source
	engine *core.Engine
	to     uint16
	tasks  []*ProducerSend // that are not in flight
	got    int
	seen   int // of these, by await
}

// newDuplexes makes both sides of a conversation of messages of n bytes, with
// so many receives and sends each.
func newDuplexes(t testing.TB, n, window int) (d [2]*duplex) {
	r := newFastRig(t)
	for side := range d {
		e := r.newEngine()
		d[side] = &duplex{engine: e, in: r.newSink(side, e, window, n*window), out: r.newSource(side, e, window, n*window)}
	}
	for side, x := range d {
		x.in.start()
		x.to = d[1-side].in.ID()
		x.in.onRecv = func(t *PostRecv) {
			x.got++
			if b := t.Buf(); b != nil {
				_ = b.ResetDataLen()
			}
			_ = t.Submit()
		}
		x.out.onSent = func(t *ProducerSend) { x.tasks = append(x.tasks, t) }
	}
	for side, x := range d {
		for i := range window {
			x.in.post(i*n, n)
			x.tasks = append(x.tasks, x.out.task(i*n, n, "", d[1-side].in.ID()))
		}
		r.Cleanup(func() {
			r.until("everything was sent", func() bool { return len(x.tasks) == window }, d[0].engine, d[1].engine)
			for _, task := range x.tasks {
				x.out.drop(task)
			}
		})
	}
	return d
}

// send submits a task if one is at hand and a receive is posted.
func (d *duplex) send() bool {
	n := len(d.tasks) - 1
	if n < 0 || d.tasks[n].Submit() != nil {
		return false
	}
	d.tasks = d.tasks[:n]
	return true
}

// sendOne progresses until it could send.
func (d *duplex) sendOne() {
	for !d.send() {
		d.engine.Progress()
	}
}

// await progresses until one more message has come.
func (d *duplex) await() {
	for d.seen++; d.got < d.seen; {
		d.engine.Progress()
	}
}

func TestMessagesAllocateNothing(t *testing.T) {
	for _, n := range []int{64, 64 << 10} {
		d := newDuplexes(t, n, 4)
		allocs.None(t, func() {
			for _, x := range d {
				x.send()
			}
			for range 4 {
				d[0].engine.Progress()
				d[1].engine.Progress()
			}
		})
		if d[0].got < 1000 || d[1].got < 1000 {
			t.Errorf("%d and %d messages came", d[0].got, d[1].got)
		}
	}
}

// BenchmarkOneWay is half the round trip of a message of 64 bytes between two
// polling engines on two CPUs, and, interleaved with it, of a word in a cache
// line, which is what the CPUs can do at best. Both are medians, which other
// load on the machine hardly moves.
func BenchmarkOneWay(b *testing.B) {
	d := newDuplexes(b, 64, 16)
	var ping, pong struct {
		_ [128]byte
		w atomic.Uint64
		_ [128]byte
	}
	const block = 1000
	rounds := (b.N + block - 1) / block
	over := make(chan struct{})
	go func() {
		defer close(over)
		runtime.LockOSThread()
		for round := range rounds {
			for i := range block {
				for ping.w.Load() != uint64(round*block+i+1) {
				}
				pong.w.Store(uint64(round*block + i + 1))
			}
			for range block {
				d[1].await()
				d[1].sendOne()
			}
		}
	}()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var word, message []time.Duration
	timed := func(to *[]time.Duration, f func(i int)) {
		last := time.Now()
		for i := range block {
			f(i)
			now := time.Now()
			*to = append(*to, now.Sub(last))
			last = now
		}
	}
	b.ResetTimer()
	for round := range rounds {
		timed(&word, func(i int) {
			ping.w.Store(uint64(round*block + i + 1))
			for pong.w.Load() != uint64(round*block+i+1) {
			}
		})
		timed(&message, func(int) {
			d[0].sendOne()
			d[0].await()
		})
	}
	<-over
	b.ReportMetric(half(word), "word-ns")
	b.ReportMetric(half(message), "message-ns")
	b.ReportMetric(half(message)/half(word), "ratio")
}

// half returns half the median, in nanoseconds.
func half(d []time.Duration) float64 {
	slices.Sort(d)
	return float64(d[len(d)/2].Nanoseconds()) / 2
}

// BenchmarkStream is one producer and one consumer, each on a CPU, interleaved
// with Go's copy over as many buffers. Both are medians: from the submit that
// is accepted to the completion, and of one copy.
func BenchmarkStream(b *testing.B) {
	for _, n := range []int{64, 4 << 10, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			const window = 16
			d := newDuplexes(b, n, window)
			over := make(chan struct{})
			go func() {
				defer close(over)
				runtime.LockOSThread()
				for d[1].got < b.N {
					d[1].engine.Progress()
				}
			}()
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			from, to := make([]byte, window*n), make([]byte, window*n)
			var copies, messages []time.Duration
			b.ResetTimer()
			for i := range b.N {
				begin := time.Now()
				copy(to[i%window*n:][:n], from[i%window*n:])
				copies = append(copies, time.Since(begin))
				for begin = time.Now(); !d[0].send(); begin = time.Now() {
				}
				for len(d[0].tasks) < window {
					d[0].engine.Progress()
				}
				messages = append(messages, time.Since(begin))
			}
			<-over
			b.ReportMetric(2*half(messages), "ns/message")
			b.ReportMetric(float64(n)/(2*half(messages)), "GB/s")
			b.ReportMetric(half(copies)/half(messages), "of-copy")
		})
	}
}

// BenchmarkOneCPU is the work of both sides for a message, without the way
// between two CPUs.
func BenchmarkOneCPU(b *testing.B) {
	d := newDuplexes(b, 64, 16)
	for b.Loop() {
		d[0].sendOne()
		d[1].await()
	}
}
