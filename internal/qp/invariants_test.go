package qp

// sound fails the test if the state of the machines contradicts itself.
func (h *host) sound(t fataler) {
	t.Helper()
	s, r := &h.s, &h.r
	for _, c := range []struct {
		ok   bool
		what string
	}{
		{s.una <= s.at.seq || s.state == Failed, "the cursor is before the oldest outstanding packet"},
		{s.at.seq <= s.high || s.state == Failed, "the cursor is behind the newest packet"},
		{s.acked-s.head <= s.q.depth, "more is acknowledged than was posted"},
		{s.tail-s.head <= s.q.depth, "more is queued than fits"},
		{s.at.wqe-s.acked <= s.tail-s.acked || s.state == Failed, "the cursor is not between acked and tail"},
		{s.reads >= 0 && s.reads <= int(s.cfg.MaxRdAtomic), "READs are counted wrong"},
		{s.una == s.high || s.acked != s.tail || s.state == Failed, "packets of no request are outstanding"},
		{s.high-s.una <= int64(max(s.cfg.MaxWindow, leastWindow))+1, "more than the window is outstanding"},
		{s.window.size() >= 1 && s.window.now <= s.window.max, "the window is out of bounds"},
		{s.bound >= 0 && uint32(s.bound) <= s.tail-s.acked || s.state == Failed, "binds are counted wrong"},
		{s.acked == s.tail || s.q.at(s.acked).state != wqeDone || s.state == Failed, "a bind that is done waits for nothing"},
		{s.pace.resume == 0 || s.pace.idle(), "two timers run"},
		{s.una == s.high || s.cfg.Timeout == 0 || s.Deadline() != 0 || s.state != Running, "no timer runs"},
		{r.saved.count <= r.saved.limit, "more is remembered than agreed"},
		{uint32(r.expected) < 1<<24 && r.msn < 1<<31, "numbers are out of range"},
		{r.inside != sendMessage || r.recv != nil, "a SEND goes on without a receive"},
		{r.recv == h.taken, "the receive in use is not the one that was taken"},
		{!r.reading.active || r.state == Running, "a READ is answered in the error state"},
	} {
		if !c.ok {
			t.Fatalf("%s: %s: una %d at %d high %d; head %d acked %d cursor %d tail %d; reads %d, %v and %v",
				h.name, c.what, s.una, s.at.seq, s.high, s.head, s.acked, s.at.wqe, s.tail, s.reads, s.state, r.state)
		}
	}
}
