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
