package nic

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
)

// fed gives a path what one send half learned, at a time.
func fed(p *path, own int64, f qp.Feedback, now qp.Instant) int64 { return p.heed(&f, own, now, 1000) }

func TestAPathDoublesUpToTheGuessAndThenGrowsByOne(t *testing.T) {
	p := newPaths(200).to(frame.Addr{})
	own := fed(p, 0, qp.Feedback{Out: 64}, 1)
	if own = fed(p, own, qp.Feedback{Out: 128, Acked: 64}, 2); p.allowed.Load() != 128 {
		t.Errorf("%d allowed after a round trip, want 128", p.allowed.Load())
	}
	if own = fed(p, own, qp.Feedback{Out: 200, Acked: 128}, 3); p.allowed.Load() != 200 {
		t.Errorf("%d allowed, want 200", p.allowed.Load())
	}
	if fed(p, own, qp.Feedback{Out: 200, Acked: 200}, 4); p.allowed.Load() != 201 {
		t.Errorf("%d allowed after one more, want 201", p.allowed.Load())
	}
}

func TestAPathThatIsNotUsedDoesNotGrow(t *testing.T) {
	p := newPaths(200).to(frame.Addr{})
	fed(p, 0, qp.Feedback{Out: 31, Acked: 100}, 1)
	if p.allowed.Load() != 64 {
		t.Errorf("%d allowed, want 64", p.allowed.Load())
	}
}

func TestWhatIsLostTogetherShrinksAPathOnce(t *testing.T) {
	p := newPaths(1000).to(frame.Addr{})
	lost := qp.Feedback{Out: 30, Lost: true, Trip: 100}
	own := fed(p, 0, lost, 1000)
	for now := qp.Instant(1001); now < 1100; now++ {
		own = fed(p, own, lost, now)
	}
	if p.allowed.Load() != 44 {
		t.Errorf("%d allowed after one loss of many packets, want 44", p.allowed.Load())
	}
	for now := qp.Instant(2000); now < 20000; now += 1000 {
		own = fed(p, own, lost, now)
	}
	if p.allowed.Load() != leastAllowed {
		t.Errorf("%d allowed, want %d at least", p.allowed.Load(), leastAllowed)
	}
}

func TestShareLeavesRoomForWhatOthersHaveOut(t *testing.T) {
	p := newPaths(1000).to(frame.Addr{})
	for _, c := range []struct{ halves, others, own, want int64 }{
		{1, 0, 0, 64}, {2, 0, 0, 32}, {2, 50, 0, 14}, {2, 50, 10, 14}, {100, 0, 0, leastWindow}, {100, 61, 0, 3}, {1, 64, 0, 1},
	} {
		p.out.Store(c.others + c.own)
		if got := p.share(c.halves, c.own); got != c.want {
			t.Errorf("%d of %d halves, %d out besides: got %d, want %d", c.own, c.halves, c.others, got, c.want)
		}
	}
}

func TestAddressesHavePathsOfTheirOwn(t *testing.T) {
	ps := newPaths(100)
	seen := map[*path]bool{}
	for last := range byte(32) {
		seen[ps.to(frame.Addr{IP: [16]byte{10: 255, 11: 255, 12: 127, 15: last}})] = true
	}
	if len(seen) < 20 {
		t.Errorf("32 addresses have %d paths", len(seen))
	}
}
