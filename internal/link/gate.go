package link

import (
	"runtime"
	"sync/atomic"
)

// spins is how often a waiting receiver lets others run before it parks.
const spins = 16

// A gate is where one receiver waits, and what senders tell.
//
// No wake-up is lost: the receiver says that it waits and then looks once more;
// a sender first makes its frames visible and then looks whether anyone waits.
// One of the two sees the other.
type gate struct {
	waiting atomic.Bool
	wake    chan struct{} // holds one token
	ready   atomic.Pointer[func()]
}

func (g *gate) init() { g.wake = make(chan struct{}, 1) }

// signal says that there is something new to look at.
func (g *gate) signal() {
	call(&g.ready)
	if g.waiting.Load() && g.waiting.CompareAndSwap(true, false) {
		select {
		case g.wake <- struct{}{}:
		default: // a token that nobody took does as well
		}
	}
}

// await returns when l is ready, after a little spinning. A token that is left
// over from an earlier wait only makes it look once more.
func (g *gate) await(l interface{ ready() bool }) {
	for range spins {
		if l.ready() {
			return
		}
		runtime.Gosched()
	}
	for !l.ready() {
		g.waiting.Store(true)
		if l.ready() {
			g.waiting.Store(false)
			return
		}
		<-g.wake
	}
}

// call calls what p points to, if anything.
func call(p *atomic.Pointer[func()]) {
	if f := p.Load(); f != nil {
		(*f)()
	}
}

// set makes p point to f, which may be nil.
func set(p *atomic.Pointer[func()], f func()) {
	if f == nil {
		p.Store(nil)
		return
	}
	p.Store(&f)
}
