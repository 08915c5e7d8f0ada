package qp

import "github.com/gantry-rdma/gantry/roce"

// Where whoever runs a Sender may call the Responder that its packets go to as
// well, and nothing is between the two, nobody can see what is on the way. There a
// message needs no packets:
//
//	Sender                            Responder
//	  nothing is outstanding:     ->    expects its first packet: so it is done
//	  the next request, whole           with all before it; has what it needs
//	  sent and acknowledged       <-    copied, and completed
//
// Both end where the packets of the message and their acknowledgement would have
// left them. This is for what ends well, and for the common shape of it. If
// anything is in the way - a key, a length, no receive - the message goes in
// packets: those know what to answer. A receive that was taken waits for them.

// An express is a message that goes whole.
type express struct {
	w       *WQE
	payload []byte
	psn     roce.PSN // of its first packet
	packets int      // that it stands for
}

// handOver hands requests to the Responder that is near, if there is one, and
// returns how many packets they stood for. The rest of the budget may be too
// little for the next one, and so full.
func (s *Sender) handOver(budget int) (n int, full bool) {
	if s.at.wqe == s.tail || s.state != Running {
		return 0, false
	}
	r := s.env.Near(s.cfg.DestQPN)
	if r == nil || r.mtu != s.mtu {
		return 0, false
	}
	for n < budget {
		packets := s.hand(r, budget-n, budget)
		switch {
		case packets < 0:
			return n, true
		case packets == 0:
			return n, false
		}
		n += packets
	}
	return n, false
}

// hand has r execute the request at the cursor, and returns how many packets it
// stood for. Of a budget of packets there is a rest: if the request is one for the
// next Step, which has all of it, hand returns less than 0, and 0 if it has to go
// in packets.
func (s *Sender) hand(r *Responder, rest, budget int) (packets int) {
	if s.at.wqe == s.tail || s.at.wqe != s.acked {
		return 0
	}
	w := s.slot(s.at.wqe)
	if w.state != wqePosted || w.Op > OpWriteImm || w.Op == OpSendInv || s.valid(w) != StatusSuccess {
		return 0
	}
	x := express{w: w, psn: psnOf(s.high), packets: 1}
	if int(w.Len) > s.mtu {
		switch x.packets = (int(w.Len) + s.mtu - 1) >> s.shift; {
		case x.packets > budget:
			return 0
		case x.packets > rest:
			return -1
		}
	}
	switch {
	case w.Flags&Inline != 0:
		x.payload = w.Data
	case len(w.SG) > 1:
		return 0
	case w.Len > 0:
		var ok bool
		if x.payload, ok = s.env.Try(w.SG[0].LKey, w.SG[0].Addr, int(w.Len), 0); !ok {
			return 0
		}
	}
	if !r.accept(&x) {
		return 0
	}
	s.high += int64(x.packets)
	s.una, s.at.seq = s.high, s.high
	s.at.wqe++
	s.acked = s.at.wqe
	if w.status != StatusSuccess { // as it was in another life
		w.status = StatusSuccess
	}
	s.env.Handed(requestOpcodes[w.Op][onlyPacket], x.packets, int(w.Len)+roce.PadFor(int(w.Len)))
	return x.packets
}

// accept executes a message that comes whole, and reports whether it could. If it
// has lost the completion it could not: nobody acknowledges such a message.
func (r *Responder) accept(x *express) bool {
	if r.state != Running || r.expected != x.psn || r.inside != noMessage {
		return false
	}
	w, n := x.w, len(x.payload)
	if w.Op != OpWrite && !r.openReceive() {
		return false
	}
	if n > 0 {
		mem, ok := r.destination(w, n)
		if !ok {
			return false
		}
		copy(mem, x.payload)
	}
	r.came()
	r.plain = r.expected.Add(x.packets - 1)
	r.expected = r.plain.Next()
	r.msn++
	if w.Op == OpWrite {
		return true
	}
	e := &r.cqe
	e.ByteLen, e.Status, e.Op, e.Solicited = uint32(n), StatusSuccess, OpRecv, w.Flags&Solicited != 0
	e.Imm, e.WithImm, e.WithInv, e.WithGRH = 0, false, false, false
	if w.Op != OpSend {
		e.Imm, e.WithImm = w.Imm, true
	}
	if w.Op == OpWriteImm {
		e.Op = OpRecvWriteImm
	}
	return r.completeReceive()
}

// destination returns the memory that n bytes of a message that comes whole
// belong into.
func (r *Responder) destination(w *WQE, n int) (mem []byte, ok bool) {
	if w.Op >= OpWrite {
		if r.cfg.Access&RemoteWrite == 0 {
			return nil, false
		}
		return r.env.Try(w.RKey, w.RemoteAddr, n, RemoteWrite)
	}
	if len(r.recv.SG) != 1 || uint32(n) > r.recv.SG[0].Len {
		return nil, false
	}
	e := &r.recv.SG[0]
	return r.env.Try(e.LKey, e.Addr, n, LocalWrite)
}
