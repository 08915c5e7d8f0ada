package perf

import (
	"fmt"
	"time"
)

// An alarm ends a measurement in which nothing happens for too long. It belongs
// to the goroutine that measures.
type alarm struct {
	timer *time.Timer
	limit time.Duration
	set   bool
}

func newAlarm(limit time.Duration, end func()) *alarm {
	a := &alarm{timer: time.AfterFunc(limit, end), limit: limit}
	a.timer.Stop()
	return a
}

// raise sets the alarm, if it is not set.
func (a *alarm) raise() {
	if !a.set {
		a.set = true
		a.timer.Reset(a.limit)
	}
}

// clear takes it back: something happens.
func (a *alarm) clear() {
	if a.set {
		a.set = false
		a.timer.Stop()
	}
}

// silence is how long a client waits while nothing happens at all. Where there is
// something to send, the transport finds out sooner that the peer is gone, within
// what it has promised; but an end may stand still that owes an answer, or the
// word that all has come.
func silence(t *RCTest) time.Duration { return max(answerTime, t.promise()) }

// silent is the error of a client for which nothing happens any more.
func (r *rcRun) silent() error {
	return fmt.Errorf("%v does not answer any more: nothing has happened for %v: %s: %w",
		r.a.far.Addr, r.alarm.limit, r.a.silence(), ErrRCPeer)
}
