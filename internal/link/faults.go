package link

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
)

// Faults says how bad a network is. Loss, Dup, Reorder and Corrupt are the
// parts of the frames, 0 to 1, that this happens to; to one frame only one of
// them. The zero value is a good network.
type Faults struct {
	Loss    float64 // gone
	Dup     float64 // sent twice
	Reorder float64 // overtaken by 1 to 8 later frames, or a millisecond late
	Corrupt float64 // one bit flipped, and the ICRC is wrong
	// Delay is how much later frames arrive: at least that, and up to about a
	// millisecond more. A frame that Reorder meets takes twice as long. More
	// than 1024 frames are not kept: later ones are lost.
	Delay time.Duration
	// Seed makes the choice: what happens to the n-th frame depends on nothing
	// else.
	Seed uint64
}

// Injected counts what a [Faulty] link did to frames.
type Injected struct {
	Lost, Doubled, Reordered, Corrupted uint64
	Overflow                            uint64 // lost because too many were kept already
}

// A Faulty link is a bad network in front of a link. It spoils what is sent;
// wrap both ends to spoil both directions.
//
// A frame that anything happens to is copied first, and the original is back at
// once: its memory belongs to the sender.
type Faulty struct {
	Link
	f    Faults
	kept kept

	mu     sync.Mutex
	seq    uint64 // frames that were decided about
	n      Injected
	twice  uint64 // frames that were out already
	timer  *time.Timer
	closed bool
}

// NewFaults puts a bad network in front of l, which it then owns.
func NewFaults(l Link, f Faults) *Faulty {
	y := &Faulty{Link: l, f: f}
	y.kept.init(l, f.Delay > 0)
	y.timer = time.AfterFunc(time.Hour, y.tick)
	y.timer.Stop()
	return y
}

// A fate is what happens to a frame.
type fate uint8

const (
	pass fate = iota
	lose
	damage
	double
	overtake
	delay
)

// fate returns what happens to frame n, and a number for the details.
func (y *Faulty) fate(n uint64) (fate, uint64) {
	var p rand.PCG
	p.Seed(y.f.Seed, n)
	u, detail := float64(p.Uint64()>>11)/(1<<53), p.Uint64()
	for _, c := range [...]struct {
		part float64
		fate fate
	}{{y.f.Loss, lose}, {y.f.Corrupt, damage}, {y.f.Dup, double}, {y.f.Reorder, overtake}} {
		if u -= c.part; u < 0 {
			return c.fate, detail
		}
	}
	if y.f.Delay > 0 {
		return delay, detail
	}
	return pass, detail
}

// Send sends what nothing happens to, in runs as long as can be.
func (y *Faulty) Send(frames []*frame.Frame) (taken int) {
	y.mu.Lock()
	defer y.mu.Unlock()
	for taken < len(frames) {
		rest := frames[taken:]
		n, what, detail := y.run(len(rest))
		if n == 0 {
			y.strike(rest[0], what, detail)
			n = 1
		} else if sent := y.Link.Send(rest[:n]); sent < n {
			y.seq += uint64(sent)
			return taken + sent
		}
		y.seq += uint64(n)
		taken += n
		y.release()
	}
	return taken
}

// run returns how many of the next n frames pass before one that does not, or
// before a kept frame is to go between them. If it is none, it says what
// happens to the first.
func (y *Faulty) run(n int) (run int, what fate, detail uint64) {
	next := y.kept.next()
	for run < n {
		if what, detail = y.fate(y.seq + uint64(run)); what != pass {
			return run, what, detail
		}
		if run++; y.seq+uint64(run) >= next {
			break
		}
	}
	return run, pass, 0
}

// strike lets a fate strike f, and takes it over. With no room for a copy the
// fate is another one: with a delay the frame is lost, otherwise only its
// original passes.
func (y *Faulty) strike(f *frame.Frame, what fate, detail uint64) {
	if !f.Handed() {
		y.twice++
		return
	}
	defer f.Back()
	wait, after := y.f.Delay, y.seq+1
	if wait > 0 {
		after = never
	}
	switch what {
	case lose:
		y.n.Lost++
		return
	case double:
		if y.kept.add(f, wait, after, what, 0) {
			y.n.Doubled++
		}
	case damage:
		y.n.Corrupted++
	case overtake:
		y.n.Reordered++
		if wait *= 2; wait == 0 {
			wait, after = lateness, y.seq+2+detail%8
		}
	case pass, delay:
	}
	if !y.kept.add(f, wait, after, what, detail) {
		y.n.Overflow++
	}
}

// release sends what is due, and sets the timer for what is not.
func (y *Faulty) release() {
	if y.kept.waiting.Load() {
		if next, some := y.kept.release(y.seq, time.Now()); some {
			y.timer.Reset(next)
		}
	}
}

// tick is called by the timer, for want of other calls.
func (y *Faulty) tick() {
	y.mu.Lock()
	defer y.mu.Unlock()
	if !y.closed {
		y.release()
	}
}

// Recv sends what is due, and receives.
func (y *Faulty) Recv(frames []*frame.Frame) int {
	if y.kept.waiting.Load() {
		y.tick()
	}
	return y.Link.Recv(frames)
}

// Injected returns what happened to frames so far.
func (y *Faulty) Injected() Injected {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.n
}

// Stats returns the counters of the link. SentTwice has also what something
// would have happened to.
func (y *Faulty) Stats() Stats {
	s := y.Link.Stats()
	y.mu.Lock()
	defer y.mu.Unlock()
	s.SentTwice += y.twice
	return s
}

// Close closes the link. What was kept is lost.
func (y *Faulty) Close() error {
	y.mu.Lock()
	y.closed = true
	y.timer.Stop()
	y.mu.Unlock()
	return y.Link.Close()
}
