package nic

import (
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
)

// How long an acknowledgement may wait for a packet to leave with, when nobody
// drives the device any more. The timer that looks after it wakes a thread, and
// that may take the CPU of somebody who polls. So it looks ever less often, as
// long as the program goes on driving; if once it has not, the next look comes
// early again.
const (
	lateness        = time.Millisecond
	longestLateness = 8 * lateness
)

// An outbox is what the halves of a circle have for the link of their device:
// the packets of a round leave together. It is under the lock of the circle.
//
// On a device with a socket it keeps one acknowledgement back. To send it takes
// longer than all else that is done for a small message, and the program waits
// for its completion meanwhile. Often it answers, and then both leave with one
// system call. What is kept leaves with the next packets, with the end of the drive
// after the one in which it came, or, for a program that has stopped to poll,
// with a timer. The timer runs on while there is traffic, so it is not set for
// each.
type outbox struct {
	link   link.Link
	socket bool                         // link is one
	frames [2*outBatch + 1]*frame.Frame // one more, for what is kept
	n      int

	timer *time.Timer // nil: nothing is kept
	kept  *frame.Frame
	since qp.Instant    // when it was kept
	fresh bool          // it came in this drive
	used  bool          // something was kept since the timer ran
	armed bool          // the timer will run
	pause time.Duration // until it does, the next time
}

// full reports whether nothing can be added.
func (o *outbox) full() bool { return o.n >= len(o.frames)-1 }

// add adds a frame, for which there is room. What is kept goes before other
// answers, so that those of one queue pair stay in order.
func (o *outbox) add(f *frame.Frame, answer bool) {
	if answer {
		o.release()
	}
	o.frames[o.n] = f
	o.n++
}

// release puts what is kept behind the rest. There is room for it.
func (o *outbox) release() {
	if o.kept != nil {
		o.frames[o.n], o.kept = o.kept, nil
		o.n++
	}
}

// keep keeps the newest frame back if it is of a kind, and nothing is kept.
func (o *outbox) keep(kind roce.Opcode, now qp.Instant) {
	if o.timer == nil || o.kept != nil || (*roce.BTH)(o.frames[o.n-1].Head[:]).Opcode() != kind {
		return
	}
	o.n--
	o.kept, o.frames[o.n] = o.frames[o.n], nil
	o.since, o.fresh, o.used = now, true, true
	if !o.armed {
		o.arm()
	}
}

// arm lets the timer run after the pause.
func (o *outbox) arm() {
	o.used, o.armed = o.kept != nil, true
	o.pause = max(o.pause, lateness)
	o.timer.Reset(o.pause)
}

// send hands over as much as the link takes, and reports whether that was all.
// What is kept goes behind requests, so that these arrive while it is still
// being sent.
//
// A socket is done with frames before Send returns, and passes them back to the
// driver of the circle, which so needs no atomic operation.
func (o *outbox) send() bool {
	o.release()
	n := o.n
	if o.socket {
		o.mark(true)
	}
	taken := o.link.Send(o.frames[:n])
	if o.socket {
		o.mark(false)
	}
	copy(o.frames[:], o.frames[taken:n])
	clear(o.frames[n-taken : n])
	o.n -= taken
	return o.n == 0
}

// mark says of all frames whether who gives them back drives the circle.
func (o *outbox) mark(here bool) {
	for _, f := range o.frames[:o.n] {
		// One that has come back already may be another goroutine's by now.
		if of := f.Owner.(*outFrame); of.here != here {
			of.here = here
		}
	}
}

// age ends a drive, and reports whether what is kept has to leave now.
func (o *outbox) age() bool {
	old := o.kept != nil && !o.fresh
	o.fresh = false
	return old
}

// expire sends what is kept. The timer goes on while it is of use.
func (o *outbox) expire(now qp.Instant) {
	o.armed = false
	if o.timer == nil {
		return
	}
	if o.kept != nil && now-o.since >= qp.Instant(lateness/2) {
		o.pause = lateness // the program does other things
	} else {
		o.pause = min(2*o.pause, longestLateness)
	}
	if o.kept != nil {
		o.send()
	}
	if o.used {
		o.arm()
	}
}

// remove sends the frames of h back.
func (o *outbox) remove(h *half) {
	o.release()
	kept := 0
	for _, f := range o.frames[:o.n] {
		if f.Owner.(*outFrame).half == h {
			f.Owner.FrameBack(f)
			continue
		}
		o.frames[kept] = f
		kept++
	}
	clear(o.frames[kept:o.n])
	o.n = kept
}

// close keeps nothing any more, and sends what there is if it can.
func (o *outbox) close() {
	if o.timer != nil {
		o.timer.Stop()
		o.timer = nil
	}
	if o.kept != nil || o.n > 0 {
		o.send()
	}
}
