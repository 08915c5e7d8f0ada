package nic

import (
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
)

const (
	narrow     = 2  // segments in a frame of the narrow pool
	frameBatch = 16 // frames that a half takes from a pool at once
	frameKeep  = 8  // free frames that a half keeps between its runs
)

// An outFrame is a frame that a half sends. It is its own Owner, so that it
// finds its way home.
type outFrame struct {
	frame.Frame
	pool  *pool
	half  *half // who sent it last
	next  *outFrame
	epoch uint8 // of the run that sent it, or unsent
}

// unsent is the epoch of a frame that was not handed to the link.
const unsent = 2

// FrameBack is called by the link: it is done with the frame.
func (o *outFrame) FrameBack(f *frame.Frame) {
	h := o.half
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
	if p.hungry.Load() || h.closed.Load() {
		p.put(h.regain())
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

// A pool holds the free frames of a device that have the same number of
// segments. It grows when queue pairs are made, never while they work.
type pool struct {
	d        *Device
	segments int
	hungry   atomic.Bool  // halves wait for frames
	frames   atomic.Int64 // all there are, free or not

	mu      sync.Mutex
	free    *outFrame
	waiters *half // linked through nextHungry
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
	p.d.qps.all(func(q *QP) {
		for _, o := range [...]*half{&q.send.half, &q.recv.half} {
			if o.pool == p {
				p.put(o.regain())
			}
		}
	})
	return p.get(frameBatch)
}
