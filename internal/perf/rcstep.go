package perf

import (
	"errors"
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

// ErrRCPeer is wrapped by errors about what the other end says or does.
var ErrRCPeer = errors.New("the other end cannot be measured with")

// begin adds n messages to each flow. With each set, every message is verified
// when it arrives, where this end is told that it has.
func (e *rcEnd) begin(n int, each bool) {
	e.each = each
	e.turn++
	if e.lossy {
		e.came = span{began: time.Now()}
	}
	alternates := e.test.IsLatency() // whoever drives it sends one at a time
	for i := range e.flows {
		f := &e.flows[i]
		if e.sends && !alternates {
			f.goal += uint64(n)
			e.left += n
			e.offer(i)
		}
		switch {
		case e.lossy:
			e.await(f, n)
		case e.receives:
			e.left += n
		}
		f.since = f.arrived
		f.last = f.posted + uint64(n)
		if e.target {
			f.arrived += uint64(n)
		}
	}
}

// sendOne adds one message to a flow.
func (e *rcEnd) sendOne(i int) {
	e.flows[i].goal++
	e.left++
	e.offer(i)
}

// moved reports whether all messages are done, complete also whether what
// follows them is: the fences, and what was lost or has arrived.
func (e *rcEnd) moved() bool    { return e.left == 0 }
func (e *rcEnd) complete() bool { return e.left == 0 && e.fences == 0 && e.due == 0 }

// outstanding reports whether messages are posted that have not completed.
func (e *rcEnd) outstanding() bool {
	for i := range e.flows {
		if f := &e.flows[i]; f.posted > f.done {
			return true
		}
	}
	return false
}

// step posts what can be posted, and takes completions. It reports whether it
// did anything. What fails is in e.failed.
func (e *rcEnd) step() (did bool) {
	if did = e.post(); e.alternates() {
		return e.stepInTurn(did)
	}
	did = e.takeSent() || did
	return e.takeReceived() || did
}

// alternates reports whether this end never has more to do than one message,
// which is an answer or gets one.
func (e *rcEnd) alternates() bool { return e.receives && e.test.IsLatency() && !e.lossy }

// stepInTurn is step for such an end: it has just posted its message, or it is
// the turn of the other end, and then its own with what has come.
func (e *rcEnd) stepInTurn(posted bool) (did bool) {
	if !posted {
		did = e.takeReceived()
		posted = e.post()
	}
	return e.takeSent() || did || posted
}

// takeSent takes the completions of messages.
func (e *rcEnd) takeSent() (did bool) {
	if e.signaled > 0 {
		n := e.scq.Poll(e.wc[:])
		for i := range e.wc[:n] {
			e.sent(&e.wc[i])
		}
		did = n > 0
	}
	return did
}

// takeReceived takes the completions of receives.
func (e *rcEnd) takeReceived() (did bool) {
	switch {
	case e.lossy:
		return e.receives && e.stepLossy()
	case e.left > 0 && e.receives || e.target && e.fences > 0:
		return e.receive()
	}
	return false
}

// receive takes all that has arrived. One completion of a sender stands for many
// messages, those of a receiver for one each: who took as many of these at a time
// would run out of receives.
func (e *rcEnd) receive() (did bool) {
	for {
		n := e.rcq.Poll(e.wc[:])
		for i := range e.wc[:n] {
			e.received(&e.wc[i])
		}
		if did = did || n > 0; n < len(e.wc) || e.failed != nil {
			return did
		}
	}
}

// sent takes the completion of a message and of those before it that had none.
func (e *rcEnd) sent(w *verbs.WC) {
	e.signaled--
	i, m := int(w.ID>>flowShift), w.ID&numberOf
	if w.Status != verbs.WCSuccess {
		e.broken(i, w)
		return
	}
	if w.ID&fenceBit != 0 {
		e.fences--
		return
	}
	f := &e.flows[i]
	if e.each && e.test.pulls() {
		e.verifyFlow(i, f.done, m+1)
	}
	e.left -= int(m + 1 - f.done)
	f.done = m + 1
	if e.test.pulls() {
		f.arrived = f.done
	}
	e.offer(i)
}

// received takes the completion of a receive, and posts new ones now and then.
func (e *rcEnd) received(w *verbs.WC) {
	i, m := int(w.ID>>flowShift), w.ID&numberOf
	if w.Status != verbs.WCSuccess {
		e.broken(i, w)
		return
	}
	if w.ID&fenceBit != 0 {
		e.fences--
		return
	}
	if e.srq != nil {
		e.srq.received(e, w)
		return
	}
	f := &e.flows[i]
	if m != f.got || int(w.ByteLen) != e.test.Size {
		core.KeepFirst(&e.failed, fmt.Errorf("queue pair %d: receive %d got %d bytes, want receive %d with %d",
			i, m, w.ByteLen, f.got, e.test.Size))
		return
	}
	f.got++
	f.open--
	f.arrived = f.got
	e.left--
	if e.each {
		e.verifyFlow(i, m, m+1)
	}
	if batch := max(1, e.test.RecvDepth/8); int(f.open) <= e.test.RecvDepth-batch {
		e.postReceives(i, batch)
	}
	if e.echoes {
		e.sendOne(i)
	}
}

// refused notes that a call on a queue pair failed.
func (e *rcEnd) refused(i int, what string, err error) {
	core.KeepFirst(&e.failed, fmt.Errorf("%s on queue pair %d: %w", what, i, err))
}

// broken notes a completion with an error. Those that follow it were flushed.
func (e *rcEnd) broken(i int, w *verbs.WC) {
	b := &BrokenConnection{Peer: e.far.Addr.String(), QP: i, Message: w.ID & numberOf, Status: w.Status}
	if w.Status == verbs.WCRetryExc {
		b.Hint = e.silence()
	}
	core.KeepFirst(&e.failed, b)
}

// A BrokenConnection error says that a queue pair went to the error state.
type BrokenConnection struct {
	Peer    string // address of the other end
	QP      int    // number of the queue pair, from 0
	Message uint64 // the first that failed
	Status  verbs.WCStatus
	Hint    string // what the counters tell, if the other end does not answer
}

// Error implements error.
func (b *BrokenConnection) Error() string {
	what := "the connection to " + b.Peer + " broke"
	if b.Status == verbs.WCRetryExc {
		what = b.Peer + " does not answer any more"
	}
	s := fmt.Sprintf("%s: message %d on queue pair %d ended with %v: %s", what, b.Message, b.QP, b.Status, b.Status.Description())
	if b.Hint != "" {
		s += ": " + b.Hint
	}
	return s
}

// silence says what the counters of the device tell about a peer that cannot be
// heard.
func (e *rcEnd) silence() string {
	d := e.port.dev
	return rendezvous.Silence(d.Counter, d.Addr(), e.far.Addr, "gantry perf still runs there")
}
