package qp

import (
	"testing"

	"github.com/gantry-rdma/gantry/roce"
)

// write is a request of n bytes.
func write(id uint64, n int) func(*WQE) {
	return func(w *WQE) {
		w.ID, w.Op, w.RKey, w.RemoteAddr = id, OpWrite, 1, addr(1, 0)
		w.SG = append(w.SG, SGE{addr(1, 4096), uint32(n), 1})
	}
}

// TestASlotIsFreeWhenItsCompletionIsSeen: who polls a completion of a queue of
// one can post the next request at once.
func TestASlotIsFreeWhenItsCompletionIsSeen(t *testing.T) {
	p := newPair(t, roce.MTU256, 0, 1, 16)
	p.a.q = NewSendQueue(1, 2, 0)
	p.a.s.Init(p.a, p.a.q)
	done := uint64(0)
	p.a.onSend = func(c *CQE) {
		p.a.s.Free()
		if done++; done < 5 && !p.a.post(write(done, 8)) {
			t.Errorf("the queue is full at completion %d", c.ID)
		}
	}
	if !p.a.post(write(0, 8)) || p.a.post(write(1, 8)) {
		t.Error("a queue of one holds more or less than one")
	}
	p.run(t)
	if done != 5 {
		t.Errorf("completed %d, want 5", done)
	}
}

// TestAbandonedSlotsAreNotSent: a list of requests that is refused half-way
// leaves nothing behind.
func TestAbandonedSlotsAreNotSent(t *testing.T) {
	p := newPair(t, roce.MTU256, 0, 1, 16)
	q := p.a.q
	for range q.Depth() {
		q.Reserve()
	}
	if q.Reserve() != nil || q.Len() != 0 {
		t.Error("what is reserved is not published, and takes room")
	}
	q.Abandon(q.Depth())
	p.a.post(write(7, 8))
	p.run(t)
	if len(p.a.sent) != 1 || p.a.sent[0].ID != 7 {
		t.Errorf("got %v, want one completion of 7", p.a.sent)
	}
}

// TestNumbersWrapOnTheOutside: the Sender counts on, and shows 24 bits.
func TestNumbersWrapOnTheOutside(t *testing.T) {
	p := newPair(t, roce.MTU256, 0xffffff, 1, 16)
	p.a.post(write(0, 1000))
	p.run(t)
	if got := p.a.s.NextPSN(); got != 3 {
		t.Errorf("next PSN is %#x, want 3", got)
	}
	if p.a.s.una != 0x1000003 || p.b.r.Expected() != 3 {
		t.Errorf("counted to %#x, expected is %d", p.a.s.una, p.b.r.Expected())
	}
}

// TestRetransmissionsAreNotTimed: which of the two packets an answer belongs to
// nobody knows.
func TestRetransmissionsAreNotTimed(t *testing.T) {
	p := newPair(t, roce.MTU256, 0, 1, 16)
	p.a.s.cfg.Probe = 0
	p.a.post(write(0, 8))
	p.a.s.Step(1000, 8)
	p.a.takeOut()[0].Back()
	p.a.s.Step(p.a.s.Deadline(), 8)
	p.a.s.Receive(ack(0, roce.AckUnlimited), p.a.s.now+5)
	if got := p.a.s.pace.trip; got != 0 {
		t.Errorf("a round trip of %d was measured", got)
	}
	p.a.post(write(1, 8))
	p.a.s.Step(1_000_000, 8)
	p.a.s.Receive(ack(1, roce.AckUnlimited), 1_000_700)
	if got := p.a.s.pace.trip; got != 700 {
		t.Errorf("measured %d, want 700", got)
	}
}

// TestProbesFollowTheRoundTrip: never sooner than they may come, a few round
// trips otherwise, each after twice the time, and slowly behind a READ.
func TestProbesFollowTheRoundTrip(t *testing.T) {
	c := SenderConfig{Probe: 1000}
	p := pace{timed: none}
	for _, x := range []struct {
		trip, spread Instant
		doubled      int
		read         bool
		want         Instant
	}{
		{0, 0, 0, false, 4000}, {100, 10, 0, false, 1000}, {1000, 100, 0, false, 3400},
		{1000, 100, 2, false, 13600}, {1000, 100, 0, true, 13600},
	} {
		p.trip, p.spread, p.doubled = x.trip, x.spread, 0
		p.restart(&c, 50, true, x.read)
		for range x.doubled {
			p.backOff(&c, 50, x.read)
		}
		if p.probe != 50+x.want {
			t.Errorf("%+v: probe in %d", x, p.probe-50)
		}
	}
}

