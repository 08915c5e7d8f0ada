package nic

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
)

// lateness is how long an acknowledgement may wait for a packet to leave with,
// when nobody drives the device any more.
const lateness = time.Millisecond

// An outbox keeps back one acknowledgement of a device that is driven by
// polling and has a socket. To send it takes longer than all else that is done
// for a small message, and the program waits for its completion meanwhile.
// Often it answers, and then both leave in one datagram.
//
// What is kept leaves with the next packets, with the end of the drive after
// the one in which it came, or, for a program that has stopped to poll, with a
// timer. The timer runs on while there is traffic, so it is not set for each.
type outbox struct {
	link link.Link
	full atomic.Bool // kept is not nil; changes under mu

	mu     sync.Mutex
	kept   *frame.Frame
	fresh  bool // it came in this drive
	used   bool // something was kept since the timer ran
	armed  bool // the timer will run
	closed bool
	timer  *time.Timer
	batch  [outBatch + 1]*frame.Frame
}

func newOutbox(l link.Link) *outbox {
	o := &outbox{link: l}
	o.timer = time.AfterFunc(time.Hour, o.expire)
	o.timer.Stop()
	return o
}

// keep takes an acknowledgement over, unless there is one already.
func (o *outbox) keep(f *frame.Frame) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.kept != nil {
		return false
	}
	o.kept, o.fresh, o.used = f, true, true
	o.full.Store(true)
	if !o.armed {
		o.armed = true
		o.timer.Reset(lateness)
	}
	return true
}

// send hands frames to the link, together with what was kept, and returns how
// many of the frames it took. What is kept goes before other answers, so that
// those of one queue pair stay in order, and behind requests, so that these
// arrive while it is still being sent.
func (o *outbox) send(frames []*frame.Frame, answers bool) (taken int) {
	if !o.full.Load() {
		return o.link.Send(frames)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.kept == nil:
	case answers:
		if !o.flush() {
			return 0
		}
	default:
		n := copy(o.batch[:], frames)
		o.batch[n] = o.kept
		taken = o.link.Send(o.batch[:n+1])
		clear(o.batch[:n+1])
		if taken > n {
			o.kept = nil
			o.full.Store(false)
		}
		return min(taken, n)
	}
	return o.link.Send(frames)
}

// flush sends what is kept, and reports whether nothing is left. The caller
// holds mu.
func (o *outbox) flush() bool {
	if o.kept == nil {
		return true
	}
	o.batch[0] = o.kept
	if o.link.Send(o.batch[:1]) == 0 {
		return false
	}
	o.batch[0], o.kept = nil, nil
	o.full.Store(false)
	return true
}

// age ends a drive.
func (o *outbox) age() {
	if !o.full.Load() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.fresh {
		o.flush()
	}
	o.fresh = false
}

// expire is called by the timer.
func (o *outbox) expire() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.armed = (!o.flush() || o.used) && !o.closed
	if o.used = false; o.armed {
		o.timer.Reset(lateness)
	}
}

// close sends what is kept, and keeps nothing from then on. Called again after
// the link was closed, it leaves nothing behind.
func (o *outbox) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
	o.timer.Stop()
	o.flush()
}
