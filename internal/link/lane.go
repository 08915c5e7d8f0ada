package link

import (
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
)

// line is the distance of words that different CPUs write: two cache lines,
// because they are fetched in pairs.
const line = 128

// A lane is a bounded queue of frames from one end of a pair to another.
//
// Senders are ordered by one mutex and receivers by the other, each taken once
// per batch: per frame that is far cheaper than a ring that many may enter at
// once. Of receivers there is one; the second one is Close.
type lane struct {
	from, to frame.Addr
	cells    []*frame.Frame
	mask     uint64
	_        [line]byte

	put    sync.Mutex
	tail   atomic.Uint64 // next to put; written under put
	closed bool          // nothing goes in any more; under put
	short  atomic.Bool   // a sender found no room
	_      [line]byte

	take sync.Mutex
	head atomic.Uint64 // next to take; written under take
}

// init makes room for at least n frames.
func (l *lane) init(n int) {
	size := uint64(1) << bits.Len64(uint64(n-1))
	l.cells, l.mask = make([]*frame.Frame, size), size-1
}

func (l *lane) empty() bool { return l.head.Load() == l.tail.Load() }

// A pushed says what became of frames that were to go into a lane.
type pushed struct {
	taken int // by the lane, those included that were already out
	twice int // were already out, and passed over
	bytes int // in the others
}

// push takes frames over while there is room. A lane that is closed takes none
// and is not open.
func (l *lane) push(frames []*frame.Frame) (p pushed, open bool) {
	l.put.Lock()
	defer l.put.Unlock()
	if l.closed {
		return p, false
	}
	tail := l.tail.Load()
	room := len(l.cells) - int(tail-l.head.Load())
	if room < len(frames) {
		// Say so, then look again: a receiver makes room, then looks whether
		// somebody said so.
		l.short.Store(true)
		room = len(l.cells) - int(tail-l.head.Load())
	}
	p.taken = min(room, len(frames))
	for _, f := range frames[:p.taken] {
		if !f.Handed() {
			p.twice++
			continue
		}
		p.bytes += wireLen(f)
		f.Peer, f.Local = l.from, l.to
		l.cells[tail&l.mask] = f
		tail++
	}
	l.tail.Store(tail)
	return p, true
}

// pop moves the oldest frames to out. With room it says that a sender is
// waiting for the room that this made.
func (l *lane) pop(out []*frame.Frame) (n int, room bool) {
	l.take.Lock()
	defer l.take.Unlock()
	head := l.head.Load()
	n = min(int(l.tail.Load()-head), len(out))
	for i := range n {
		cell := &l.cells[(head+uint64(i))&l.mask]
		out[i], *cell = *cell, nil
	}
	l.head.Store(head + uint64(n))
	return n, n > 0 && l.short.Load() && l.short.Swap(false)
}

// close lets nothing in any more, and sends back what is inside.
func (l *lane) close() {
	l.put.Lock()
	l.closed = true
	l.put.Unlock()
	var out [16]*frame.Frame
	for {
		n, _ := l.pop(out[:])
		if n == 0 {
			return
		}
		for _, f := range out[:n] {
			f.Back()
		}
	}
}
