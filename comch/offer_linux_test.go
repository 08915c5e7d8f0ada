package comch

import (
	"errors"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/shmq"
	"golang.org/x/sys/unix"
)

// TestAnImpossibleOfferIsRefusedBeforeAnythingIsMapped offers the ends of a
// pipe, which cannot be mapped: whoever tries has another error.
func TestAnImpossibleOfferIsRefusedBeforeAnythingIsMapped(t *testing.T) {
	queue := uint64(shmq.QueueSize(4))
	for what, x := range map[string]struct {
		offer
		impossible bool
	}{
		"all is right":            {offer{queue: queue, memory: 4096, receives: 4, imm: maxImmData}, false},
		"a queue too large":       {offer{queue: queue + 4096, memory: 4096, receives: 4}, true},
		"a queue too small":       {offer{queue: queue - 8, memory: 4096, receives: 4}, true},
		"an endless queue":        {offer{queue: 1 << 63, memory: 4096, receives: 4}, true},
		"no queue":                {offer{memory: 4096, receives: 4}, true},
		"no receives":             {offer{queue: uint64(shmq.QueueSize(0)), memory: 4096}, true},
		"too many receives":       {offer{queue: uint64(shmq.QueueSize(maxReceives + 1)), memory: 4096, receives: maxReceives + 1}, true},
		"too much immediate data": {offer{queue: queue, memory: 4096, receives: 4, imm: maxImmData + 1}, true},
		"endless memory":          {offer{queue: queue, memory: 1 << 63, receives: 4}, true},
	} {
		before := descriptors(t)
		var pipe [2]int
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		got, err := newConnection(&control{}).mapRemote(x.offer, pipe[:])
		if got != nil || err == nil || errors.Is(err, core.ErrInvalidValue) != x.impossible {
			t.Errorf("%s: got %v, want it to be refused for the offer: %v", what, err, x.impossible)
		}
		if n := descriptors(t); n != before {
			t.Errorf("%s: %d descriptors are open of %d", what, n, before)
		}
	}
}