// TestALongRoundTripIsLearned: what was probed is not timed, so a wait that
// begins far below the round trip has to stay long until one packet has its
// answer before its probe.
func TestALongRoundTripIsLearned(t *testing.T) {
	const trip = 100_000
	c, p, now := SenderConfig{Probe: 1000}, pace{timed: none}, Instant(0)
	var probes [4]int
	for seq := range probes {
		p.measure(int64(seq), now)
		p.start(&c, now)
		for p.probe < now+trip {
			probes[seq]++
			p.timed = none // as rewind does
			p.backOff(&c, p.probe, false)
		}
		now += trip
		p.answered(int64(seq)+1, now)
		p.restart(&c, now, false, false)
	}
	if probes[0] == 0 || probes[2] > 0 || probes[3] > 0 || p.trip != trip {
		t.Errorf("%v probes, round trip %d, want none from the third on, %d", probes, p.trip, trip)
	}
}

// TestTheWindowGrowsAndShrinks: fast, then slowly; once for each flight.
func TestTheWindowGrowsAndShrinks(t *testing.T) {
	var w window
	w.open(100)
	steps := []struct {
		what string
		do   func()
		want int
	}{
		{"start", func() {}, 16},
		{"a round trip", func() { w.acked(16) }, 32},
		{"two more", func() { w.acked(32); w.acked(64) }, 100},
		{"a loss", func() { w.lost(50, 150) }, 70},
		{"another of that flight", func() { w.lost(149, 180) }, 70},
		{"less than a round trip", func() { w.acked(69) }, 70},
		{"all of it", func() { w.acked(1) }, 71},
		{"a loss of the next flight", func() { w.lost(150, 200) }, 49},
		{"a timeout", func() { w.timedOut() }, 1},
		{"growing fast up to half", func() { w.acked(100) }, 24},
		{"a small cap", func() { w.cap = 3 }, 3},
		{"no cap at all", func() { w.cap = 0 }, 1},
	}
	for _, s := range steps {
		s.do()
		if got := w.size(); got != s.want {
			t.Errorf("after %s: got %d, want %d", s.what, got, s.want)
		}
	}
}

// TestMachinesSayWhatTheyDo: the trace has the steps of both.
func TestMachinesSayWhatTheyDo(t *testing.T) {
	p := newPair(t, roce.MTU256, 0, 1, 16)
	var got []string
	note := func(step string, psn roce.PSN) { got = append(got, step) }
	p.a.s.SetTrace(note)
	p.b.r.SetTrace(note)
	p.a.post(write(0, 8))
	p.run(t)
	want := "sequence opcode receive length key execute complete acknowledge sequence ack progress"
	if s := join(got); s != want {
		t.Errorf("got %q, want %q", s, want)
	}
}

func join(words []string) (s string) {
	for i, w := range words {
		if i > 0 {
			s += " "
		}
		s += w
	}
	return s
}

// TestRightsChangeWhileRunning: what the queue pair grants may be modified.
func TestRightsChangeWhileRunning(t *testing.T) {
	p := newPair(t, roce.MTU256, 0, 1, 16)
	p.a.post(write(0, 8))
	p.run(t)
	p.b.r.SetAccess(RemoteRead)
	p.b.r.SetMinRNRTimer(5)
	p.a.post(write(1, 8))
	p.run(t)
	if n := len(p.a.sent); n != 2 || p.a.sent[1].Status != StatusRemAccess {
		t.Errorf("got %v, want the second refused", p.a.sent)
	}
}

// TestNamesAreThere: what prints, prints.
func TestNamesAreThere(t *testing.T) {
	for c := range Counters {
		if c.String() == "" {
			t.Errorf("counter %d has no name", c)
		}
	}
	for _, c := range []struct{ got, want string }{
		{StatusRetryExceeded.String(), "RETRY_EXC_ERR"}, {Status(3).String(), "UNKNOWN"},
		{Status(200).String(), "UNKNOWN"}, {Drained.String(), "DRAINED"}, {WaitDrain.String(), "drain"},
		{stepRefuse.String(), "refuse"}, {compBad.String(), "bad"}, {LastWQEReached.String(), "QP_LAST_WQE_REACHED"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
