package qp

import (
	"encoding/binary"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// An ATOMIC WRITE stores 8 bytes in one piece: who reads the word sees it as it
// was or as it will be. It is one packet with its payload, ordered and
// remembered like an atomic, answered like a FLUSH, and needs the right to
// write.

// layOutAtomicWrite writes the headers of an ATOMIC WRITE and refers to its
// payload. It reports whether it could.
func (s *Sender) layOutAtomicWrite(w *WQE, f *frame.Frame, h roce.Headers) bool {
	h.RETH().Set(w.RemoteAddr, w.RKey, 8)
	f.Token, f.Len = uint64(s.at.wqe), 8
	w.out++
	return s.load(w, f, 0, 8)
}

// checkAtomicWrite looks the word up that the request in hand names.
func (r *Responder) checkAtomicWrite() step {
	p := &r.packet
	h := p.h.RETH()
	if p.f.Len != 8 || h.DMALen() != 8 || h.VA()%8 != 0 {
		return r.no(badRequest)
	}
	return r.lookUp(target{h.VA(), h.RKey(), 8}, RemoteWrite)
}

// atomicWrite executes an ATOMIC WRITE, and remembers it: the same request
// again must not undo what was written since.
func (r *Responder) atomicWrite() {
	p := &r.packet
	var b [8]byte
	n := 0
	for _, part := range p.f.Payload {
		n += copy(b[n:], part)
	}
	r.env.Atomic(p.mem, OpAtomicWrite, 0, binary.NativeEndian.Uint64(b[:]))
	r.saved.add(resource{psn: p.psn, packets: 1, op: OpAtomicWrite})
	r.expected = r.expected.Next()
	r.msn++
	r.owe(answer{kind: answerEmpty, psn: p.psn, first: true})
}
