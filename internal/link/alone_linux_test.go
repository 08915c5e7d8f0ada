package link

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// An acknowledgement leaves with the packets before it, but not in the datagram
// of a lone one that somebody waits for.
func TestALonePacketDoesNotShareItsDatagramWithAnAcknowledgement(t *testing.T) {
	for _, c := range []struct {
		sizes  []int // of the packets before the acknowledgement
		merged uint64
	}{{[]int{64}, 0}, {[]int{64, 64}, 3}, {[]int{0}, 2}, {[]int{64, 32}, 2}} {
		a, b := udpEnds(t, "127.0.0.1", UDPConfig{})
		if !a.send.cut {
			t.Skip("the kernel does not cut sends")
		}
		var pool sendPool
		var all []*frame.Frame
		for i, n := range append(c.sizes, 0) {
			all = append(all, pool.frame(b.Local(), i, n, min(n, 1)))
		}
		last := all[len(all)-1]
		last.HeadLen = uint8(roce.Build(&last.Head, roce.RCAck).Len())
		if c.sizes[0] == 0 {
			all[0].HeadLen = uint8(roce.Build(&all[0].Head, roce.RCAck).Len())
		}
		if n := a.Send(all); n != len(all) {
			t.Fatalf("packets of %v bytes and an acknowledgement: sent %d, want all", c.sizes, n)
		}
		if s := a.Stats(); s.SentMerged != c.merged || s.SentCalls != 1 || s.SentFrames != uint64(len(all)) {
			t.Errorf("packets of %v bytes and an acknowledgement: %d of %d merged, %d calls; want %d, in one call",
				c.sizes, s.SentMerged, s.SentFrames, s.SentCalls, c.merged)
		}
	}
}
