package perf

import (
	"sync/atomic"
	"time"
)

// A guard acts when another process stands still while this one waits for it:
// neither memory that both share nor a TCP connection says anything of a process
// that is stopped, and so a measurement would wait for ever. It counts ticks and
// not the time, so that what passes while both are stopped, as by Ctrl-Z, is not
// held against anybody.
//
// One goroutine waits, and another one watches.
type guard struct {
	waits atomic.Uint64 // odd while this process waits
}

// guardTicks is how many ticks a wait may take.
const guardTicks = 10

// wait begins a wait, if none has begun, and over ends it.
func (g *guard) wait() {
	if g.waits.Load()%2 == 0 {
		g.waits.Add(1)
	}
}

func (g *guard) over() {
	if g.waits.Load()%2 != 0 {
		g.waits.Add(1)
	}
}

// moved says, within a wait, that operation n is done: the wait is not in vain.
func (g *guard) moved(n int) {
	if n%guardStride == 0 {
		g.waits.Add(2)
	}
}

// guardStride is how many operations are one move: what is measured must not
// feel it.
const guardStride = 64

// watch calls act if one wait lasts for the limit, or a tick longer, and then
// returns; or when ended is closed.
func (g *guard) watch(limit time.Duration, ended <-chan struct{}, act func()) {
	tick := time.NewTicker(limit / guardTicks)
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
	act()
}
