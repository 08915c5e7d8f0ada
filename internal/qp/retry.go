package qp

import "github.com/gantry-rdma/gantry/roce"

// none is the number of no packet.
const none = -1

// A retry counts what is left of the attempts that the configuration allows.
type retry struct {
	left    uint8 // timeouts and gaps
	rnrLeft uint8
	going   bool  // went back, and nothing was acknowledged since
	probed  int64 // the packet that was sent alone to get an answer
	askedAt Instant
	doubt   bool // it was answered, and whether it closed a gap is to be seen
}

// refill starts anew, because something was acknowledged.
func (r *retry) refill(c *SenderConfig) {
	r.left, r.rnrLeft, r.going = c.RetryCount, c.RNRRetry, false
}

// take uses one attempt up, and reports whether there was one. The number 7
// means for ever for absent receives; for the rest it does only where asked
// for.
func (r *retry) take(c *SenderConfig) bool {
	if c.RetryCount == 7 && c.EndlessRetry {
		return true
	}
	if r.left == 0 {
		return false
	}
	r.left--
	return true
}

// takeRNR is take for absent receives.
func (r *retry) takeRNR() bool {
	if r.rnrLeft == 7 {
		return true
	}
	if r.rnrLeft == 0 {
		return false
	}
	r.rnrLeft--
	return true
}

// goBack answers a NAK that names the packet which the peer misses: all before
// it arrived, all behind it was dropped.
func (s *Sender) goBack(r *response) compStep {
	s.env.Count(CountReceivedSeqNak)
	if s.una > r.was {
		s.advanced(r)
	}
	return s.again()
}

// lost does the same when the peer answers something later, and the answer to
// a READ or an atomic before it did not come.
func (s *Sender) lost(r *response) compStep {
	if s.una > r.was {
		s.advanced(r)
	}
	return s.again()
}

// again sends everything outstanding once more. Many packets may tell of one
// loss: until something is acknowledged it is heeded once, and not at all while
// the peer is without a receive.
func (s *Sender) again() compStep {
	if s.retry.going || s.pace.resume != 0 {
		s.env.Count(CountDropStale)
		return compDone
	}
	s.retryFromOldest()
	return compDone
}

// retryFromOldest uses up an attempt and goes back, or gives up.
func (s *Sender) retryFromOldest() {
	if !s.retry.take(&s.cfg) {
		s.env.Count(CountRetryExceeded)
		s.fail(StatusRetryExceeded)
		return
	}
	s.env.Count(CountRetry)
	s.window.lost(s.una, s.high)
	s.since.Lost = true
	s.retry.going, s.retry.probed = true, none
	s.rewind()
	s.pace.restart(&s.cfg, s.clock(), true, s.waitsForRead())
}

// notReady answers an RNR NAK: the peer has no receive for the packet. After
// the time that it names, all is sent again from there. NAKs for what followed
// may come behind it, and mean nothing.
func (s *Sender) notReady(r *response) compStep {
	s.env.Count(CountReceivedRNR)
	if s.una > r.was {
		s.advanced(r)
	}
	if s.pace.resume != 0 {
		return compDone
	}
	if !s.retry.takeRNR() {
		s.env.Count(CountRNRRetryExceeded)
		s.fail(StatusRNRExceeded)
		return compDone
	}
	s.pace.stop()
	s.pace.resume = s.clock() + Instant(r.h.AETH().Syndrome().RNRTimer().Nanoseconds())
	return compDone
}

// refused ends the queue pair: the peer says that it is in error, too.
func (s *Sender) refused(r *response) compStep {
	if s.una > r.was {
		s.advanced(r)
	}
	why := StatusRemOp
	switch r.h.AETH().Syndrome() {
	case roce.NakInvalidRequest:
		why = StatusRemInvRequest
	case roce.NakRemoteAccess:
		why = StatusRemAccess
	}
	s.fail(why)
	return compDone
}

// rewind puts the cursor on the oldest outstanding packet.
func (s *Sender) rewind() {
	s.at = cursor{seq: s.una, wqe: s.acked}
	s.reads, s.asked, s.quiet, s.spared = 0, s.una-1, 0, 0
	s.pace.timed, s.retry.doubt = none, false
	if s.acked == s.tail {
		return
	}
	if w := s.slot(s.acked); w.state == wqeSent && s.una > w.first {
		s.at.place = seek(w.SG, uint64(s.una-w.first)<<s.shift)
	}
}

// expire acts upon deadlines that are over.
func (s *Sender) expire() {
	p := &s.pace
	switch {
	case p.resume != 0:
		if s.clock() >= p.resume {
			p.resume = 0
			s.rewind()
			p.restart(&s.cfg, s.clock(), true, s.waitsForRead())
		}
	case p.timeout != 0 && s.clock() >= p.timeout:
		if p.spare(p.timeout, s.clock()) {
			return
		}
		s.env.Count(CountTimeout)
		s.window.timedOut()
		s.retryFromOldest()
	case p.probe != 0 && s.clock() >= p.probe && !p.spare(p.probe, s.clock()):
		if s.retry.doubt {
			s.closedGap()
			p.restart(&s.cfg, s.clock(), true, s.waitsForRead())
			return
		}
		s.probe()
	}
}

// probe sends the oldest outstanding packet alone, and asks for an answer: it
// is late. If the packet was lost, this closes the gap; if it was the answer
// that was lost, it is given again. No attempt is used up. The oldest packet is
// taken and not the newest, because a peer that has told of a gap is silent
// about everything behind it.
func (s *Sender) probe() {
	if s.at.seq == s.una {
		s.pace.backOff(&s.cfg, s.clock(), s.waitsForRead())
		return // all is being sent again as it is
	}
	at, reads, asked, quiet, spared := s.at, s.reads, s.asked, s.quiet, s.spared
	s.took = 1
	s.rewind()
	w := s.slot(s.at.wqe)
	var why Wait
	if w.Op >= OpRead {
		why = s.sendRead(w)
	} else {
		why = s.sendPacket(w, true)
	}
	if w.state == wqeFailed {
		s.rewind() // its memory is gone: it fails in its turn
		return
	}
	s.at, s.reads, s.asked, s.quiet, s.spared = at, reads, asked, quiet, spared
	if why == WaitNothing {
		if asked < s.una {
			s.asking = askAgain
		}
		s.env.Count(CountProbe)
		s.retry.probed, s.retry.askedAt = s.una, s.clock()
	}
	s.pace.backOff(&s.cfg, s.clock(), s.waitsForRead())
}
