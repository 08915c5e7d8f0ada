package nic

import (
	"encoding/binary"

	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
)

// A sendHalf runs the requester and completer of a queue pair, and is the
// qp.Env of it.
type sendHalf struct {
	half
	m      qp.Sender
	path   *path     // that its packets take; nil: nothing overflows there
	onPath int64     // packets outstanding, as the path knows
	visits *recvHalf // of the peer, that the run of this half has entered
	floods bool      // nobody answers what goes to the wire
}

// A recvHalf runs the responder of a queue pair, and is the qp.Env of it.
type recvHalf struct {
	half
	rq    recvQueue
	srq   *SRQ   // where receives come from instead of rq, or nil
	pd    *PD    // of the memory of receives
	ended uint32 // receives completed
	m     qp.Responder
}

var (
	_ qp.Env = (*sendHalf)(nil)
	_ qp.Env = (*recvHalf)(nil)
)

// burst is how many packets a half sends or executes in one run, whatever its
// budget. What one run emits the next ones read: with more than this, frames
// and payloads have left the nearest cache by then, and WRITEs of 64 KiB go at
// a fifth of the speed.
//
// Through a socket everything is copied once more, and a run costs system calls
// and an acknowledgement: so it is more there, and the second cache holds it.
// One datagram that the kernel cuts has room for 62 packets of 1 KiB, 15 of 4
// KiB: with 60 none goes out half empty. The receive path takes no more at once
// either.
const (
	burst       = 16
	burstOnWire = 60
)

// run is one run of the send half.
func (s *sendHalf) run(budget int) (more bool) {
	budget = min(budget, s.d.burst)
	s.begin()
	if s.commands.Load() != 0 {
		s.obey(s.commands.Swap(0))
	}
	n := 0
	for f := s.next(); f != nil && n < budget; f = s.next() {
		n += f.Packets()
		s.m.Receive(f, s.Now())
		s.finish()
	}
	s.giveBack()
	s.inside, s.running, s.heard = true, true, false
	more = s.m.Step(s.time(), budget)
	s.inside = false
	if s.whole > 0 {
		s.passWhole()
	}
	if r := s.visits; r != nil {
		s.visits = nil
		r.leave()
	}
	if c := s.circle; c != nil && c.touched.first != nil {
		c.answer(budget)
		more = more || s.heard && s.m.Waiting() != qp.WaitWork
	}
	s.running = false
	if s.path != nil {
		s.learn()
	}
	if s.floods && s.circle != nil {
		s.circle.flood = true
	}
	s.d.timers.schedule(&s.half, s.m.Deadline())
	return s.end() || more
}

// time returns when the run began, or 0 if nobody has asked yet.
func (h *half) time() qp.Instant {
	if h.circle != nil {
		return h.circle.now
	}
	return h.now
}

// Now is part of qp.Env.
func (h *half) Now() qp.Instant {
	if h.circle != nil {
		return h.circle.clock()
	}
	return h.now
}

func (s *sendHalf) obey(c uint32) {
	if c&cmdDrain != 0 {
		s.m.Drain()
	}
	if c&cmdResume != 0 {
		s.m.Resume()
	}
	if c&cmdFail != 0 {
		s.m.Fail()
	}
}

// run is one run of the receive half. A packet that the machine does not take
// yet stays first in line. A half that got no frame does not ask to run again:
// it is woken when there is one.
func (r *recvHalf) run(budget int) (more bool) {
	budget = min(budget, r.d.burst)
	r.begin()
	queued, ended := r.d.tx.n, r.ended
	if r.commands.Load() != 0 && r.commands.Swap(0)&cmdFail != 0 {
		r.m.Fail()
	}
	n := 0
	for f := r.next(); f != nil && n < budget; f = r.next() {
		if !r.m.Receive(f, r.time()) {
			break
		}
		n += f.Packets()
		r.finish()
	}
	r.giveBack()
	more = r.m.Step(r.time(), budget)
	// The program may have an answer to what has just completed.
	if tx := &r.d.tx; r.circle != nil && r.ended == ended+1 && tx.n == queued+1 {
		tx.keep(roce.RCAck, r.Now())
	}
	r.free()
	waits := r.end()
	return more || waits && !r.dry
}

// free lets the slots of receives that completed be posted again.
func (r *recvHalf) free() {
	if r.srq == nil {
		r.rq.free()
	} else {
		r.srq.free(r.circle != nil)
	}
}

// Local is part of qp.Env.
func (h *half) Local(lkey uint32, addr uint64, n int, write bool) ([]byte, bool) {
	var need qp.Access
	if write {
		need = qp.LocalWrite
	}
	b, fault := h.d.keys.open(h.q.pd, lkey, addr, n, need)
	if fault != keyGood {
		h.d.fault(fault)
	}
	return b, fault == keyGood
}

// Local is part of qp.Env: the memory of receives is of the domain of their queue.
func (r *recvHalf) Local(lkey uint32, addr uint64, n int, _ bool) ([]byte, bool) {
	b, fault := r.d.keys.open(r.pd, lkey, addr, n, qp.LocalWrite)
	if fault != keyGood {
		r.d.fault(fault)
	}
	return b, fault == keyGood
}

// Remote is part of qp.Env.
func (h *half) Remote(rkey uint32, addr uint64, n int, need qp.Access) ([]byte, bool) {
	b, fault := h.d.keys.open(h.q.pd, rkey, addr, n, need)
	if fault != keyGood {
		// It may be the key of a window.
		if b, fault = h.d.keys.openRemote(h.q, rkey, addr, n, need); fault != keyGood {
			h.d.fault(fault)
		}
	}
	return b, fault == keyGood
}

