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
// It is locked once per batch: per frame that is far cheaper than a ring that
// many may enter at once. While the pair is alone nothing is locked, nor
// written atomically: see [PairConfig].
type lane struct {
	from, to frame.Addr
	cells    []*frame.Frame
	mask     uint64
	alone    bool
	_        [line]byte

	mu     sync.Mutex
	inside atomic.Int64 // frames; kept only while the lane is not alone

	// Under mu.
	head   uint64 // next to take
	tail   uint64 // next to put
	closed bool   // nothing goes in any more
	short  bool   // a sender found no room

	sent     passed
	received passed
	passed   passed // without being put or taken
	twice    uint64 // frames that were already out when they were put
	damaged  uint64
}

// passed is what went through one end of a lane.
type passed struct{ frames, bytes uint64 }

// count counts the packets of a frame.
func (p *passed) count(f *frame.Frame) {
	n := uint64(f.Packets())
	p.frames += n
	p.bytes += uint64(wireLen(f)) + (n-1)*uint64(f.HeadLen)
}

// init makes room for at least n frames.
func (l *lane) init(n int, alone bool) {
	size := uint64(1) << bits.Len64(uint64(n-1))
	l.cells, l.mask, l.alone = make([]*frame.Frame, size), size-1, alone
}

// share ends being alone. Nobody uses the lane meanwhile.
func (l *lane) share() {
	l.alone = false
	l.inside.Store(int64(l.tail - l.head))
}

func (l *lane) lock() {
	if !l.alone {
		l.mu.Lock()
	}
}

func (l *lane) unlock() {
	if !l.alone {
		l.inside.Store(int64(l.tail - l.head))
		l.mu.Unlock()
	}
}

func (l *lane) empty() bool {
	if l.alone {
		return l.head == l.tail
	}
	return l.inside.Load() == 0
}

// push takes frames over while there is room, and returns how many, those
// included that were already out. They were sent to an address: that of the end,
// or of a group. A lane that is closed takes none and is not open.
func (l *lane) push(frames []*frame.Frame, to *frame.Addr) (taken int, open bool) {
	l.lock()
	defer l.unlock()
	if l.closed {
		return 0, false
	}
	taken = min(len(l.cells)-int(l.tail-l.head), len(frames))
	if taken < len(frames) {
		l.short = true
	}
	for _, f := range frames[:taken] {
		if !f.Handed() {
			l.twice++
			continue
		}
		l.sent.count(f)
		f.Peer, f.Local = l.from, *to
		l.cells[l.tail&l.mask] = f
		l.tail++
	}
	return taken, true
}

// pop moves the oldest frames to out, but for those that a network would have
// damaged: they go back. With room it says that a sender is waiting for the
// room that this made.
func (l *lane) pop(out []*frame.Frame) (n int, room bool) {
	l.lock()
	defer l.unlock()
	before := l.head
	for l.head != l.tail && n < len(out) {
		cell := &l.cells[l.head&l.mask]
		l.head++
		f := *cell
		*cell = nil
		if f.Damage != 0 {
			l.damaged++
			f.Back()
			continue
		}
		l.received.count(f)
		out[n] = f
		n++
	}
	if l.head != before && l.short {
		l.short, room = false, true
	}
	return n, room
}

// close lets nothing in any more, and sends back what is inside.
func (l *lane) close() {
	l.lock()
	defer l.unlock()
	l.closed = true
	for l.head != l.tail {
		l.cells[l.head&l.mask].Back()
		l.cells[l.head&l.mask] = nil
		l.head++
	}
}
