package perf

import (
	"fmt"
	"time"
)

// silence is how long a client waits while nothing happens at all. Where there is
// something to send, the transport finds out sooner that the peer is gone, within
// what it has promised; but an end may stand still that owes an answer, or the
// word that all has come.
func silence(t *RCTest) time.Duration { return max(answerTime, t.promise()) }

// watch ends the measurement when one wait lasts for the limit.
func (r *rcRun) watch(limit time.Duration) {
	r.guard.watch(limit, r.ctx.Done(), func() { r.cancel(r.silent(limit)) })
}

// silent is the error of a client for which nothing happens any more.
func (r *rcRun) silent(limit time.Duration) error {
	return fmt.Errorf("%v does not answer any more: nothing has happened for %v: %s: %w",
		r.a.far.Addr, limit, r.a.silence(), ErrRCPeer)
}
