package qp

import (
	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// The journey of a work request through the Sender:
//
//  1. A program reserves a slot of the send queue, fills it, publishes it, and
//     wakes the send item; Step sees it.
//  2. It begins when its turn comes: it gets its packet numbers; a fence waits
//     for earlier READs, a local invalidation for everything, a bind for nothing.
//  3. Packet by packet it is sent: headers are laid out, payload is referred to
//     where it lies. The window bounds what is outstanding (window.go), the
//     number of READs and atomics is bounded by what the peer remembers.
//  4. Responses move the oldest outstanding packet on (completer.go), or send
//     the cursor back to it: gaps, absent receives, time (retry.go).
//  5. A request that is acknowledged completes in its turn, once no frame
//     refers to its memory any more.

// A Wait is why a Sender sends nothing.
type Wait uint8

// The reasons.
const (
	WaitNothing  Wait = iota // it is not waiting
	WaitWork                 // nothing is posted
	WaitWindow               // enough is outstanding
	WaitFence                // earlier READs and atomics are outstanding
	WaitEarlier              // earlier requests have to be done
	WaitRdAtomic             // the peer can remember no more READs and atomics
	WaitReceive              // the peer had no receive
	WaitFrame                // the device has no free frame
	WaitDrain                // the queue is drained
)

var waitNames = [...]string{
	"nothing", "work", "window", "fence", "earlier", "rd-atomic", "receive", "frame", "drain",
}

// String returns the reason.
func (w Wait) String() string { return waitNames[w] }

// request sends up to budget packets and reports whether it could send more.
func (s *Sender) request(budget int) (more bool) {
	s.wait = WaitNothing
	n, full := s.handOver(budget)
	if full {
		return true
	}
	for ; n < budget; n += s.took {
		s.took = 1
		if s.wait = s.send(); s.wait != WaitNothing {
			return false
		}
		if s.state == Failed {
			return true
		}
	}
	return true
}

// send does one thing of the request at the cursor.
func (s *Sender) send() Wait {
	if s.pace.resume != 0 {
		return WaitReceive
	}
	if s.at.wqe == s.tail {
		return WaitWork
	}
	w := s.slot(s.at.wqe)
	if w.state == wqePosted {
		if why := s.begin(w); why != WaitNothing {
			return why
		}
	}
	switch {
	case w.state == wqeFailed:
		return s.failInTurn(w)
	case w.Op == OpBindMW:
		return s.bind(w)
	case w.Op == OpLocalInv:
		return s.invalidate(w)
	case w.Op >= OpRead:
		return s.sendRead(w)
	}
	return s.sendPacket(w, false)
}

// begin starts a request, if it may.
func (s *Sender) begin(w *WQE) Wait {
	switch {
	case s.state != Running:
		return WaitDrain
	case w.Flags&Fence != 0 && s.reads > 0:
		return WaitFence
	case w.Op == OpLocalInv && s.acked != s.at.wqe:
		return WaitEarlier
	}
	w.state = wqeSent
	w.status = s.valid(w)
	if w.status != StatusSuccess {
		w.state = wqeFailed
	}
	w.first = s.at.seq
	w.end = w.first + 1
	if w.Op <= OpRead && int(w.Len) > s.mtu && w.state == wqeSent {
		w.end = w.first + (int64(w.Len)+int64(s.mtu)-1)>>s.shift
	}
	if w.Op >= OpRead {
		s.cut(w)
	}
	return WaitNothing
}

// cut settles what is asked for at once: all of a READ if it fits the window,
// else pieces of half the window, so that one is under way while the next is.
func (s *Sender) cut(w *WQE) {
	w.piece = int32(w.end - w.first)
	if size := s.window.size(); int(w.piece) > size {
		w.piece = int32(max(1, size/2))
	}
}

// valid tells whether a request can be executed at all.
func (s *Sender) valid(w *WQE) Status {
	readLike := w.Op >= OpRead && w.Op < OpLocalInv
	switch {
	case w.Op >= opCount,
		readLike && (s.cfg.MaxRdAtomic == 0 || w.Flags&Inline != 0 && w.Op != OpAtomicWrite),
		w.Op == OpFlush && !w.canFlush(),
		w.Flags&Inline != 0 && uint32(len(w.Data)) != w.Len:
		return StatusLocQPOp
	case w.Len > maxMessage, readLike && w.Op != OpRead && w.Op != OpFlush && w.Len != 8:
		return StatusLocLen
	}
	return StatusSuccess
}

// failInTurn fails the queue pair over a request that cannot be executed, once
// all requests before it are done: the first error is that of the first
// request that has one.
func (s *Sender) failInTurn(w *WQE) Wait {
	if s.acked != s.at.wqe {
		return WaitEarlier
	}
	s.fail(w.status)
	return WaitNothing
}

// invalidate executes a local invalidation. It has no packet, and all before it
// is done.
func (s *Sender) invalidate(w *WQE) Wait {
	if !s.env.InvalidateLocal(w.Imm) {
		w.state, w.status = wqeFailed, StatusLocQPOp
		return WaitNothing
	}
	w.end = w.first
	s.at.wqe++
	s.acked++
	s.reap()
	return WaitNothing
}

// sendRead sends a READ REQUEST, an atomic or a FLUSH. A READ longer than the window is
// asked for in pieces, always the same ones: what is asked for again must lie
// within one request of before.
func (s *Sender) sendRead(w *WQE) Wait {
	end := s.pieceEnd(w, s.at.seq)
	if s.at.seq > s.una && int(end-s.una) > s.window.size() {
		return WaitWindow
	}
	if s.reads >= int(s.cfg.MaxRdAtomic) {
		return WaitRdAtomic
	}
	f := s.env.Frame()
	if f == nil {
		return WaitFrame
	}
	if !s.layOutRead(w, f, end) {
		s.dropUnsent(w, f)
		return WaitNothing
	}
	s.reads++
	s.sent(end, true)
	s.passed(w)
	s.env.Emit(f)
	return WaitNothing
}

// layOutRead writes the headers of what sendRead sends, and reports whether it
// could.
func (s *Sender) layOutRead(w *WQE, f *frame.Frame, end int64) bool {
	h := s.layOut(f, requestOpcodes[w.Op][onlyPacket], true)
	f.Token = noRequest
	switch w.Op {
	case OpCompareSwap, OpFetchAdd:
		h.AtomicETH().Set(w.RemoteAddr, w.RKey, w.SwapAdd, w.Compare)
		return true
	case OpAtomicWrite:
		return s.layOutAtomicWrite(w, f, h)
	case OpFlush:
		w.layOutFlush(h)
		return true
	}
	off := uint64(s.at.seq-w.first) << s.shift
	n := min(uint64(end-s.at.seq)<<s.shift, uint64(w.Len)-off)
	h.RETH().Set(w.RemoteAddr+off, w.RKey, uint32(n))
	return true
}

// pieceEnd returns one after the last packet of the READ request that packet
// seq of w belongs to.
func (s *Sender) pieceEnd(w *WQE, seq int64) int64 {
	n := int64(w.piece)
	return min(w.end, w.first+((seq-w.first)/n+1)*n)
}

// sendPacket sends one packet of a SEND or WRITE. With probe, the window does
// not count.
func (s *Sender) sendPacket(w *WQE, probe bool) Wait {
	out, size := int(s.at.seq-s.una)+1, s.window.size()
	// Who has to wait has asked: one packet more than the window may go out
	// to ask for an acknowledgement.
	if out > size && s.asked >= s.una && !probe {
		return WaitWindow
	}
	f := s.env.Frame()
	if f == nil {
		return WaitFrame
	}
	k := s.at.seq - w.first
	off := uint64(k) << s.shift
	n := int(min(uint64(s.mtu), uint64(w.Len)-off))
	last := s.at.seq+1 == w.end
	if k > 0 && !last && !probe {
		if s.took = s.train(w, size-out+1); s.took > 1 {
			f.Train = uint8(s.took)
			n = s.took << s.shift
		}
	}
	out, s.quiet = out+s.took-1, s.quiet+s.took-1
	ask := last && s.asks(w) || out >= size || s.quiet >= min(64, size/2) || probe
	h := s.layOut(f, requestOpcodes[w.Op][position(k == 0, last)], ask)
	if x := h.RETH(); x != nil {
		x.Set(w.RemoteAddr, w.RKey, w.Len)
	}
	if last {
		if x := h.ImmDt(); x != nil {
			x.SetValue(w.Imm)
		}
		if x := h.IETH(); x != nil {
			x.SetRKey(w.Imm)
		}
		h.BTH().SetSolicited(w.Flags&Solicited != 0 && w.Op != OpWrite)
	}
	f.Token = noRequest
	if n > 0 {
		f.Token = uint64(s.at.wqe)
		w.out++
		if !s.load(w, f, off, n) {
			s.dropUnsent(w, f)
			return WaitNothing
		}
		f.Len, f.Pad = n, uint8(roce.PadFor(n))
		h.BTH().SetPad(int(f.Pad))
	}
	if last && !ask {
		s.spared++
	}
	s.sent(s.at.seq+int64(s.took), ask)
	s.passed(w)
	s.env.Emit(f)
	return WaitNothing
}

// dropUnsent gives a frame back, whose payload may not be read, as if it had
// been sent. The request fails in its turn.
func (s *Sender) dropUnsent(w *WQE, f *frame.Frame) {
	f.Handed()
	f.Back()
	w.state, w.status = wqeFailed, StatusLocProt
}

// passed moves the cursor on to the next request when w is sent.
func (s *Sender) passed(w *WQE) {
	if s.at.seq == w.end {
		s.at.wqe++
		s.at.place = place{}
	}
}

// load refers the payload of f to n bytes of the request.
func (s *Sender) load(w *WQE, f *frame.Frame, off uint64, n int) bool {
	if w.Flags&Inline != 0 {
		f.Payload = append(f.Payload, w.Data[off:off+uint64(n)])
		return true
	}
	return s.at.place.gather(s.env, w.SG, f, n)
}

// layOut writes what the headers of all requests have.
func (s *Sender) layOut(f *frame.Frame, op roce.Opcode, ask bool) roce.Headers {
	h := roce.Build(&f.Head, op)
	b := h.BTH()
	b.SetDestQP(s.cfg.DestQPN)
	b.SetPSN(psnOf(s.at.seq))
	b.SetAckReq(ask)
	f.HeadLen, f.Pad, f.Len = uint8(h.Len()), 0, 0
	return h
}

// sent moves the cursor on behind packets that are sent now, up to end.
func (s *Sender) sent(end int64, ask bool) {
	if s.pace.idle() {
		s.pace.start(&s.cfg, s.clock())
	}
	s.quiet++
	if ask {
		if s.at.seq >= s.high {
			s.pace.measure(end-1, s.clock())
		}
		s.asked, s.quiet, s.spared = end-1, 0, 0
	}
	s.at.seq = end
	s.high = max(s.high, end)
}
