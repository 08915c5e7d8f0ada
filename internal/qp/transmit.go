package qp

import "github.com/gantry-rdma/gantry/roce"

// The journey of a work request through the Sender of an unreliable transport,
// where nobody answers:
//
//  1. It begins as on a reliable connection, if it is one that the transport
//     has (possible).
//  2. Packet by packet it is sent. What bounds a flood is the number of frames
//     that are out: the link gives them back when it has passed them on.
//  3. With its last packet it is as good as acknowledged. It completes in its
//     turn, once all of its frames are back: then its memory may change, and a
//     peer that is slow still gets the old bytes.
//
// The numbers of the Sender keep their meaning: nothing sent is ever
// outstanding, so una, high and the cursor are one, and no timer runs.

// GSIQKey is the well-known Q_Key of queue pair 1, which has no other.
const GSIQKey = 0x80010000

// ownQKey is set in a Q_Key that is not to be used, but that of the local queue
// pair: programs without privileges cannot name such a Q_Key.
const ownQKey = 1 << 31

// qKey returns the Q_Key of a queue pair.
func qKey(qpn, configured uint32) uint32 {
	if qpn == 1 {
		return GSIQKey
	}
	return configured
}

// SetQKey changes the Q_Key of the local queue pair, for datagrams sent from
// now on.
func (s *Sender) SetQKey(k uint32) { s.cfg.QKey = k }

// stepUnreliable is Step where nobody answers.
func (s *Sender) stepUnreliable(budget int) (more bool) {
	s.wait = WaitNothing
	if s.state != Failed {
		s.reap()
		more = s.transmit(budget)
	}
	s.reap()
	s.drained()
	return more || s.wait == WaitWindow && s.state != Failed && !s.awaitRoom()
}

// transmit sends up to budget packets, as long as there may be more frames out,
// and reports whether it could send more.
func (s *Sender) transmit(budget int) (more bool) {
	if s.cfg.Transport == roce.UC {
		n, full := s.handOver(budget)
		if full {
			return true
		}
		budget -= n
	}
	room := s.mostOut() - s.framesOut()
	for range min(budget, room) {
		if s.wait = s.transmitNext(); s.wait != WaitNothing {
			return false
		}
		if s.state == Failed {
			return true
		}
	}
	switch {
	case s.at.wqe == s.tail:
		s.wait = WaitWork
		return false
	case room <= budget:
		s.wait = WaitWindow
		return false
	}
	return true
}

// mostOut returns how many frames may be out: at least one.
func (s *Sender) mostOut() int { return max(1, min(s.env.WindowCap(), s.cfg.MaxWindow)) }

// framesOut returns how many frames are out, or a few more: those behind the
// oldest request count until it completes.
func (s *Sender) framesOut() int {
	if s.head == s.tail {
		return 0
	}
	w := s.slot(s.head)
	n := int(w.out - w.back.Load())
	if s.head != s.at.wqe {
		n += int(s.at.seq - w.end)
	}
	return n
}

// awaitRoom arranges for the Sender to be woken when frames of the oldest
// request are back: half of what may be out, or all of them. It reports whether
// that is still to come.
func (s *Sender) awaitRoom() bool {
	w := s.slot(s.head)
	back := w.back.Load()
	until := back + min(w.out-back, uint32(max(1, s.mostOut()/2)))
	w.awaited.Store(until)
	return int32(until-w.back.Load()) > 0
}

// transmitNext does one thing of the request at the cursor.
func (s *Sender) transmitNext() Wait {
	if s.at.wqe == s.tail {
		return WaitWork
	}
	w := s.slot(s.at.wqe)
	if w.state == wqePosted {
		if why := s.beginUnreliable(w); why != WaitNothing {
			return why
		}
	}
	switch {
	case w.state == wqeFailed:
		s.fail(w.status) // those before it are done, and complete when their frames are back
		return WaitNothing
	case w.Op == OpLocalInv:
		return s.invalidate(w)
	case w.Op == OpBindMW:
		return s.bind(w)
	case s.cfg.Transport == roce.UD && w.Len > uint32(s.mtu):
		return s.skip(w)
	}
	return s.transmitPacket(w)
}

// skip completes a datagram that is longer than a packet without sending it,
// and without an error (IBTA Vol 1, C10-93.1.1). It is counted.
func (s *Sender) skip(w *WQE) Wait {
	s.env.Count(CountUnsentTooLong)
	w.end = w.first
	s.at.wqe++
	s.acked = s.at.wqe
	return WaitNothing
}

// beginUnreliable starts a request, if it may. A local invalidation waits until
// no frame refers to any memory.
func (s *Sender) beginUnreliable(w *WQE) Wait {
	switch {
	case s.state != Running:
		return WaitDrain
	case w.Op == OpLocalInv && s.head != s.at.wqe:
		return WaitEarlier
	}
	w.state, w.status = wqeSent, s.possible(w)
	if w.status != StatusSuccess {
		w.state = wqeFailed
	}
	w.first = s.at.seq
	w.end = w.first + max(1, (int64(w.Len)+int64(s.mtu)-1)>>s.shift)
	return WaitNothing
}

// possible tells whether a request can be executed at all.
func (s *Sender) possible(w *WQE) Status {
	datagram := s.cfg.Transport == roce.UD
	switch w.Op {
	case OpSend, OpSendImm:
	case OpWrite, OpWriteImm, OpBindMW:
		if datagram {
			return StatusLocQPOp
		}
	case OpLocalInv:
		return StatusSuccess
	default: // READs, atomics and the SEND with invalidate need answers
		return StatusLocQPOp
	}
	switch {
	case w.Flags&Inline != 0 && uint32(len(w.Data)) != w.Len:
		return StatusLocQPOp
	case w.Len > maxMessage:
		return StatusLocLen
	}
	return StatusSuccess
}

// transmitPacket sends one packet of a SEND or WRITE.
func (s *Sender) transmitPacket(w *WQE) Wait {
	f := s.env.Frame()
	if f == nil {
		return WaitFrame
	}
	k := s.at.seq - w.first
	off := uint64(k) << s.shift
	n := int(min(uint64(s.mtu), uint64(w.Len)-off))
	last := s.at.seq+1 == w.end
	// An operation has the same low bits in all transports.
	op := requestOpcodes[w.Op][position(k == 0, last)] | roce.Opcode(s.cfg.Transport)<<5
	h := s.layOut(f, op, false)
	if x := h.RETH(); x != nil {
		x.Set(w.RemoteAddr, w.RKey, w.Len)
	}
	if last {
		if x := h.ImmDt(); x != nil {
			x.SetValue(w.Imm)
		}
		h.BTH().SetSolicited(w.Flags&Solicited != 0 && w.Op != OpWrite)
	}
	if x := h.DETH(); x != nil {
		key := w.QKey
		if key&ownQKey != 0 {
			key = qKey(s.cfg.QPN, s.cfg.QKey)
		}
		x.Set(key, s.cfg.QPN)
		h.BTH().SetDestQP(w.DestQPN)
		f.Peer, f.TOS, f.TTL = w.Peer, w.TOS, w.TTL
	}
	f.Token = uint64(s.at.wqe)
	w.out++
	if n > 0 && !s.load(w, f, off, n) {
		s.dropUnsent(w, f)
		return WaitNothing
	}
	f.Len, f.Pad = n, uint8(roce.PadFor(n))
	h.BTH().SetPad(int(f.Pad))
	s.at.seq++
	s.una, s.high = s.at.seq, s.at.seq
	s.passed(w)
	s.acked = s.at.wqe
	s.env.Emit(f)
	return WaitNothing
}
