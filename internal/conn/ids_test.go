package conn

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/mad"
)

// TestIdentifiersAreNotUsedTwice draws the same numbers again and again: 0 and
// those that connections have, in time-wait too, are passed over.
func TestIdentifiersAreNotUsedTwice(t *testing.T) {
	drawn, at := []uint64{0, 5, 0, 5, 5, 6, 0, 5, 6, 7}, 0
	a := New(Config{Addr: addrs["A"], Random: func() uint64 { at++; return drawn[(at-1)%len(drawn)] }}, deaf{})
	seen := map[uint32]bool{}
	for range 3 {
		c, err := a.Connect(&Call{To: addrs["B"], Service: mad.Service(mad.SpaceTCP, 7), Terms: Terms{AckTimeout: 20}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if c.ID() == 0 || seen[c.ID()] {
			t.Errorf("got identifier %d again", c.ID())
		}
		seen[c.ID()] = true
		c.Close(1)
		if c.State() != TimeWait {
			t.Errorf("got %v, want %v", c.State(), TimeWait)
		}
	}
}