// Atomic is part of qp.Env.
func (h *half) Atomic(mem []byte, op qp.Op, compare, swapAdd uint64) (before uint64) {
	h.d.atomics.Lock()
	defer h.d.atomics.Unlock()
	before = binary.NativeEndian.Uint64(mem)
	switch {
	case op == qp.OpAtomicWrite:
		binary.NativeEndian.PutUint64(mem, swapAdd)
	case op == qp.OpFetchAdd:
		binary.NativeEndian.PutUint64(mem, before+swapAdd)
	case before == compare:
		binary.NativeEndian.PutUint64(mem, swapAdd)
	}
	return before
}

// InvalidateLocal is part of qp.Env.
func (h *half) InvalidateLocal(key uint32) bool {
	return h.d.keys.invalidate(h.q, key, false)
}

// InvalidateRemote is part of qp.Env.
func (h *half) InvalidateRemote(rkey uint32) bool {
	return h.d.keys.invalidate(h.q, rkey, true)
}

// BindWindow is part of qp.Env.
func (h *half) BindWindow(b *qp.Binding) bool { return h.d.keys.bind(h.q, b) }

// TakeReceive is part of qp.Env; a send half has no receives.
func (h *half) TakeReceive() *qp.RecvWQE { return nil }

// TakeReceive is part of qp.Env.
func (r *recvHalf) TakeReceive() *qp.RecvWQE {
	if r.srq != nil {
		return r.srq.take(r.circle != nil)
	}
	return r.rq.take()
}

// CompleteSend is part of qp.Env; a receive half has no sends.
func (h *half) CompleteSend(e *qp.CQE) bool {
	h.count(&h.d.tally.own[countSends], 1)
	if h.by != nil && h.by.ended+1 == entryBatch {
		h.sender.Free() // before the batch is shown
	}
	return h.complete(e)
}

// CompleteReceive is part of qp.Env; a send half has no receives.
func (h *half) CompleteReceive(_ *qp.RecvWQE, e *qp.CQE) bool { return h.complete(e) }

// GiveUpReceive is part of qp.Env; a send half has no receives.
func (h *half) GiveUpReceive(*qp.RecvWQE) {}

// GiveUpReceive is part of qp.Env. A shared queue gets its receive back; the
// queue pair's own is reset with it. Only Reset calls it, which is outside of
// all runs.
func (r *recvHalf) GiveUpReceive(w *qp.RecvWQE) {
	if r.srq != nil {
		r.srq.repost(w)
	}
}

// CompleteReceive is part of qp.Env. The slot of the receive is free again,
// even if its entry was lost.
func (r *recvHalf) CompleteReceive(w *qp.RecvWQE, e *qp.CQE) bool {
	r.ended++
	r.count(&r.d.tally.own[countReceives], 1)
	if r.srq != nil {
		r.srq.done(w, r.circle != nil)
		return r.complete(e)
	}
	r.rq.completed++
	if r.by != nil && r.by.ended+1 == entryBatch {
		r.rq.free() // before the batch is shown
	}
	return r.complete(e)
}

// WindowCap is part of qp.Env; a receive half has no window.
func (h *half) WindowCap() int { return 0 }

// WindowCap is part of qp.Env: an equal share for each who waits for answers,
// of the frames and of what the path carries.
func (s *sendHalf) WindowCap() int {
	halves := max(s.d.timers.size.Load(), 1)
	n := int64(s.pool.size())
	if halves > 1 { // a division is dear
		n = max(n/halves, leastWindow)
	}
	if s.path != nil {
		n = min(n, s.path.share(halves, s.onPath))
	}
	return int(n)
}

// learn tells the path what the machine has learned.
func (s *sendHalf) learn() {
	f := s.m.Feedback()
	s.onPath = s.path.heed(&f, s.onPath, s.Now(), int64(s.pool.size()))
}

// takePath goes on with another path, or with none. Nobody runs the half.
func (s *sendHalf) takePath(p *path) {
	if s.path != nil {
		s.path.heed(&qp.Feedback{}, s.onPath, 0, 0)
	}
	s.path, s.onPath = p, 0
}

var eventKinds = [...]EventKind{
	qp.CommEstablished: EventCommEstablish, qp.SendQueueDrained: EventSQDrained, qp.LastWQEReached: EventLastWQE,
}

// Raise is part of qp.Env.
func (h *half) Raise(e qp.Event) {
	h.q.happened(e)
	if e != qp.SendQueueDrained || h.q.tellDrained.Load() {
		h.d.raise(Event{Kind: eventKinds[e], QP: h.q})
	}
}

// Fatal is part of qp.Env: this half has failed, and the other one follows.
func (s *sendHalf) Fatal(qp.Status) { s.q.fail(&s.half, &s.q.recv.half) }

// Fatal is part of qp.Env: this half has failed, and the other one follows.
func (r *recvHalf) Fatal(st qp.Status) {
	switch st {
	case qp.StatusRemAccess:
		r.d.raise(Event{Kind: EventQPAccess, QP: r.q})
	case qp.StatusRemInvRequest:
		r.d.raise(Event{Kind: EventQPRequest, QP: r.q})
	}
	r.q.fail(&r.half, &r.q.send.half)
}

// Count is part of qp.Env.
func (h *half) Count(c qp.Counter) { h.count(&h.d.tally.machine[c], 1) }
