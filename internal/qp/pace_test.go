package qp

import (
	"testing"

	"github.com/gantry-rdma/gantry/roce"
)

// TestAWaitWhoseEndIsNoticedLateIsProlongedOnce: after a stall of the machine the
// answer may be there already, behind the clock.
func TestAWaitWhoseEndIsNoticedLateIsProlongedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		late Instant
		sent int // the packet again, when its wait is over
	}{"punctual": {lateness, 1}, "late": {lateness + 1, 0}} {
		h := newHost(t, "A", 4)
		h.register(make([]byte, 8192), LocalWrite)
		h.s.Start(SenderConfig{MTU: roce.MTU256, Timeout: 14, RetryCount: 7})
		h.post(write(0, 8))
		h.s.Step(1, 8)
		h.takeOut()
		now := h.s.Deadline() + c.late
		h.s.Step(now, 8)
		if n := len(h.takeOut()); n != c.sent {
			t.Errorf("%s: %d packets sent again, want %d", name, n, c.sent)
		}
		if c.sent > 0 {
			continue
		}
		if at := h.s.Deadline(); at != now+respite {
			t.Errorf("%s: goes on at %d, want %d", name, at, now+respite)
		}
		h.s.Step(now+respite+10*lateness, 8)
		if n := len(h.takeOut()); n != 1 {
			t.Errorf("%s, and late again: %d packets sent again, want 1", name, n)
		}
	}
}
