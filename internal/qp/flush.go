package qp

import "github.com/gantry-rdma/gantry/roce"

// A FLUSH makes the peer's memory catch up: when it is answered, all that the
// queue pair wrote before is visible to everybody there (global), or is still
// there after a loss of power (persistent). It is answered with a READ response
// without data, and counted among the READs: it may take long, a fence waits
// for it, and peers remember it like one.
//
// The Responder executes requests in order, and what it has executed is in its
// place; so what is left to do is the device's.

// A FlushTarget is the memory that a peer's FLUSH is for.
type FlushTarget struct {
	RKey      uint32
	Addr      uint64 // with FlushRange
	Len       uint32 // with FlushRange: bytes, may be none
	Level     roce.FlushLevel
	Placement roce.Placement
}

// Need returns the rights that the FLUSH takes.
func (t *FlushTarget) Need() (a Access) {
	if t.Placement&roce.PlaceGlobal != 0 {
		a |= RemoteFlushGlobal
	}
	if t.Placement&roce.PlacePersistent != 0 {
		a |= RemoteFlushPersistent
	}
	return a
}

// known reports whether there is such a FLUSH.
func (t *FlushTarget) known() bool {
	const all = roce.PlaceGlobal | roce.PlacePersistent
	return t.Placement != 0 && t.Placement&^all == 0 && t.Level <= roce.FlushRegion
}

// canFlush reports whether a FLUSH can be executed at all.
func (w *WQE) canFlush() bool {
	t := FlushTarget{Level: w.Level, Placement: w.Placement}
	return t.known() && len(w.SG) == 0
}

// layOutFlush writes the headers of a FLUSH. A whole region has no address and
// no length.
func (w *WQE) layOutFlush(h roce.Headers) {
	h.FETH().Set(w.Placement, w.Level)
	if w.Level == roce.FlushRange {
		h.RETH().Set(w.RemoteAddr, w.RKey, w.Len)
		return
	}
	h.RETH().Set(0, w.RKey, 0)
}

// takeEmpty takes the answer to a FLUSH or an ATOMIC WRITE.
func (s *Sender) takeEmpty(w *WQE, r *response) compStep {
	const only = roce.IsReadResponse | roce.IsOnly
	if w.Op != OpFlush && w.Op != OpAtomicWrite || r.is&only != only || r.f.Len != 0 ||
		r.h.BTH().Pad() != 0 || r.h.AETH().Syndrome().Kind() != roce.KindAck {
		return compBad
	}
	s.answered(w, r.seq, true)
	return compProgress
}

// checkFlush asks whether there is such a FLUSH, and whether the queue pair
// lets the peer do it. The specification wants a missing right answered as an
// access error; the kernel's driver says invalid request.
func (r *Responder) checkFlush() step {
	t := r.packet.flushTarget()
	switch {
	case !t.known(), t.Level == roce.FlushRange && t.Len > maxMessage:
		return r.no(badRequest)
	case r.cfg.Access&t.Need() != t.Need():
		return r.no(noAccess)
	}
	return stepReceive
}

// flushTarget returns what the FLUSH in hand is for.
func (p *packet) flushTarget() FlushTarget {
	h, x := p.h.RETH(), p.h.FETH()
	return FlushTarget{RKey: h.RKey(), Addr: h.VA(), Len: h.DMALen(), Level: x.Level(), Placement: x.Placement()}
}

// flushMemory executes a FLUSH.
func (r *Responder) flushMemory() step {
	r.flushing = r.packet.flushTarget()
	if !r.env.Flush(&r.flushing) {
		return r.no(noAccess)
	}
	r.expected = r.expected.Next()
	r.msn++
	r.owe(answer{kind: answerEmpty, psn: r.packet.psn})
	return stepDone
}
