package qp

import (
	"encoding/binary"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// A response is a packet for the Sender, taken apart.
type response struct {
	f   *frame.Frame
	h   roce.Headers
	is  roce.Traits
	seq int64
	was int64 // the oldest outstanding packet before it came

	train int64 // packets that the frame stands for
	body
}

// A compStep is what the Sender does next with the response in hand.
type compStep uint8

const (
	compDone     compStep = iota
	compSequence          // does it answer something outstanding?
	compAck               // acknowledgement, or a NAK of some kind
	compRead              // data of a READ
	compAtomic            // the result of an atomic
	compProgress          // something was acknowledged: go on
	compGap               // the peer misses a packet
	compNotReady          // the peer has no receive
	compLost              // a response that must have come before did not
	compRefused           // the peer refuses the request
	compBad               // it is no answer to what was asked
)

var compStepNames = [...]string{
	"done", "sequence", "ack", "read", "atomic", "progress", "gap", "not-ready", "lost", "refused", "bad",
}

// String returns the step's name.
func (c compStep) String() string { return compStepNames[c] }

// Receive takes one response. The frame is the caller's again when it returns.
func (s *Sender) Receive(f *frame.Frame, now Instant) {
	if s.state == Stopped || s.state == Failed {
		s.env.Count(CountDropState)
		return
	}
	h, _, ok := roce.ParseHeaders(f.Head[:min(int(f.HeadLen), len(f.Head))])
	is := roce.Traits(0)
	if ok {
		is = h.Opcode().Traits()
	}
	if is&roce.IsResponse == 0 || h.Opcode().Transport() != s.cfg.Transport {
		s.env.Count(CountDropMalformed)
		return
	}
	s.now = now
	r := response{f: f, h: h, is: is, was: s.una, train: int64(f.Packets())}
	r.seq = s.una + int64(h.BTH().PSN().Sub(psnOf(s.una)))
	r.of(f)
	for st := compSequence; st != compDone; {
		if s.trace != nil {
			s.trace(st.String(), h.BTH().PSN())
		}
		switch st {
		case compSequence:
			st = s.checkResponse(&r)
		case compAck:
			st = s.takeAck(&r)
		case compRead:
			st = s.takeRead(&r)
		case compAtomic:
			st = s.takeAtomic(&r)
		case compProgress:
			st = s.progress(&r)
		case compGap:
			st = s.goBack(&r)
		case compNotReady:
			st = s.notReady(&r)
		case compLost:
			st = s.lost(&r)
		case compRefused:
			st = s.refused(&r)
		case compBad:
			s.fail(StatusBadResponse)
			st = compDone
		}
	}
	s.reap()
	s.drained()
}

// checkResponse drops what answers nothing that is outstanding. Everything
// before the packet that is answered is acknowledged with it, but for READs and
// atomics: they need answers of their own.
func (s *Sender) checkResponse(r *response) compStep {
	if known := s.una - r.seq; known > 0 && known < r.train && len(r.payload) == 1 {
		r.seq, r.train = s.una, r.train-known
		r.behead(int(known)<<s.shift, &s.rest)
	}
	switch {
	case r.seq < s.una:
		s.env.Count(CountDropStale)
		return compDone
	case r.seq+r.train > s.high:
		s.env.Count(CountDropGhost)
		return compDone
	}
	switch {
	case r.is&(roce.IsAck|roce.HasAtomicAckETH) == roce.IsAck:
		return compAck
	case !s.acknowledge(r.seq):
		return compLost
	case r.is&roce.HasAtomicAckETH != 0:
		return compAtomic
	}
	return compRead
}

// acknowledge takes all packets before limit as acknowledged, and reports
// whether it could: it stops at a READ or an atomic.
func (s *Sender) acknowledge(limit int64) bool {
	for s.una < limit {
		w := s.slot(s.acked)
		switch {
		case w.Op >= OpRead:
			return false
		case limit < w.end:
			s.una = limit
			return true
		}
		s.una = w.end
		s.acked++
		if s.bound > 0 {
			s.passBound()
		}
	}
	return true
}

// takeAck reads an acknowledgement.
func (s *Sender) takeAck(r *response) compStep {
	syndrome := r.h.AETH().Syndrome()
	switch syndrome.Kind() {
	case roce.KindAck:
		if !s.acknowledge(r.seq + 1) {
			return compLost
		}
		return compProgress
	case roce.KindRNRNak:
		if !s.acknowledge(r.seq) {
			return compLost
		}
		return compNotReady
	case roce.KindNak:
		if syndrome == roce.NakSequence {
			s.acknowledge(r.seq)
			return compGap
		}
		if !s.acknowledge(r.seq) {
			return compLost
		}
		return compRefused
	}
	return compBad
}

// A landing remembers where the next READ data goes, so that a list of scatter
// entries is not walked for each packet.
type landing struct {
	seq   int64
	place place
}

// takeRead puts READ data into its place. Each packet must be as long as its
// number says, and end the answer where the request ended.
func (s *Sender) takeRead(r *response) compStep {
	w := s.slot(s.acked)
	if w.Op != OpRead || r.is&roce.IsReadResponse == 0 {
		return s.takeEmpty(w, r)
	}
	if h := r.h.AETH(); h != nil && h.Syndrome().Kind() != roce.KindAck {
		return compBad
	}
	off := uint64(r.seq-w.first) << s.shift
	n := min(uint64(r.train)<<s.shift, uint64(w.Len)-off)
	end := s.pieceEnd(w, r.seq)
	ends := r.seq+r.train == end
	if r.seq+r.train > end || uint64(r.n) != n || int(r.h.BTH().Pad()) != roce.PadFor(int(n)) || r.is&roce.IsEnd != 0 != ends {
		return compBad
	}
	if off == 0 {
		s.fill.place = place{}
	} else if s.fill.seq != r.seq {
		s.fill.place = seek(w.SG, off)
	}
	copied := scatter{n: r.n}
	for _, part := range r.payload {
		if !s.fill.place.copyPart(s.env, w.SG, &copied, part) {
			s.fail(StatusLocProt)
			return compDone
		}
	}
	s.fill.seq = r.seq + r.train
	s.answered(w, r.seq+r.train-1, ends)
	return compProgress
}

// takeAtomic stores the result of an atomic, in the machine's byte order.
func (s *Sender) takeAtomic(r *response) compStep {
	w := s.slot(s.acked)
	if w.Op != OpCompareSwap && w.Op != OpFetchAdd || r.h.AETH().Syndrome().Kind() != roce.KindAck {
		return compBad
	}
	var b [8]byte
	binary.NativeEndian.PutUint64(b[:], r.h.AtomicAckETH().Original())
	var p place
	if !p.copyIn(s.env, w.SG, b[:]) {
		s.fail(StatusLocProt)
		return compDone
	}
	s.answered(w, r.seq, true)
	return compProgress
}

// answered moves on behind a packet that answers a READ or an atomic. With the
// end of the answer, the peer can remember one more.
func (s *Sender) answered(w *WQE, seq int64, ends bool) {
	if ends && seq < s.at.seq {
		s.reads--
	}
	s.una = seq + 1
	if s.una == w.end {
		s.acked++
		if s.bound > 0 {
			s.passBound()
		}
	}
}

// progress draws the conclusions from an acknowledgement.
func (s *Sender) progress(r *response) compStep {
	if s.una == r.was {
		return compDone
	}
	gap, probed := s.retry.going, r.seq == s.retry.probed && s.high > s.una
	s.advanced(r)
	s.retry.probed = none
	if !probed {
		return compDone
	}
	switch took := s.clock() - s.retry.askedAt; {
	case s.pace.trip == 0 && !gap:
		s.retry.doubt = true
		s.pace.probe = s.clock() + max(s.cfg.Probe, took)
	case took >= s.pace.trip/2:
		s.closedGap()
	}
	return compDone
}

// closedGap goes back without a NAK: the probe arrived where a packet was
// missing, and what was sent behind that packet was dropped.
//
// An answer that comes sooner than one to the probe can, answers the packet as
// it was sent first. While no round trip is known nobody can tell the two apart;
// then what comes next tells: packets behind it that arrived are answered soon.
func (s *Sender) closedGap() {
	s.window.lost(s.una, s.high)
	s.since.Lost = true
	s.rewind()
}

// advanced keeps count, after a response acknowledged something.
func (s *Sender) advanced(r *response) {
	s.retry.refill(&s.cfg)
	s.retry.doubt = false
	s.window.acked(int(s.una - r.was))
	s.since.Acked += int(s.una - r.was)
	s.pace.answered(s.una, s.clock())
	if s.pace.resume != 0 || s.una > s.at.seq {
		s.pace.resume = 0
		s.rewind()
	}
	s.pace.restart(&s.cfg, s.clock(), s.high > s.una, s.waitsForRead())
}

// waitsForRead reports whether the oldest outstanding request is a READ or an
// atomic, whose answer may take long.
func (s *Sender) waitsForRead() bool {
	return s.high > s.una && s.slot(s.acked).Op >= OpRead
}

// fail ends the queue pair over the oldest request that is not acknowledged:
// it completes with why, and all after it is flushed.
func (s *Sender) fail(why Status) {
	s.slot(s.acked).status = why
	s.acked++
	s.Fail()
	s.env.Fatal(why)
}

// reap completes, in their order, requests that are done and whose memory no
// frame refers to. In the error state that is all of them.
func (s *Sender) reap() {
	limit := s.acked
	if s.state == Failed {
		limit = s.tail
	}
	for s.head != limit {
		w := s.slot(s.head)
		if !w.idle() {
			break
		}
		status := w.status
		if s.head == s.acked {
			status = StatusFlushed
			s.acked++
		}
		s.finish(w, status)
	}
	s.Free()
}

// finish completes w, whose slot Free frees.
func (s *Sender) finish(w *WQE, status Status) {
	tell := status != StatusSuccess || s.tells(w)
	if tell {
		op := w.Op
		if op < opCount {
			op = completedAs[op]
		}
		e := &s.cqe
		e.ID, e.QPN, e.SrcQP, e.ByteLen = w.ID, s.cfg.QPN, s.cfg.DestQPN, w.Len
		e.Status, e.Op, e.WithImm = status, op, w.Op == OpSendImm || w.Op == OpWriteImm
	}
	if w.state != wqePosted { // what went whole was never anything else
		w.state = wqePosted
	}
	s.head++
	if tell && !s.mute && !s.env.CompleteSend(&s.cqe) {
		s.mute = true
		if s.state != Failed {
			s.Fail()
			s.env.Fatal(StatusGeneral)
		}
	}
}
