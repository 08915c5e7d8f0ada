package nic

import (
	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/work"
)

// inBatch is how many packets are taken from the link at once, and
// inBatchOnWire how many from a socket: no less than a run sends, or a sender
// on the same executor would bury its receiver.
const (
	inBatch       = 32
	inBatchOnWire = burstOnWire
)

// A receiver takes packets from the link and puts them where they belong.
//
// It is run by one goroutine at a time: what it puts into an inbox is in the
// order of arrival.
type receiver struct {
	d     *Device
	item  work.Item
	batch [max(inBatch, inBatchOnWire)]*frame.Frame
	drops [max(inBatch, inBatchOnWire)]*frame.Frame
	most  int  // packets of one batch
	n     int  // of drops
	full  bool // for the circle: there may be more to take

	// The packets for one half are collected, and put into its inbox together.
	half   *half
	newest *frame.Frame
	oldest *frame.Frame
	held   int
	room   int
}

// run is the receive path as a work item.
func (r *receiver) run(budget int) (more bool) {
	if r.d.linkFD >= 0 {
		budget = min(budget, r.d.burst)
	}
	for budget > 0 {
		n := r.pass()
		if n < r.most {
			return false
		}
		budget -= n
	}
	return true
}

// loop is the receive path as a goroutine. Closing the link ends it.
func (r *receiver) loop() {
	for r.d.link.Wait() {
		for r.pass() == r.most {
		}
	}
}

// pass takes one batch and returns how many packets were in it.
func (r *receiver) pass() int {
	n := r.d.link.Recv(r.batch[:r.most])
	if n == 0 {
		return 0
	}
	for i, f := range r.batch[:n] {
		r.batch[i] = nil
		h, _, why := r.d.destination(f)
		if h == nil {
			if why == dropGroup {
				r.distribute(f)
			} else {
				r.drop(f, why)
			}
			continue
		}
		if h.circle != nil {
			if !h.accept(f) {
				r.drop(f, dropBacklog)
			}
			continue
		}
		if h != r.half {
			r.commit()
			r.half, r.room = h, backlog-int(h.in.count.Load())
		}
		if r.held == r.room {
			r.drop(f, dropBacklog)
			continue
		}
		f.Next = r.newest
		if r.newest = f; r.oldest == nil {
			r.oldest = f
		}
		r.held++
	}
	r.commit()
	if r.n > 0 {
		r.d.link.Give(r.drops[:r.n])
		clear(r.drops[:r.n])
		r.n = 0
	}
	return n
}

func (r *receiver) drop(f *frame.Frame, why counter) {
	r.d.count(why)
	r.drops[r.n] = f
	r.n++
}

// commit hands over what was collected for one half.
func (r *receiver) commit() {
	h := r.half
	if r.held > 0 {
		h.in.put(r.newest, r.oldest, r.held)
		if h.closed.Load() {
			r.d.giveChain(h.in.take())
		} else {
			h.wakePublished()
		}
	}
	r.half, r.newest, r.oldest, r.held = nil, nil, nil, 0
}

// giveChain gives linked packets back to the link.
func (d *Device) giveChain(f *frame.Frame) {
	for f != nil {
		next := f.Next
		f.Next = nil
		d.link.Give(d.groups.refs.collect([]*frame.Frame{f}))
		f = next
	}
}

// destination checks a packet and returns the half that it is for, or nil and
// the reason to drop it; of a datagram to a group, dropGroup. Nothing in it is
// trusted. by is the view that let the packet in: by now the queue pair may have
// another one, which would not.
func (d *Device) destination(f *frame.Frame) (to *half, by *view, why counter) {
	n := int(f.HeadLen)
	if n < roce.BTHLen || n > len(f.Head) {
		return nil, nil, dropShort
	}
	h := (*roce.BTH)(f.Head[:roce.BTHLen])
	o := h.Opcode()
	if why, bad := misshapen(f, h, o); bad {
		return nil, nil, why
	}
	num := h.DestQP()
	q := d.qps.at(num)
	if q == nil || q.num != num {
		if num == groupQPN && o.Transport() == roce.UD {
			return nil, nil, dropGroup
		}
		return nil, nil, dropUnknownQP
	}
	if o.Transport() != q.transport {
		return nil, nil, dropTransport
	}
	v := q.view.Load()
	to, open := &q.recv.half, v.requests
	if o.Has(roce.IsResponse) {
		to, open = &q.send.half, v.responses
	}
	if !open {
		return nil, nil, dropState
	}
	if why, bad := v.bars(&f.Peer, &f.Local, h.PKey()); bad {
		return nil, nil, why
	}
	return to, v, 0
}

// bars tells why a packet is not let in for where it comes from, where it goes
// to, or its partition.
func (v *view) bars(from, to *frame.Addr, pkey uint16) (why counter, bad bool) {
	switch {
	case from.IP != v.peer.IP && !v.anyone || to.IP != v.local.IP:
		return dropAddress, true
	case !samePartition(pkey, v.pkey):
		return dropPKey, true
	}
	return 0, false
}

// misshapen checks what does not depend on the queue pair.
func misshapen(f *frame.Frame, h *roce.BTH, o roce.Opcode) (why counter, bad bool) {
	switch pad := int(f.Pad); {
	case h.Version() != 0:
		return dropVersion, true
	case o == roce.CNP:
		return dropCNP, true
	case !o.Known() && o.Transport() != roce.RC: // of RC it is answered
		return dropOpcode, true
	case int(f.HeadLen) < o.HeadLen():
		return dropShort, true
	case int(f.HeadLen) != o.HeadLen(), pad != h.Pad(), f.Len < 0, (f.Len+pad)&3 != 0,
		!o.Has(roce.HasPayload) && o.Known() && f.Len+pad != 0, !adds(f):
		return dropLength, true
	}
	return 0, false
}

// adds reports whether the segments of f make up its length.
func adds(f *frame.Frame) bool {
	n := 0
	for _, s := range f.Payload {
		n += len(s)
	}
	return n == f.Len
}

// samePartition reports whether the owners of two partition keys may talk:
// they are of one partition, and one of them is a full member.
func samePartition(a, b uint16) bool {
	const full = 0x8000
	return (a^b)&^full == 0 && a&^full != 0 && (a|b)&full != 0
}
