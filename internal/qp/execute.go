package qp

import "github.com/gantry-rdma/gantry/roce"

// execute does what the request in hand asks for, and moves the expected
// sequence number on. After that there is no way back: a refusal must come
// before anything was done.
func (r *Responder) execute() step {
	switch p := &r.packet; {
	case p.has(roce.IsSend):
		if !r.fill() {
			return r.no(badReceive)
		}
		if h := p.h.IETH(); h != nil && !r.env.InvalidateRemote(h.RKey()) {
			return r.no(badInvalKey)
		}
		r.advance(sendMessage)
	case p.has(roce.IsWrite):
		r.put()
		r.advance(writeMessage)
	case p.has(roce.IsRead):
		r.beginRead()
		return stepDone
	case p.has(roce.IsAtomic):
		r.atomic()
		return stepDone
	case p.has(roce.IsAtomicWrite):
		r.atomicWrite()
		return stepDone
	default:
		return r.flushMemory()
	}
	return stepComplete
}

// advance moves on behind a packet of a SEND or WRITE.
func (r *Responder) advance(of message) {
	r.plain = r.expected.Add(r.packet.train - 1)
	r.expected = r.plain.Next()
	r.inside = of
	if r.packet.has(roce.IsEnd) {
		r.inside = noMessage
		r.msn++
	}
}

// fill copies the payload into the receive in use.
func (r *Responder) fill() bool { return r.fillBehind(nil) }

// fillBehind copies head and then the payload into the receive in use.
func (r *Responder) fillBehind(head []byte) bool {
	n := len(head) + r.packet.n
	s := scatter{n: n}
	if len(head) > 0 && !r.place.copyPart(r.env, r.recv.SG, &s, head) {
		return false
	}
	for _, part := range r.packet.payload {
		if !r.place.copyPart(r.env, r.recv.SG, &s, part) {
			return false
		}
	}
	r.got += uint32(n)
	return true
}

// put copies the payload of a WRITE to where the message has come to.
func (r *Responder) put() {
	mem := r.packet.mem
	for _, part := range r.packet.payload {
		mem = mem[copy(mem, part):]
	}
	n := uint32(r.packet.n)
	r.write.va += uint64(n)
	r.write.left -= n
}

// atomic executes a COMPARE SWAP or FETCH ADD, and remembers what was there:
// the same request again must not be executed again.
func (r *Responder) atomic() {
	p := &r.packet
	h := p.h.AtomicETH()
	op := atomicOp(p.h.Opcode())
	before := r.env.Atomic(p.mem, op, h.Compare(), h.SwapAdd())
	r.saved.add(resource{psn: p.psn, packets: 1, op: op, before: before})
	r.expected = r.expected.Next()
	r.msn++
	r.owe(answer{kind: answerAtomic, psn: p.psn, before: before, first: true})
}

// atomicOp returns what an atomic asks for.
func atomicOp(o roce.Opcode) Op {
	if o == roce.RCCompareSwap {
		return OpCompareSwap
	}
	return OpFetchAdd
}

// complete completes the receive in use with the last packet of its message.
func (r *Responder) complete() step {
	p := &r.packet
	if p.has(roce.EndsReceive) {
		e := &r.cqe
		e.ByteLen, e.Status, e.Op, e.Solicited = r.got, StatusSuccess, OpRecv, p.h.BTH().Solicited()
		e.Imm, e.WithImm, e.WithInv, e.WithGRH = 0, false, false, false
		if h := p.h.ImmDt(); h != nil {
			r.cqe.Imm, r.cqe.WithImm = h.Value(), true
			if p.has(roce.IsWrite) {
				r.cqe.Op = OpRecvWriteImm
			}
		}
		if h := p.h.IETH(); h != nil {
			r.cqe.Imm, r.cqe.WithInv = h.RKey(), true
		}
		if !r.completeReceive() {
			return stepDone
		}
	}
	return stepAcknowledge
}

// completeReceive puts r.cqe into the completion queue for the receive in use.
// A full queue is the end of the queue pair.
func (r *Responder) completeReceive() bool { return r.completeFrom(r.cfg.DestQPN) }

// completeFrom is completeReceive for what that queue pair has sent.
func (r *Responder) completeFrom(peer uint32) bool {
	r.cqe.ID, r.cqe.QPN, r.cqe.SrcQP = r.recv.ID, r.cfg.QPN, peer
	w := r.recv
	r.recv = nil
	if r.env.CompleteReceive(w, &r.cqe) {
		return true
	}
	if r.state != Failed {
		r.Fail()
		r.env.Fatal(StatusGeneral)
	}
	return false
}

// acknowledge owes the peer an acknowledgement if it asked for one.
func (r *Responder) acknowledge() step {
	if r.packet.ask {
		r.oweAck()
	}
	return stepDone
}

// tellGap says once which packet is missing; until it comes, what follows it
// is dropped.
func (r *Responder) tellGap() step {
	if r.gapTold {
		r.env.Count(CountDropGap)
		return stepDone
	}
	r.gapTold = true
	r.env.Count(CountOutOfSequence)
	r.owe(answer{kind: answerNak, psn: r.expected, syndrome: roce.NakSequence})
	return stepDone
}

// tellNotReady asks the peer to come again later. What it sent behind the
// packet will be dropped, and needs no NAK of its own.
func (r *Responder) tellNotReady() step {
	r.gapTold = true
	r.env.Count(CountSentRNR)
	r.owe(answer{kind: answerNak, psn: r.packet.psn, syndrome: roce.RNRNak(r.cfg.MinRNRTimer)})
	return stepDone
}

// refuse ends the connection over the packet in hand: the peer is told, and a
// receive in use completes with the reason.
func (r *Responder) refuse() step {
	why := r.packet.reason
	if why.nak != 0 {
		r.owe(answer{kind: answerNak, psn: r.packet.psn, syndrome: why.nak})
	}
	r.fail(why.recv)
	return stepDone
}

// fail goes to the error state because of the peer.
func (r *Responder) fail(why Status) {
	r.Fail()
	if r.recv != nil {
		r.cqe = CQE{Status: why}
		r.completeReceive()
	}
	r.env.Fatal(why)
}

// flush completes posted receives that will never be used: the one in use, and
// what is in the queue pair's own queue. A shared queue goes on without it.
func (r *Responder) flush(budget int) (more bool) {
	for range budget {
		if r.recv == nil && !r.cfg.SharedReceive {
			r.recv = r.env.TakeReceive()
		}
		if r.recv == nil {
			r.tellLast()
			return false
		}
		r.cqe = CQE{Status: StatusFlushed}
		r.completeReceive()
	}
	return true
}

// tellLast reports, once, that no receive of a shared queue is in use any more.
func (r *Responder) tellLast() {
	if r.cfg.SharedReceive && !r.flushed {
		r.flushed = true
		r.env.Raise(LastWQEReached)
	}
}
