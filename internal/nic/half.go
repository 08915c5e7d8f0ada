package nic

import (
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/work"
)

const (
	outBatch   = 64   // frames that are handed to the link at once
	entryBatch = 16   // completions that a half hands to their queue at once
	backlog    = 1024 // packets that wait for one half; more are dropped
)

// The commands that others give a half. It obeys at the start of its next run.
const (
	cmdFail uint32 = 1 << iota
	cmdDrain
	cmdResume
)

// A half is one side of a queue pair, sending or receiving.
//
// It is run by its work item, or, where its executor is the inline one of the
// device, by whoever drives the circle: see drive.go.
//
// Those that are atomic, or say so, are for anyone; the rest belongs to whoever
// runs the half. What a circle touches comes first and lies together: with
// thousands of queue pairs each line of memory that it needs is far away.
type half struct {
	d      *Device
	q      *QP
	pool   *pool
	sender *qp.Sender // of a send half
	circle *circle    // that runs the half, or nil: then it is the item
	cq     *CQ
	by     *batches // what only an item needs

	list     listName // of the circle
	stopped  bool     // the circle is not to run it
	inside   bool     // its machine is at work
	running  bool     // it is a send half, and this is its run
	heard    bool     // an answer crossed over to it
	dry      bool     // this run asked for a frame and got none
	epoch    uint8
	posted   atomic.Bool   // for the circle: woken, and not gathered yet
	commands atomic.Uint32 // cmd bits

	nextListed *half
	nextPosted *half        // of whoever woke it, and then of the circle
	met        acquaintance // who packets cross over to, and messages go to whole
	whole      int          // packets that messages of this run stood for
	wholeBytes int          // of them
	now        qp.Instant   // when the run of the item began
	pending    *frame.Frame // packets to be handled, oldest first
	follows    *half        // is to fail with this one
	returned   frameStack   // frames that came back
	handled    int32
	waiting    int32 // packets for the circle that were not given back

	known  atomic.Int64            // of the heap of timers; written under its lock
	due    int64                   // deadline of the machine, if the circle runs the half
	done   *[outBatch]*frame.Frame // handled, to be given back at the end of the run
	newest *frame.Frame            // of pending, for the circle
	place  int                     // in the heap, from 1; under its lock
	out    outstanding

	deadline atomic.Int64 // of the machine, if an item runs the half
	item     work.Item
	in       inbox // packets that arrived, for the item
	closed   atomic.Bool

	starving   atomic.Bool
	nextHungry *half // under the lock of the pool
	cramped    bool  // waits for room in the link; under the lock of the device
	nextRoom   *half
}

// batches are what a half that is run by an item collects before it takes a
// lock.
type batches struct {
	done    [outBatch]*frame.Frame
	free    *outFrame
	kept    int // how many are free
	tx      [outBatch]*frame.Frame
	queued  int // emitted, and not taken by the link
	counted int // of queued: those in out already
	entries [entryBatch]qp.CQE
	ended   int // completions that the queue does not have yet
}

func (h *half) init(q *QP, x work.Executor, cq *CQ, run work.Run) {
	h.d, h.q, h.cq = q.d, q, cq
	h.pool = &q.d.pools[0]
	if q.segments > narrow {
		h.pool = &q.d.pools[1]
	}
	if q.d.inline != nil && x == q.d.exec {
		h.circle = q.d.circle
		h.done = &h.circle.done
		return
	}
	h.out.shared, h.by = true, new(batches)
	h.done = &h.by.done
	h.item.Init(x, run)
}

// wake lets the half run: any goroutine, any time.
func (h *half) wake() {
	if h.circle != nil {
		h.circle.enqueue(h)
		return
	}
	h.item.Wake()
}

// wakePublished is wake for those who wrote something atomically before.
func (h *half) wakePublished() {
	if h.circle == nil {
		h.item.WakePublished()
		return
	}
	// Who takes it out looks after it has cleared the flag, and so sees what
	// was written before the flag was seen set.
	if !h.posted.Load() {
		h.circle.enqueue(h)
	}
}

// command tells the machine something, from outside of its runs.
func (h *half) command(c uint32) {
	h.commands.Or(c)
	h.wake()
}

// disable lets no run begin, and returns when none is in progress.
func (h *half) disable() {
	if h.circle == nil {
		h.item.Disable()
		return
	}
	h.circle.exclusively(func() { h.stopped = true })
}

// enable lets a half run again. It is woken: packets that came meanwhile woke
// nobody, and their senders wait to have them back.
func (h *half) enable() {
	if h.circle == nil {
		h.item.Enable()
	} else {
		h.circle.exclusively(func() { h.stopped = false })
	}
	h.wake()
}

