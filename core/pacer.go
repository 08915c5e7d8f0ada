package core

import (
	"runtime"
	"time"
)

// How Run waits. The figures behind these numbers are in docs/performance.md.
const (
	longestSpin = 50 * time.Microsecond  // pauses up to this are polled through
	longestLull = 400 * time.Microsecond // and up to this are napped through
	shortestNap = 10 * time.Microsecond
	longestNap  = 100 * time.Microsecond
)

// A pacer decides how to wait, from how fast things happened of late. It knows
// no clock: the time is an argument.
//
// What counts is the time from one event to the next, and not how long the
// pauses were: a nap that is too long makes the pause long, but it also lets
// more events gather in it.
type pacer struct {
	cpus     int32
	expected time.Duration // between events: a mean in which recent ones weigh more
	since    time.Time     // when this pause began; zero while busy
	before   time.Time     // when the pause before it began
	events   int           // since then
	nap      time.Duration // the last nap of this pause
	spins    int
}

// A wait is what to do when there is nothing to do.
type wait uint8

const (
	spin  wait = iota // progress again at once
	nap               // sleep for pacer.nap
	block             // sleep until there is something
)

// busy says that there was something to do.
func (p *pacer) busy() {
	p.events++
	if !p.since.IsZero() {
		p.before, p.since = p.since, time.Time{}
		p.nap, p.spins = 0, 0
	}
}

// pause says that there is nothing to do any more.
func (p *pacer) pause(now time.Time) {
	p.since = now
	if p.events > 0 && !p.before.IsZero() {
		gap := min(now.Sub(p.before)/time.Duration(p.events), 10*time.Millisecond)
		p.expected += (gap - p.expected) / 8
	}
	p.events = 0
}

// idle says that there was nothing to do, while so many loops poll.
func (p *pacer) idle(now time.Time, pollers int32) wait {
	if p.since.IsZero() {
		p.pause(now)
	}
	switch {
	case pollers > p.cpus:
		return block
	case p.expected <= longestSpin && now.Sub(p.since) < longestSpin:
		if p.spins++; p.spins%32 == 0 {
			runtime.Gosched() // a worker may wait for this CPU
		}
		return spin
	case p.expected <= longestLull && p.nap < longestNap:
		p.nap = min(max(2*p.nap, shortestNap), longestNap)
		return nap
	}
	return block
}
