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

// A pacer decides how to wait, from how long the pauses were of late. It
// knows no clock: the time is an argument.
type pacer struct {
	cpus     int32
	expected time.Duration // of a pause: the mean, with recent ones weighing more
	since    time.Time     // when this pause began; zero while busy
	now      time.Time     // when it was known to last
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
	if p.since.IsZero() {
		return
	}
	pause := min(p.now.Sub(p.since), 10*time.Millisecond)
	p.expected += (pause - p.expected) / 8
	p.since, p.nap, p.spins = time.Time{}, 0, 0
}

// woke says that a nap or a block is over.
func (p *pacer) woke(now time.Time) { p.now = now }

// idle says that there was nothing to do, while so many loops poll.
func (p *pacer) idle(now time.Time, pollers int32) wait {
	if p.since.IsZero() {
		p.since = now
	}
	p.now = now
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
