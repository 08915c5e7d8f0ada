package perf

import (
	"sync/atomic"
	"time"
)

// A guard ends another process that stands still while this one waits for it:
// memory that both share says nothing of a process that is stopped, and so a
// measurement would wait for ever. It counts ticks and not the time, so that
// what passes while both are stopped, as by Ctrl-Z, is not held against anybody.
type guard struct {
	waits atomic.Uint64 // odd while this process waits
}

// guardTicks of guardTick are how long a wait may take. They are answerTime.
const (
	guardTick  = time.Second
	guardTicks = int(answerTime / guardTick)
)

// wait begins a wait, which over ends. Waits are not nested.
func (g *guard) wait() { g.waits.Add(1) }

func (g *guard) over() { g.waits.Add(1) }

// moved says, within a wait, that operation n is done: the wait is not in vain.
func (g *guard) moved(n int) {
	if n%guardStride == 0 {
		g.waits.Add(2)
	}
}

// guardStride is how many operations are one move: what is measured must not
// feel it.
const guardStride = 64

// watch calls end if one wait lasts too long, and then returns; or when ended is
// closed.
func (g *guard) watch(ended <-chan struct{}, end func()) {
	tick := time.NewTicker(guardTick)
	defer tick.Stop()
	for last, same := uint64(0), 0; same < guardTicks; {
		select {
		case <-ended:
			return
		case <-tick.C:
		}
		now := g.waits.Load()
		if same++; now%2 == 0 || now != last {
			last, same = now, 0
		}
	}
	end()
}
