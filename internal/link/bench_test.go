package link

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
)

type discard struct{}

func (discard) FrameBack(*frame.Frame) {}

func BenchmarkMemory(b *testing.B) {
	x, y := NewPair(PairConfig{})
	defer x.Close()
	frames, got := make([]*frame.Frame, 16), make([]*frame.Frame, 16)
	for i := range frames {
		frames[i] = &frame.Frame{HeadLen: 12, Owner: discard{}}
	}
	b.ReportAllocs()
	for b.Loop() {
		for _, f := range frames {
			f.Peer = y.Local()
		}
		x.Send(frames)
		n := y.Recv(got)
		y.Give(got[:n])
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/16, "ns/frame")
}

// BenchmarkUDP moves full packets over loopback from one goroutine: send a
// batch, receive it, give it back.
func BenchmarkUDP(b *testing.B) {
	for _, c := range []struct {
		name  string
		size  int
		batch int
		plain bool
	}{
		{"4096 bytes, cut and merged", 4096, 16, false},
		{"4096 bytes, plain", 4096, 16, true},
		{"64 bytes, cut and merged", 64, 16, false},
		{"64 bytes, one by one", 64, 1, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			x, y := udpEnds(b, "127.0.0.1", UDPConfig{Plain: c.plain})
			var pool sendPool
			frames := make([]*frame.Frame, c.batch)
			for i := range frames {
				frames[i] = pool.frame(y.Local(), i, c.size, 1)
				frames[i].Owner = discard{}
			}
			got := make([]*frame.Frame, 64)
			b.SetBytes(int64(c.size * c.batch))
			b.ReportAllocs()
			for b.Loop() {
				for sent, came := x.Send(frames), 0; came < sent; {
					n := y.Recv(got)
					y.Give(got[:n])
					came += n
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*c.batch), "ns/frame")
			if s := y.Stats(); s.BadICRC > 0 || s.Solved > 0 {
				b.Errorf("%+v", s)
			}
		})
	}
}
