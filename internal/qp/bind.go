package qp

// A bind of a memory window has no packet, and does not wait for earlier
// requests unless it is fenced: it is executed when the cursor comes to it. What
// was begun before it may still be unanswered, so it stands done in the queue
// until all before it is acknowledged, and completes in its turn.

// bind executes a bind, once: the cursor comes again when packets before it are
// sent again.
func (s *Sender) bind(w *WQE) Wait {
	if w.state == wqeSent {
		if !s.env.BindWindow(&w.Bind) {
			w.state, w.status = wqeFailed, StatusMWBind
			return WaitNothing
		}
		w.state, w.end = wqeDone, w.first
		s.bound++
	}
	s.at.wqe++
	s.passBound()
	if s.tells(w) {
		s.hurry()
	}
	s.reap()
	return WaitNothing
}

// passBound moves acked over binds that are done. It keeps to what an
// acknowledgement finds there: a request with packets, or the end of what was
// begun.
func (s *Sender) passBound() {
	for s.bound > 0 && s.slot(s.acked).state == wqeDone {
		if s.at.wqe == s.acked {
			s.at.wqe++
		}
		s.acked++
		s.bound--
	}
}
