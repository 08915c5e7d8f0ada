package nic

import (
	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/roce"
)

// Where both ends of a memory link belong to one circle, and nothing is wrapped
// around either, nobody can see what is between them. There a packet does not
// wait for the round in which its link is asked: it crosses over inside of Emit.
//
//	run of a send half                     run of the receive half
//	  Step -- Emit --> Receive of the        Step -- Emit --> Receive of the
//	   ^               other's responder      ^               first's completer
//	   +-- next packet --+                    + when the Step of the first is over
//
// It passes what every packet passes: the counters of the link, the checks of
// the receive path, and then the machine of the half that it is for. Three rules
// keep this as right as the long way:
//
//   - A machine is never entered from inside of itself. What comes for a half
//     whose machine is at work waits in the queue of that half.
//   - Nothing overtakes. Who has packets waiting gets the next one behind them,
//     and while something is in the outbox or on the link, all goes that way.
//   - A receive half that got packets so runs before the run that sent them is
//     over. Then it acknowledges them, once, and frees the slots of its receives
//     before anybody sees that they are complete.

// meet lets packets cross between d and the device at the other end of its link,
// if that is in the circle. The caller has the lock of the circle.
func (c *circle) meet(d *Device) {
	m, ok := d.link.(*link.Memory)
	if !ok {
		return
	}
	for _, o := range *c.devices.Load() {
		if end, ok := o.link.(*link.Memory); ok && end == m.Peer() {
			d.bare, d.far, o.bare, o.far = m, o, end, d
		}
	}
}

// part ends that.
func (c *circle) part(d *Device) {
	if o := d.far; o != nil {
		for _, x := range [...]*Device{d, o} {
			x.qps.all(func(q *QP) { q.send.met, q.recv.met = acquaintance{}, acquaintance{} })
		}
		d.bare, d.far, o.bare, o.far = nil, nil, nil, nil
	}
}

// An acquaintance is the half that packets of a half were for, and the two views
// that let them in. As long as neither queue pair has another view, they still
// do: the addresses and the partition are not compared again.
type acquaintance struct {
	half         *half
	mine, theirs *view
}

// cross hands a frame to the half that it is for, and reports whether it could.
// If not, it is to go by the link.
func (h *half) cross(f *frame.Frame, v *view) bool {
	d := h.d
	if d.far == nil || d.tx.n > 0 || !d.bare.Clear() {
		return false
	}
	t := h.familiar(f, v)
	if t == nil {
		if h.address(f, v); f.Peer != d.far.link.Local() {
			return false
		}
		f.Peer, f.Local = d.link.Local(), f.Peer
		var theirs *view
		var why counter
		if t, theirs, why = d.far.destination(f); t == nil {
			d.far.count(why)
		} else if h.q.transport != roce.UD {
			h.met = acquaintance{t, v, theirs}
		}
	}
	d.bare.Passed(f)
	if t == nil || t.idles() && t.takeNow(f) {
		h.regainNow(f.Owner.(*outFrame))
		return true
	}
	f.Handed()
	f.Owner.(*outFrame).epoch = h.epoch
	h.out.add(h.epoch, 1)
	if !t.accept(f) {
		d.far.count(dropBacklog)
		h.circle.give(d.far.link, []*frame.Frame{f})
	}
	return true
}

// familiar returns the half that f is for, if packets like it were let in under
// the same views. What only the packet itself tells is looked at each time.
func (h *half) familiar(f *frame.Frame, mine *view) *half {
	t := h.met.half
	if t == nil || h.met.mine != mine || h.met.theirs != t.q.view.Load() {
		h.met = acquaintance{}
		return nil
	}
	b := (*roce.BTH)(f.Head[:])
	if _, bad := misshapen(f, b, b.Opcode()); bad || b.DestQP() != t.q.num {
		return nil
	}
	return t
}

// idles reports whether a packet may be given to the machine of h at once.
func (h *half) idles() bool {
	return !h.inside && !h.stopped && h.pending == nil &&
		(h.sender != nil || h.list == listNone || h.list == listTouched)
}

// takeNow gives a packet to the machine of h, and reports whether that is done
// with it.
func (h *half) takeNow(f *frame.Frame) (done bool) {
	c := h.circle
	h.inside = true
	if h.sender != nil {
		h.sender.Receive(f, c.clock())
		h.inside, h.heard = false, true
		if !h.running {
			c.due.push(h)
		}
		return true
	}
	if h.list != listTouched {
		c.touch(h)
	}
	done = h.q.recv.m.Receive(f, c.now)
	h.inside = false
	return done
}

// touch begins a run of a receive half that answer ends.
func (c *circle) touch(h *half) {
	h.epoch = uint8(h.d.epoch.Load() & 1) // as begin does: this may be the only way that h runs
	c.touched.push(h)
}

// regainNow makes a frame free that was never out.
func (h *half) regainNow(o *outFrame) {
	wake := h.sender != nil && h.sender.FrameBackHere(&o.Frame)
	o.pocket()
	if wake {
		h.circle.due.push(h)
	}
}

// answer ends what packets that crossed over have begun with receive halves.
func (c *circle) answer(budget int) {
	for h := c.touched.pop(); h != nil; h = c.touched.pop() {
		r := &h.q.recv
		r.dry = false
		more := r.m.Step(c.now, budget)
		r.free()
		h.fateIsShared()
		if more || h.pending != nil && !h.dry {
			c.due.push(h)
		}
	}
}
