package qp

// Where packets are dear, as on a socket, an acknowledgement costs as much as a
// small message. A request without a completion of its own has nobody who waits
// for one: it asks only now and then, and is answered together with those behind
// it. Everything else stays: what is lost is told by the peer, or found by a
// probe or a timeout.
//
//	unsignaled  unsignaled  unsignaled  signaled
//	  psn 0       psn 1       psn 2      psn 3, asks
//	                                        one ACK answers all four
//
// It asks all the same where somebody may come to wait for it:
//
//   - A quarter of the queue is not answered: slots become free with the answer.
//     Then one in so many asks that there are sixteen for the whole queue: who
//     fills it is not to wait for the end of a quarter.
//   - It is sent once more, or the queue is to be drained.
//   - A probe would not come long before the timeout does, or no round trip is
//     known yet.
//   - Lately nobody asked for so long that it took a probe.

// askAgain is how many requests ask after a probe for what had asked for nothing.
const askAgain = 64

// asks reports whether the last packet of a request is to ask for an
// acknowledgement.
func (s *Sender) asks(w *WQE) bool {
	if !s.cfg.Sparing || s.tells(w) || s.state != Running || s.at.seq < s.high {
		return true
	}
	if s.asking > 0 {
		s.asking--
		return true
	}
	if s.at.wqe+1-s.acked >= s.q.depth/4 && s.spared+1 >= s.q.depth/16 {
		return true
	}
	return !s.pace.patient(&s.cfg)
}

// tells reports whether a request completes with an entry if it succeeds.
func (s *Sender) tells(w *WQE) bool { return w.Flags&Signaled != 0 || s.cfg.SignalAll }

// unasked reports whether packets are outstanding behind the last that asked.
func (s *Sender) unasked() bool { return s.at.seq > s.una && s.asked < s.at.seq-1 }

// hurry asks at once for what is outstanding, once: somebody waits for it now.
func (s *Sender) hurry() {
	if s.unasked() && s.retry.probed != s.una && s.pace.probe != 0 {
		s.pace.probe = min(s.pace.probe, s.clock())
	}
}

// patient reports whether a probe comes early enough to rely on it.
func (p *pace) patient(c *SenderConfig) bool {
	const times = 4 // how much later the timeout must be
	if c.Probe == 0 || p.trip == 0 || p.doubled > 0 {
		return false
	}
	return c.Timeout == 0 || times*p.probeWait(c) < 4096<<min(c.Timeout, 31)
}
