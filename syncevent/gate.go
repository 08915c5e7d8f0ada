package syncevent

import (
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/notify"
)

// A gate lets calls in while the event is started, and tells when all are out,
// so that the memory of the value cannot go away below one.
type gate struct {
	calls atomic.Int64 // those inside, and the bit open
}

const open = 1 << 62

// enter lets a call in. Every success needs a leave.
func (g *gate) enter() error {
	if g.calls.Add(1)&open == 0 {
		g.calls.Add(-1)
		return core.ErrBadState
	}
	return nil
}

func (g *gate) leave() { g.calls.Add(-1) }

// isOpen reports whether the event is started. Calls that last ask it.
func (g *gate) isOpen() bool { return g.calls.Load()&open != 0 }

func (g *gate) letIn() { g.calls.Add(open) }

// shut closes the gate and waits for the last call, which a wait makes last
// no longer than longestNap.
func (g *gate) shut() {
	if !g.isOpen() {
		return
	}
	for n := g.calls.Add(-open); n != 0; n = g.calls.Load() {
		notify.Nap(10 * time.Microsecond)
	}
}
