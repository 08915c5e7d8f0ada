package nic

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/work"
)

var start = time.Now()

// instant reads the monotonic clock: tens of nanoseconds, so it is read once
// per batch.
func instant() qp.Instant { return qp.Instant(time.Since(start)) + 1 }

// A tick is the time as whoever drives an inline executor last saw it. All
// devices that share the executor share it.
type tick struct {
	now   atomic.Int64
	users int
}

// ticks are the clocks of all inline executors in use.
var ticks struct {
	sync.Mutex
	of map[*work.Inline]*tick
}

// tickOf returns the clock of x. Give it back with dropTick.
func tickOf(x *work.Inline) *tick {
	ticks.Lock()
	defer ticks.Unlock()
	if ticks.of == nil {
		ticks.of = map[*work.Inline]*tick{}
	}
	t := ticks.of[x]
	if t == nil {
		t = new(tick)
		t.now.Store(int64(instant()))
		ticks.of[x] = t
	}
	t.users++
	return t
}

func dropTick(x *work.Inline) {
	ticks.Lock()
	defer ticks.Unlock()
	if t := ticks.of[x]; t != nil {
		if t.users--; t.users == 0 {
			delete(ticks.of, x)
		}
	}
}
