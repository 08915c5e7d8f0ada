package verbs_test

import (
	"strconv"
	"testing"

	"github.com/gantry-rdma/gantry/roce"
	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

func benchRig(b *testing.B, x work.Executor, size int) *rig {
	da, db := pair(b, x)
	s := standard()
	s.mtu, s.mem = roce.MTU4096, 64*max(size, 64)
	return newRig(b, da, db, s)
}

// BenchmarkPost is what a post costs the one who posts.
func BenchmarkPost(b *testing.B) {
	r := benchRig(b, work.NewInline(), 64)
	wr := []SendWR{{Opcode: WRRDMAWrite, SG: []SGE{r.a.mr.SGE(0, 64)}, RemoteAddr: r.b.mr.Addr(), RKey: r.b.mr.RKey()}}
	var wc [16]WC
	b.ReportAllocs()
	for n := 0; b.Loop(); n++ {
		wr[0].Flags = 0
		if n%16 == 15 {
			wr[0].Flags = Signaled
		}
		if _, err := r.a.qp.PostSend(wr...); err != nil {
			b.Fatal(err)
		}
		if n%16 == 15 {
			b.StopTimer()
			for r.a.scq.Poll(wc[:]) == 0 {
			}
			b.StartTimer()
		}
	}
}

// BenchmarkSend is from post to both completions, with as many messages on
// their way as the name says.
func BenchmarkSend(b *testing.B) {
	for _, window := range []int{1, 16} {
		b.Run("window="+strconv.Itoa(window), func(b *testing.B) {
			r := benchRig(b, work.NewInline(), 64)
			send := []SendWR{{Opcode: WRSend, Flags: Signaled, SG: []SGE{r.a.mr.SGE(0, 64)}}}
			recv := []RecvWR{{SG: []SGE{r.b.mr.SGE(0, 64)}}}
			var wc [16]WC
			sent, done, got := 0, 0, 0
			b.ReportAllocs()
			for b.Loop() {
				for sent-done < window && sent-got < window {
					_, errR := r.b.qp.PostRecv(recv...)
					_, errS := r.a.qp.PostSend(send...)
					if errR != nil || errS != nil {
						b.Fatal(errR, errS)
					}
					sent++
				}
				for n := done; done == n; {
					done += r.a.scq.Poll(wc[:])
					got += r.b.cq.Poll(wc[:])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/message")
		})
	}
}

// BenchmarkWrite is the rate of WRITEs of 64 KiB, beside Go's copy of the same
// buffers.
func BenchmarkWrite(b *testing.B) {
	const size, window = 65536, 16
	for _, e := range executors {
		b.Run(e.name, func(b *testing.B) {
			x := e.make()
			r := benchRig(b, x, size)
			var wrs [64][]SendWR
			for i := range wrs {
				wrs[i] = []SendWR{{Opcode: WRRDMAWrite, Flags: Signaled, SG: []SGE{r.a.mr.SGE(i*size, size)},
					RemoteAddr: r.b.mr.Addr() + uint64(i*size), RKey: r.b.mr.RKey()}}
			}
			var wc [16]WC
			sent, done := 0, 0
			b.ReportAllocs()
			for b.Loop() {
				for sent-done < window {
					if _, err := r.a.qp.PostSend(wrs[sent%64]...); err != nil {
						b.Fatal(err)
					}
					sent++
				}
				for n := done; done == n; {
					done += r.a.scq.Poll(wc[:])
				}
			}
			// A loop completes as many as a poll brings.
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(done), "ns/message")
			b.ReportMetric(float64(done)*size/1e6/b.Elapsed().Seconds(), "MB/s")
		})
	}
	b.Run("copy", func(b *testing.B) {
		from, to := make([]byte, 64*size), make([]byte, 64*size)
		b.SetBytes(size)
		for n := 0; b.Loop(); n++ {
			copy(to[n%64*size:][:size], from[n%64*size:][:size])
		}
	})
}

// BenchmarkIdlePoll is a poll that finds nothing to do.
func BenchmarkIdlePoll(b *testing.B) {
	r := benchRig(b, work.NewInline(), 64)
	var wc [1]WC
	for b.Loop() {
		r.a.scq.Poll(wc[:])
	}
}
