package qp

import "github.com/gantry-rdma/gantry/roce"

// duplicate answers a request that was executed before, because the answer was
// lost or is late. It is not executed again: a SEND or WRITE is acknowledged
// with the newest sequence number, a READ is read again, an atomic is answered
// from memory. What a FLUSH asked for was done before its first answer, and is
// still: it needs no memory.
func (r *Responder) duplicate() step {
	p := &r.packet
	r.env.Count(CountDuplicate)
	switch {
	case p.has(roce.IsSend), p.has(roce.IsWrite):
		r.oweAck()
	case p.has(roce.IsRead):
		r.readAgain(r.saved.find(p.psn))
	case p.has(roce.IsAtomic):
		x := r.saved.find(p.psn)
		if x == nil || x.op != atomicOp(p.h.Opcode()) {
			r.env.Count(CountDropReplay)
			break
		}
		r.owe(answer{kind: answerAtomic, psn: p.psn, before: x.before})
	case p.has(roce.IsAtomicWrite):
		if x := r.saved.find(p.psn); x == nil || x.op != OpAtomicWrite {
			r.env.Count(CountDropReplay)
			break
		}
		r.owe(answer{kind: answerEmpty, psn: p.psn})
	case p.has(roce.IsFlush):
		r.owe(answer{kind: answerEmpty, psn: p.psn})
	default:
		r.env.Count(CountDropMalformed)
	}
	return stepDone
}

// readAgain answers a READ, or a rest of it, from where the peer asks. The
// memory must lie within what was asked for the first time.
func (r *Responder) readAgain(x *resource) {
	p := &r.packet
	h := p.h.RETH()
	want := target{h.VA(), h.RKey(), h.DMALen()}
	if x == nil || x.op != OpRead || !x.covers(want) || r.packetsOf(want.left) > x.packets-p.psn.Sub(x.psn) {
		r.env.Count(CountDropReplay)
		return
	}
	r.reading = reading{active: true, again: true, first: true, psn: p.psn, memory: want}
	if r.sendAnswers() {
		r.read(1)
	}
}

// covers reports whether want is a part of the memory of a READ.
func (x *resource) covers(want target) bool {
	if want.left == 0 {
		return x.memory.left == 0
	}
	off := want.va - x.memory.va // wraps to a large number when it lies before
	return want.rkey == x.memory.rkey && off < uint64(x.memory.left) &&
		uint64(want.left) <= uint64(x.memory.left)-off
}
