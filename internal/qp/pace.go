package qp

// A pace is what a Sender knows of time: when to act, and how long an answer
// usually takes.
type pace struct {
	resume  Instant // the peer has no receive until then
	timeout Instant // when the oldest outstanding packet is taken as lost
	probe   Instant // when an answer is asked for
	doubled uint8   // how often the wait for a probe was doubled, since the last round trip that was timed
	spared  bool    // the wait was prolonged because its end was noticed late

	timed   int64   // the packet whose answer is timed
	timedAt Instant // when it was sent
	trip    Instant // the smoothed round trip, 0 before the first
	spread  Instant // how far round trips lie apart
}

// Deadline returns when Step is to be called at the latest; 0: no need.
func (s *Sender) Deadline() Instant {
	p := &s.pace
	switch {
	case p.resume != 0:
		return p.resume
	case p.probe == 0 || p.timeout != 0 && p.timeout < p.probe:
		return p.timeout
	}
	return p.probe
}

// lateness is how late the end of a wait may be noticed. If it is later, a probe
// waits as long again, and a timeout for a respite: a goroutine that reads a
// socket may run that much later than others, where all processors are busy.
const (
	lateness Instant = 1_000_000
	respite  Instant = 10_000_000
)

// spare prolongs, once, a wait whose end is noticed late: whoever was kept from
// looking at the clock was kept from looking at what arrived, too, and the
// answer may be there already.
func (p *pace) spare(end, now Instant) bool {
	if p.spared || now-end <= lateness {
		return false
	}
	p.spared = true
	if p.timeout != 0 {
		p.timeout = max(p.timeout, now+respite)
	}
	if p.probe != 0 {
		p.probe = max(p.probe, now+lateness)
	}
	return true
}

// idle reports whether no answer is waited for.
func (p *pace) idle() bool { return p.timeout == 0 && p.probe == 0 }

// stop waits for nothing.
func (p *pace) stop() { p.resume, p.timeout, p.probe, p.timed = 0, 0, 0, none }

// start waits for an answer.
func (p *pace) start(c *SenderConfig, now Instant) { p.restart(c, now, true, false) }

// restart waits anew: something came, or all is being sent again. With nothing
// outstanding it stops the timers.
func (p *pace) restart(c *SenderConfig, now Instant, outstanding, read bool) {
	p.timeout, p.probe, p.spared = 0, 0, false
	if !outstanding || p.resume != 0 {
		return
	}
	if c.Timeout != 0 {
		p.timeout = now + 4096<<min(c.Timeout, 31)
	}
	for p.doubled > 0 && c.Probe<<p.doubled > longestKept {
		p.doubled--
	}
	p.setProbe(c, now, read)
}

// longestKept is how long a wait for a probe that was doubled stays when
// something came: where much is lost, little is timed, and a probe should not be
// later than the timeout that it is to forestall.
const longestKept Instant = 100_000_000

// backOff waits twice as long for the next probe, and for those behind it until
// a round trip was timed. What was probed is not timed: if the answer to it made
// the wait short again, it would stay shorter than a long round trip for ever.
func (p *pace) backOff(c *SenderConfig, now Instant, read bool) {
	if p.doubled < 16 {
		p.doubled++
	}
	p.setProbe(c, now, read)
}

// setProbe sets the time of the next probe: a few round trips from now, and
// more where the peer has a READ to answer.
func (p *pace) setProbe(c *SenderConfig, now Instant, read bool) {
	if c.Probe == 0 {
		return
	}
	wait := p.probeWait(c)
	if p.trip == 0 || read {
		wait *= 4
	}
	p.probe = now + wait<<p.doubled
}

// probeWait is how long an answer may take before it is late.
func (p *pace) probeWait(c *SenderConfig) Instant { return max(c.Probe, 3*p.trip+4*p.spread) }

// measure times the answer to a packet, if none is timed already.
func (p *pace) measure(seq int64, now Instant) {
	if p.timed == none {
		p.timed, p.timedAt = seq, now
	}
}

// answered ends the measurement when the packet is before una. Answers to what
// was sent twice are not timed: rewind forgets it.
func (p *pace) answered(una int64, now Instant) {
	if p.timed == none || p.timed >= una {
		return
	}
	p.timed = none
	p.doubled = 0
	took := max(1, now-p.timedAt)
	if p.trip == 0 {
		p.trip, p.spread = took, took/2
		return
	}
	p.spread += (max(took-p.trip, p.trip-took) - p.spread) / 4
	p.trip += (took - p.trip) / 8
}
