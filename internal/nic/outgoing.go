package nic

import (
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// An outstanding counts, for a half, its frames that are out, and a run in
// progress, by the epoch in which they began: see settle. Frames that came back
// count until they were regained.
type outstanding struct {
	shared bool            // an item runs the half, and others read along
	own    [2]int          // if it is not shared: under the lock of the circle
	any    [2]atomic.Int64 // if it is
}

func (o *outstanding) add(epoch uint8, n int) {
	if o.shared {
		o.any[epoch].Add(int64(n))
	} else {
		o.own[epoch] += n
	}
}

func (o *outstanding) none(epoch int) bool {
	if o.shared {
		return o.any[epoch].Load() == 0
	}
	return o.own[epoch] == 0
}

// transmit hands what the halves of the circle have sent over to the link, and
// reports whether there is room for more.
func (d *Device) transmit() bool {
	if !d.tx.send() {
		d.count(countNoRoom)
	}
	if d.tx.n == 0 {
		d.passRoom()
	}
	return !d.tx.full()
}

// Frame is part of qp.Env.
func (h *half) Frame() *frame.Frame {
	if h.circle != nil {
		return h.frameOfCircle()
	}
	b := h.by
	if b.queued == len(b.tx) && !h.flush() || b.free == nil && !h.refill() {
		h.dry = true
		return nil
	}
	o := b.free
	b.free, o.next = o.next, nil
	b.kept--
	o.half, o.epoch = h, unsent
	o.Reset()
	return &o.Frame
}

// frameOfCircle takes a frame from those that the pool has at hand for the
// driver: the one that came back last, wherever it was.
func (h *half) frameOfCircle() *frame.Frame {
	d, p := h.d, h.pool
	if d.tx.full() && !d.transmit() {
		h.circle.calm = false
		d.awaitRoom(h)
		h.dry = true
		return nil
	}
	h.fetch()
	if p.atHand.first == nil {
		p.atHand.pushChain(p.get(frameBatch))
		if p.atHand.first == nil {
			p.atHand.pushChain(p.starve(h))
		}
	}
	o := p.atHand.pop()
	if o == nil {
		h.dry = true
		return nil
	}
	o.half, o.epoch = h, unsent
	o.Reset()
	return &o.Frame
}

// fetch makes the frames that came back to a half of a circle free for all.
func (h *half) fetch() {
	if h.returned.top.Load() == nil {
		return
	}
	if chain := h.regain(); h.pool.hungry.Load() {
		h.pool.put(chain)
	} else {
		h.pool.atHand.pushChain(chain)
	}
}

// regain takes the frames that came back, and no longer counts them as out.
func (h *half) regain() *outFrame {
	chain := h.returned.take()
	var back [3]int
	for o := chain; o != nil; o = o.next {
		back[o.epoch]++
	}
	for e := range uint8(2) {
		if back[e] != 0 {
			h.out.add(e, -back[e])
		}
	}
	return chain
}

// refill gets free frames: those that came back to this half, or others.
func (h *half) refill() bool {
	chain := h.regain()
	if chain == nil {
		chain = h.pool.get(frameBatch)
	}
	if chain == nil {
		chain = h.pool.starve(h)
	}
	h.by.free = chain
	for o := chain; o != nil; o = o.next {
		h.by.kept++
	}
	return chain != nil
}

// shed gives back to the pool what another half may need.
func (h *half) shed() {
	b := h.by
	last := b.free
	for range frameKeep - 1 {
		last = last.next
	}
	h.pool.put(last.next)
	last.next, b.kept = nil, frameKeep
}

// Emit is part of qp.Env. There is room: Frame made sure.
func (h *half) Emit(f *frame.Frame) {
	if h.circle == nil {
		h.by.tx[h.by.queued] = f
		h.by.queued++
		return
	}
	v := h.q.view.Load()
	if h.cross(f, v) {
		return
	}
	h.address(f, v)
	f.Owner.(*outFrame).epoch = h.epoch
	h.out.add(h.epoch, 1)
	h.circle.calm = false
	h.d.tx.add(f, h.sender == nil)
}

// address says where a frame goes, unless the machine has.
func (h *half) address(f *frame.Frame, v *view) {
	if h.q.transport != roce.UD {
		f.Peer, f.TOS, f.TTL = v.peer, v.tos, v.ttl
	}
}

// flush sends what was emitted and reports whether there is room for more. If
// the link has none, it wakes the half when it has.
func (h *half) flush() bool {
	b := h.by
	n := b.queued
	v := h.q.view.Load()
	own := h.q.transport == roce.UD // the machine has set it
	for i, f := range b.tx[:n] {
		if !own {
			f.Peer, f.TOS, f.TTL = v.peer, v.tos, v.ttl
		}
		if i >= b.counted {
			f.Owner.(*outFrame).epoch = h.epoch
		}
	}
	h.out.add(h.epoch, n-b.counted)
	b.counted = n
	if h.sendSome(); b.queued > 0 {
		h.d.count(countNoRoom)
		h.d.awaitRoom(h)
		h.sendSome()
	}
	return b.queued < len(b.tx)
}

// sendSome hands over as much as the link takes.
func (h *half) sendSome() {
	b := h.by
	n := b.queued
	taken := h.d.link.Send(b.tx[:n])
	copy(b.tx[:], b.tx[taken:n])
	clear(b.tx[n-taken : n])
	b.queued -= taken
	b.counted -= taken
}

// discard takes back what was emitted and not sent, and gives back what
// arrived. The half is disabled.
func (h *half) discard() {
	h.alone(func() {
		if h.circle != nil {
			h.d.tx.remove(h)
		} else {
			h.discardOwn()
		}
		for h.next() != nil {
			h.finish()
		}
		h.giveBack()
	})
}

func (h *half) discardOwn() {
	b := h.by
	for i, f := range b.tx[:b.queued] {
		b.tx[i] = nil
		f.Owner.FrameBack(f)
	}
	b.queued, b.counted = 0, 0
}

// retire is discard for a half that will never run again.
func (h *half) retire() {
	h.closed.Store(true)
	if h.disable(); h.circle == nil {
		h.item.Close()
	}
	h.d.timers.remove(h)
	h.discard()
	h.d.forgetRoom(h)
	if b := h.by; b != nil {
		h.pool.put(b.free)
		b.free, b.kept = nil, 0
	}
	h.alone(func() { h.pool.put(h.regain()) })
}

// idle reports whether no frame of an epoch is out, and no run in progress.
func (h *half) idle(epoch int) (is bool) {
	h.alone(func() {
		if !h.out.none(epoch) {
			h.pool.put(h.regain())
		}
		is = h.out.none(epoch)
	})
	return is
}
