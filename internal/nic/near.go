package nic

import (
	"sync"

	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/work"
)

// Between the two ends of a memory link with nothing around either, a message
// goes whole where the machines of both ends let it: see internal/qp/express.go.
// Whoever runs the send half has to be the one who runs the receive half of the
// peer, until the end of its run:
//
//   - A circle runs both. The receive half is touched, and ends with the run of
//     the sender, as where packets cross: see cross.go.
//   - Of a work queue, any worker may run either. The one that runs the send half
//     enters the item of the receive half, if that is idle.
//   - A tasklet has an order of its own, and so have two executors: there all
//     goes in packets.

// ends are the devices on memory links with nothing around them.
var ends struct {
	sync.Mutex
	of map[*link.Memory]*Device
}

// settleIn makes d known to the device at the other end of its link, and that
// one to d.
func (d *Device) settleIn() {
	m, ok := d.link.(*link.Memory)
	if !ok {
		return
	}
	ends.Lock()
	defer ends.Unlock()
	if ends.of == nil {
		ends.of = map[*link.Memory]*Device{}
	}
	ends.of[m] = d
	if o := ends.of[m.Peer()]; o != nil {
		d.beside.Store(o)
		o.beside.Store(d)
	}
}

// moveOut ends that.
func (d *Device) moveOut() {
	ends.Lock()
	defer ends.Unlock()
	if m, ok := d.link.(*link.Memory); ok {
		delete(ends.of, m)
	}
	if o := d.beside.Swap(nil); o != nil {
		o.beside.Store(nil)
	}
}

// Near is part of qp.Env; a receive half sends no requests.
func (h *half) Near(uint32) *qp.Responder { return nil }

// Near is part of qp.Env.
func (s *sendHalf) Near(qpn uint32) *qp.Responder {
	t := s.neighbour(qpn)
	switch {
	case t == nil:
		return nil
	case s.circle == nil:
		if !t.enter(s.met.theirs) {
			return nil
		}
		s.visits = t
	case !t.idles():
		return nil
	case t.list != listTouched:
		s.circle.touch(&t.half)
	}
	return &t.m
}

// neighbour returns the receive half of the queue pair of that number at the
// other end of the link, if that lets requests of s in, and whoever runs s may
// run it.
func (s *sendHalf) neighbour(qpn uint32) *recvHalf {
	far := s.d.beside.Load()
	if far == nil {
		return nil
	}
	mine := s.q.view.Load()
	if t := s.met.half; t != nil && s.met.mine == mine && s.met.theirs == t.q.view.Load() && t.q.num == qpn {
		return &t.q.recv
	}
	q := far.qps.at(qpn)
	if q == nil || q.num != qpn || q.transport != s.q.transport || s.circle != q.recv.circle {
		return nil
	}
	if _, ok := s.q.exec.(*work.Workqueue); s.circle == nil && (!ok || s.q.exec != q.exec) {
		return nil
	}
	from := s.d.link.Local()
	theirs := q.view.Load()
	if _, bad := theirs.bars(&from, &mine.peer, roce.DefaultPKey); bad || !theirs.requests {
		return nil
	}
	s.met = acquaintance{&q.recv.half, mine, theirs}
	return &q.recv
}

// enter has the caller run r, if nobody does, and the queue pair has that view.
func (r *recvHalf) enter(v *view) bool {
	if !r.item.Enter() {
		return false
	}
	r.epoch = uint8(r.d.epoch.Load() & 1)
	r.out.add(r.epoch, 1)
	if r.q.view.Load() != v || r.pending != nil || r.commands.Load() != 0 {
		r.leave()
		return false
	}
	return true
}

// leave ends that, as run ends.
func (r *recvHalf) leave() {
	r.free()
	r.end()
	r.item.Leave()
}

// Handed is part of qp.Env.
func (h *half) Handed(only roce.Opcode, packets, bytes int) {
	h.whole += packets
	h.wholeBytes += bytes + packets*roce.BTHLen + only.HeadLen() - roce.BTHLen
}

// passWhole counts what went whole in this run.
func (s *sendHalf) passWhole() {
	s.d.link.(*link.Memory).PassedMany(s.whole, s.wholeBytes)
	s.whole, s.wholeBytes = 0, 0
}

// Try is part of qp.Env.
func (h *half) Try(key uint32, addr uint64, n int, need qp.Access) ([]byte, bool) {
	b, fault := h.d.keys.open(h.q.pd, key, addr, n, need)
	return b, fault == keyGood
}

// Try is part of qp.Env: the memory of receives is of the domain of their queue.
func (r *recvHalf) Try(key uint32, addr uint64, n int, need qp.Access) ([]byte, bool) {
	pd := r.pd
	if need&qp.RemoteWrite != 0 {
		pd = r.q.pd
	}
	b, fault := r.d.keys.open(pd, key, addr, n, need)
	return b, fault == keyGood
}
