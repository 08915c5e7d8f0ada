package link

import (
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
)

// References to a buffer are counted for many packets at once: none may be
// lost where frames of several buffers come back together, mixed.
func TestBuffersComeBackWithFramesOfOthers(t *testing.T) {
	const size, each, all = 1000, 3, 3 // bytes, packets of a message, buffers held
	a, b := udpEnds(t, "127.0.0.1", UDPConfig{Buffers: all + 1})
	if !a.send.cut {
		t.Skip("the kernel does not cut sends, nor merge them")
	}
	for round := range 4 * all {
		var pool sendPool
		held := make([]*frame.Frame, 0, all*each)
		for m := range all {
			var run []*frame.Frame
			for i := range each {
				run = append(run, pool.frame(b.Local(), round*all*each+m*each+i, size, 1))
			}
			if n := a.Send(run); n != each {
				t.Fatalf("round %d: sent %d, want %d", round, n, each)
			}
			for end := time.Now().Add(limit); len(held) < (m+1)*each; {
				n := b.Recv(held[len(held):cap(held)])
				if held = held[:len(held)+n]; time.Now().After(end) {
					t.Fatalf("round %d: got %d frames, want %d: %+v", round, len(held), (m+1)*each, b.Stats())
				}
			}
		}
		for i, f := range held {
			if why := intact(f, round*all*each+i, size); why != "" {
				t.Fatalf("round %d: %s", round, why)
			}
		}
		if round%2 == 1 { // one of each buffer after the other
			for i := range held {
				b.Give(held[i%all*each+i/all:][:1:1])
			}
			continue
		}
		b.Give(held)
	}
	if s := b.Stats(); s.NoBuffer != 0 {
		t.Errorf("ran out of buffers: %+v", s)
	}
}
