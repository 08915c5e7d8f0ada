package qp

import (
	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// An answer is a response of one packet.
type answer struct {
	kind     answerKind
	syndrome roce.Syndrome // of a NAK
	psn      roce.PSN
	before   uint64 // of an atomic
	first    bool   // of an atomic or ATOMIC WRITE: it was not answered before
}

type answerKind uint8

const (
	noAnswer answerKind = iota
	answerNak
	answerAtomic
	answerEmpty // of a FLUSH or an ATOMIC WRITE: a READ response without data
)

// answers is what a Responder owes its peer. Acknowledgements merge, because
// one covers all before it; of anything else there is one at a time, and the
// next request waits until it is sent. So answers leave in the order of their
// requests, whatever happens to be short.
type answers struct {
	ack    bool
	ackPSN roce.PSN
	other  answer
}

// oweAck owes an acknowledgement of all SENDs and WRITEs so far. It never names
// a READ or an atomic: those have answers of their own.
func (r *Responder) oweAck() {
	if r.answers.ack {
		r.env.Count(CountAckDeferred)
	}
	r.answers.ack, r.answers.ackPSN = true, r.plain
}

// owe owes something else, and sends it at once if there is a frame.
func (r *Responder) owe(a answer) {
	r.answers.other = a
	r.sendAnswers()
}

// busy reports whether the next request has to wait for the answer to an
// earlier one.
func (r *Responder) busy() bool {
	return r.reading.active || r.answers.other.kind != noAnswer
}

// answer sends what is owed, up to budget packets, and reports whether it could
// send more.
func (r *Responder) answer(budget int) (more bool) {
	if !r.sendAnswers() {
		return false // woken when there are frames
	}
	return r.reading.active && r.read(budget)
}

// sendAnswers sends all but READ responses, and reports whether nothing is left.
func (r *Responder) sendAnswers() bool {
	a := &r.answers
	if a.ack {
		f := r.env.Frame()
		if f == nil {
			return false
		}
		a.ack = false
		r.respond(f, roce.RCAck, a.ackPSN, roce.AckUnlimited)
		r.env.Emit(f)
	}
	if a.other.kind == noAnswer {
		return true
	}
	f := r.env.Frame()
	if f == nil {
		return false
	}
	switch a.other.kind {
	case answerAtomic:
		h := r.respond(f, roce.RCAtomicAck, a.other.psn, roce.AckUnlimited)
		h.AtomicAckETH().SetOriginal(a.other.before)
	case answerEmpty:
		r.respond(f, roce.RCReadResponseOnly, a.other.psn, roce.AckUnlimited)
	default:
		r.respond(f, roce.RCAck, a.other.psn, a.other.syndrome)
	}
	if a.other.first {
		r.holdToDepth(a.other.psn.Next())
	}
	a.other.kind = noAnswer
	r.env.Emit(f)
	return true
}

// respond lays out a response in f.
func (r *Responder) respond(f *frame.Frame, op roce.Opcode, psn roce.PSN, s roce.Syndrome) roce.Headers {
	h := roce.Build(&f.Head, op)
	b := h.BTH()
	b.SetDestQP(r.cfg.DestQPN)
	b.SetPSN(psn)
	if a := h.AETH(); a != nil {
		a.Set(s, r.msn)
	}
	f.HeadLen, f.Pad, f.Len, f.Token = uint8(h.Len()), 0, 0, noRequest
	return h
}