// alone calls f while nobody touches the half, which is disabled.
func (h *half) alone(f func()) {
	if h.circle == nil {
		f()
		return
	}
	h.circle.exclusively(f)
}

// begin opens a run.
func (h *half) begin() {
	h.epoch, h.dry = uint8(h.d.epoch.Load()&1), false
	if h.circle != nil {
		h.fetch()
		return
	}
	h.out.add(h.epoch, 1)
	h.now = instant()
	if h.pending == nil {
		h.pending = h.in.take()
	}
	if h.by.queued > 0 {
		h.flush()
	}
}

// end closes a run and reports whether packets are left over.
func (h *half) end() (more bool) {
	h.giveBack()
	b := h.by
	if b != nil {
		h.report()
	}
	h.fateIsShared()
	if b == nil {
		return h.pending != nil
	}
	if b.queued > 0 {
		h.flush()
	}
	if b.queued == 0 {
		h.d.passRoom()
	}
	if b.kept > frameKeep {
		h.shed()
	}
	more = h.pending != nil
	h.out.add(h.epoch, -1)
	return more
}

// fateIsShared fails the other half, if this one has failed.
func (h *half) fateIsShared() {
	if o := h.follows; o != nil {
		h.follows = nil
		o.command(cmdFail)
	}
}

// accept adds a packet to those that the circle has for the half. It returns
// false when there are too many.
func (h *half) accept(f *frame.Frame) bool {
	if h.waiting == backlog {
		return false
	}
	h.waiting++
	if f.Next = nil; h.pending == nil {
		h.pending = f
	} else {
		h.newest.Next = f
	}
	h.newest = f
	h.circle.fresh.push(h)
	return true
}

// next returns the oldest packet, or nil.
func (h *half) next() *frame.Frame {
	if h.pending == nil && h.circle == nil {
		h.pending = h.in.take()
	}
	return h.pending
}

// finish says that the machine is done with the packet of next.
func (h *half) finish() {
	f := h.pending
	h.pending, f.Next = f.Next, nil
	h.done[h.handled] = f
	if h.handled++; int(h.handled) == len(h.done) {
		h.giveBack()
	}
}

// giveBack returns handled packets to the link. It comes before our answers
// go out: a peer in the same process then has its frames when it reads them.
func (h *half) giveBack() {
	n := h.handled
	if n == 0 {
		return
	}
	h.handled = 0
	frames := h.done[:n]
	if h.q.transport == roce.UD {
		frames = h.d.groups.refs.collect(frames)
	}
	if h.circle != nil {
		h.waiting -= n
		h.circle.give(h.d.link, frames)
	} else {
		h.in.count.Add(int32(-n))
		h.d.link.Give(frames)
	}
	clear(h.done[:n])
}

// complete notes a completion. It returns false when its queue is full.
func (h *half) complete(e *qp.CQE) bool {
	if h.circle != nil {
		return h.cq.put(e)
	}
	if !h.cq.claim() {
		h.cq.mu.Lock()
		h.cq.overrun()
		h.cq.mu.Unlock()
		return false
	}
	b := h.by
	b.entries[b.ended] = *e
	if b.ended++; b.ended == len(b.entries) {
		h.report()
	}
	return true
}

// report hands completions to their queue.
func (h *half) report() {
	if b := h.by; b.ended > 0 {
		h.cq.push(b.entries[:b.ended])
		b.ended = 0
	}
}

// count counts an event of the half.
func (h *half) count(c *tallied, n uint64) {
	if h.circle != nil {
		c.driven += n
	} else {
		c.others.Add(n)
	}
}

// An inbox holds packets for a half that an item runs: one goroutine puts, one
// takes.
type inbox struct {
	top   atomic.Pointer[frame.Frame] // newest first
	count atomic.Int32                // packets put and not yet given back
}

// put adds n packets, linked from the newest to the oldest.
func (i *inbox) put(newest, oldest *frame.Frame, n int) {
	i.count.Add(int32(n))
	for {
		top := i.top.Load()
		oldest.Next = top
		if i.top.CompareAndSwap(top, newest) {
			return
		}
	}
}

// take returns all packets, linked from the oldest to the newest.
func (i *inbox) take() *frame.Frame {
	if i.top.Load() == nil {
		return nil
	}
	f := i.top.Swap(nil)
	var first *frame.Frame
	for f != nil {
		older := f.Next
		f.Next = first
		first, f = f, older
	}
	return first
}
