package nic

import (
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
)

const (
	narrow     = 2  // segments in a frame of the narrow pool
	frameBatch = 16 // frames that are taken from a pool at once
	frameKeep  = 8  // free frames that a half keeps between runs of its item
)

// An outFrame is a frame that a half sends. It is its own Owner, so that it
// finds its way home.
type outFrame struct {
	frame.Frame
	pool  *pool
	half  *half // who sent it last
	next  *outFrame
	epoch uint8 // of the run that sent it, or unsent
	here  bool  // whoever gives it back drives the circle of its half
}

// unsent is the epoch of a frame that was not handed to the link.
const unsent = 2

// give gives frames back to the link, on whom drives c. Those that halves of c
// sent are told: until the link has passed them on nobody else touches the
// halves. A link that keeps some of them passes those on later, as from anyone.
func (c *circle) give(l link.Link, frames []*frame.Frame) {
	for _, f := range frames {
		if o, ok := f.Owner.(*outFrame); ok && o.half.circle == c {
			o.here = true
		}
	}
	l.Give(frames)
	for _, f := range frames {
		if o, ok := f.Owner.(*outFrame); ok && o.here {
			o.here = false
		}
	}
}

// FrameBack is called by the link: it is done with the frame.
func (o *outFrame) FrameBack(f *frame.Frame) {
	h := o.half
	if o.here {
		o.here = false
		h.takeBackHere(o)
		return
	}
	wake := h.sender != nil && h.sender.FrameBack(f)
	h.takeBack(o)
	if wake {
		h.wake()
	}
}

// takeBack keeps a free frame for the half that sent it: most likely it will
// send again. Where somebody starves, or the half is gone, all frames that
// came back to it go to the pool.
func (h *half) takeBack(o *outFrame) {
	p := o.pool
	h.returned.push(o, o)
	if !p.hungry.Load() && !h.closed.Load() {
		return
	}
	if h.circle != nil {
		h.wake() // a run regains them
	} else {
		p.put(h.regain())
	}
}

// takeBackHere does the same under the lock of the circle, and keeps the frame
// for whichever half sends next.
func (h *half) takeBackHere(o *outFrame) {
	wake := h.sender != nil && h.sender.FrameBackHere(&o.Frame)
	h.out.add(o.epoch, -1)
	o.pocket()
	if wake {
		h.circle.due.push(h)
	}
}

// pocket keeps a free frame at hand for whoever drives the circle, unless others
// wait for one.
func (o *outFrame) pocket() {
	if o.next = nil; o.pool.hungry.Load() {
		o.pool.put(o)
	} else {
		o.pool.atHand.push(o)
	}
}

// A frameStack takes frames from any goroutine. They are only taken out all at
// once, so an old top cannot be mistaken for a new one.
type frameStack struct{ top atomic.Pointer[outFrame] }

// push adds a chain from its newest frame to its oldest.
func (s *frameStack) push(newest, oldest *outFrame) {
	for {
		top := s.top.Load()
		oldest.next = top
		if s.top.CompareAndSwap(top, newest) {
			return
		}
	}
}

func (s *frameStack) take() *outFrame {
	if s.top.Load() == nil {
		return nil
	}
	return s.top.Swap(nil)
}

// A frameList is a stack of frames for one goroutine at a time.
type frameList struct{ first *outFrame }

// pushChain adds a chain, which may be empty.
func (l *frameList) pushChain(chain *outFrame) {
	if chain == nil {
		return
	}
	last := chain
	for last.next != nil {
		last = last.next
	}
	last.next, l.first = l.first, chain
}

// push adds one frame.
func (l *frameList) push(o *outFrame) { o.next, l.first = l.first, o }

func (l *frameList) pop() *outFrame {
	o := l.first
	if o != nil {
		l.first, o.next = o.next, nil
	}
	return o
}

// A pool holds the free frames of a device that have the same number of
// segments. It grows when queue pairs are made, never while they work.
type pool struct {
	d        *Device
	segments int
	hungry   atomic.Bool  // halves wait for frames
	frames   atomic.Int64 // all there are, free or not
	atHand   frameList    // for the driver of the circle: under its lock

	mu      sync.Mutex
	free    *outFrame
	waiters *half // linked through nextHungry
	idle    int   // frames that came with queue pairs that are gone
}

func (p *pool) init(d *Device, segments int) { p.d, p.segments = d, segments }

// grow adds n frames.
func (p *pool) grow(n int) {
	frames := make([]outFrame, n)
	segs := make([][]byte, n*p.segments)
	for i := range frames {
		o := &frames[i]
		o.pool, o.Owner = p, o
		o.Payload = segs[i*p.segments : i*p.segments : (i+1)*p.segments]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range frames {
		frames[i].next, p.free = p.free, &frames[i]
	}
	p.frames.Add(int64(n))
}

// reserve adds n frames for a queue pair, or takes those of one that is gone.
func (p *pool) reserve(n int) {
	p.mu.Lock()
	there := p.idle >= n
	if there {
		p.idle -= n
	}
	p.mu.Unlock()
	if !there {
		p.grow(n)
	}
}

// release leaves the frames of a queue pair to the next one.
func (p *pool) release(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle += n
}

// size returns how many frames the pool has, free or not.
func (p *pool) size() int { return int(p.frames.Load()) }

// get returns a chain of up to n free frames.
func (p *pool) get(n int) *outFrame {
	p.mu.Lock()
	defer p.mu.Unlock()
	first := p.free
	if first == nil {
		return nil
	}
	last := first
	for n--; n > 0 && last.next != nil; n-- {
		last = last.next
	}
	p.free, last.next = last.next, nil
	return first
}

// put gives a chain of frames back and wakes those who starve.
func (p *pool) put(chain *outFrame) {
	if chain == nil {
		return
	}
	last := chain
	for last.next != nil {
		last = last.next
	}
	p.mu.Lock()
	last.next, p.free = p.free, chain
	h := p.waiters
	p.waiters = nil
	p.hungry.Store(false)
	p.mu.Unlock()
	for h != nil {
		next := h.nextHungry
		h.nextHungry = nil
		h.starving.Store(false)
		h.wake()
		h = next
	}
}

// starve puts h on the list of those who wait for frames, and then looks for
// frames that lie idle with other halves.
func (p *pool) starve(h *half) *outFrame {
	p.d.count(countNoFrame)
	if !h.starving.Swap(true) {
		p.mu.Lock()
		h.nextHungry, p.waiters = p.waiters, h
		p.hungry.Store(true)
		p.mu.Unlock()
	}
	p.recall(h.circle)
	if c := p.d.circle; c != nil && h.circle == nil {
		c.exclusively(func() {
			p.recall(c)
			p.put(p.atHand.first)
			p.atHand.first = nil
		})
	}
	return p.get(frameBatch)
}

// recall takes the frames that came back to halves that c runs, or no circle.
func (p *pool) recall(c *circle) {
	p.d.qps.all(func(q *QP) {
		for _, o := range [...]*half{&q.send.half, &q.recv.half} {
			if o.pool == p && o.circle == c {
				p.put(o.regain())
			}
		}
	})
}
