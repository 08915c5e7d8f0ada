package nic

import (
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/work"
)

const (
	outBatch   = 32   // frames that a half hands to the link at once
	entryBatch = 16   // completions that a half hands to their queue at once
	backlog    = 1024 // packets that wait for one half; more are dropped
)

// The commands that others give a half. It obeys at the start of its next run.
const (
	cmdFail uint32 = 1 << iota
	cmdDrain
	cmdResume
)

// A half is one side of a queue pair, sending or receiving, with its work item.
//
// Fields above the first blank line never change; those that are atomic or say
// so are for anyone; the rest belongs to whoever runs the item.
type half struct {
	d      *Device
	q      *QP
	pool   *pool
	sender *qp.Sender // of a send half
	polled bool       // its executor is the inline one of the device

	item     work.Item
	in       inbox         // packets that arrived
	commands atomic.Uint32 // cmd bits
	closed   atomic.Bool
	out      [2]atomic.Int64 // by epoch: runs in progress, frames out, frames that came back and were not regained
	returned frameStack      // frames that came back

	deadline atomic.Int64 // the machine's; see timers
	known    atomic.Int64 // of the heap; written under its lock
	place    int          // in the heap, from 1; under its lock

	starving   atomic.Bool
	nextHungry *half // under the lock of the pool
	cramped    bool  // waits for room in the link; under the lock of the device
	nextRoom   *half

	now     qp.Instant
	epoch   uint8
	pending *frame.Frame // packets to be handled, oldest first
	free    *outFrame
	kept    int  // how many are free
	dry     bool // this run asked for a frame and got none

	tx      [outBatch]*frame.Frame // emitted, and not taken by the link
	queued  int
	counted int  // of queued: those in out already
	patient bool // the program may have an answer to what this run completed

	done    [outBatch]*frame.Frame // handled, to be given back
	handled int

	cq      *CQ
	entries [entryBatch]qp.CQE // completions that the queue does not have yet
	ended   int                // how many
}

func (h *half) init(q *QP, x work.Executor, cq *CQ, run work.Run) {
	h.d, h.q, h.cq = q.d, q, cq
	h.polled = q.d.inline != nil && x == q.d.exec
	h.pool = &q.d.pools[0]
	if q.segments > narrow {
		h.pool = &q.d.pools[1]
	}
	h.item.Init(x, run)
}

// wake lets the half run: any goroutine, any time.
func (h *half) wake() {
	h.item.Wake()
	if h.polled {
		h.d.circle.alarm()
	}
}

// wakePublished is wake for those who wrote something atomically before.
func (h *half) wakePublished() {
	h.item.WakePublished()
	if h.polled {
		h.d.circle.alarm()
	}
}

// command tells the machine something, from outside of its runs.
func (h *half) command(c uint32) {
	h.commands.Or(c)
	h.wake()
}

// begin opens a run.
func (h *half) begin() {
	h.epoch = uint8(h.d.epoch.Load() & 1)
	h.out[h.epoch].Add(1)
	h.now, h.dry = h.clock(), false
	if h.pending == nil {
		h.pending = h.in.take()
	}
	if h.queued > 0 {
		h.flush()
	}
}

// clock returns the time: that of whoever drives, if somebody does.
func (h *half) clock() qp.Instant {
	if h.polled {
		if now := h.d.circle.now.Load(); now != 0 {
			return qp.Instant(now)
		}
	}
	return instant()
}

// next returns the oldest packet, or nil.
func (h *half) next() *frame.Frame {
	if h.pending == nil {
		h.pending = h.in.take()
	}
	return h.pending
}

// finish says that the machine is done with the packet of next.
func (h *half) finish() {
	f := h.pending
	h.pending, f.Next = f.Next, nil
	h.done[h.handled] = f
	if h.handled++; h.handled == len(h.done) {
		h.giveBack()
	}
}

// giveBack returns handled packets to the link. It comes before our answers
// go out: a peer in the same process then has its frames when it reads them.
func (h *half) giveBack() {
	if h.handled > 0 {
		n := h.handled
		h.handled = 0
		h.d.link.Give(h.done[:n])
		clear(h.done[:n])
		h.in.count.Add(int32(-n))
	}
}

// complete notes a completion. It returns false when its queue is full.
func (h *half) complete(e *qp.CQE) bool {
	if !h.cq.claim() {
		return false
	}
	h.entries[h.ended] = *e
	if h.ended++; h.ended == len(h.entries) {
		h.report()
	}
	return true
}

// report hands completions to their queue.
func (h *half) report() {
	if h.ended > 0 {
		h.cq.push(h.entries[:h.ended])
		h.ended = 0
	}
}

// end closes a run and reports whether packets are left over.
func (h *half) end() (more bool) {
	h.report()
	h.giveBack()
	if h.queued > 0 && !h.keep() {
		h.flush()
	}
	if h.queued == 0 {
		h.d.passRoom()
	}
	if h.kept > frameKeep {
		h.shed()
	}
	more = h.pending != nil
	h.out[h.epoch].Add(-1)
	return more
}

// shed gives back to the pool what another half may need.
func (h *half) shed() {
	last := h.free
	for range frameKeep - 1 {
		last = last.next
	}
	h.pool.put(last.next)
	last.next, h.kept = nil, frameKeep
}

// Frame is part of qp.Env.
func (h *half) Frame() *frame.Frame {
	if h.queued == len(h.tx) && !h.flush() || h.free == nil && !h.refill() {
		h.dry = true
		return nil
	}
	o := h.free
	h.free, o.next = o.next, nil
	h.kept--
	o.half, o.epoch = h, unsent
	o.Reset()
	return &o.Frame
}

// regain takes the frames that came back, and no longer counts them as out.
func (h *half) regain() *outFrame {
	chain := h.returned.take()
	var back [3]int64
	for o := chain; o != nil; o = o.next {
		back[o.epoch]++
	}
	for e := range h.out {
		if back[e] != 0 {
			h.out[e].Add(-back[e])
		}
	}
	return chain
}

// refill gets free frames: those that came back to this half, or others.
func (h *half) refill() bool {
	chain := h.regain()
	if chain == nil {
		chain = h.pool.get(frameBatch)
	}
	if chain == nil {
		chain = h.pool.starve(h)
	}
	h.free = chain
	for o := chain; o != nil; o = o.next {
		h.kept++
	}
	return chain != nil
}

// Emit is part of qp.Env. There is room: Frame made sure.
func (h *half) Emit(f *frame.Frame) {
	h.tx[h.queued] = f
	h.queued++
}

// flush sends what was emitted and reports whether there is room for more. If
// the link has none, it wakes the half when it has.
func (h *half) flush() bool {
	h.address()
	if h.sendSome(); h.queued > 0 {
		h.d.awaitRoom(h)
		h.sendSome()
	}
	return h.queued < len(h.tx)
}

// address writes the peer into what was emitted, and counts it as out.
func (h *half) address() {
	n := h.queued
	peer := h.q.view.Load().peer
	for i, f := range h.tx[:n] {
		f.Peer = peer
		if i >= h.counted {
			f.Owner.(*outFrame).epoch = h.epoch
		}
	}
	h.out[h.epoch].Add(int64(n - h.counted))
	h.counted = n
}

// keep leaves an acknowledgement to the outbox, if there is one and something
// is likely to come that it can leave with.
func (h *half) keep() bool {
	o := h.d.outbox
	if o == nil || !h.patient || h.queued != 1 {
		return false
	}
	h.address()
	if !o.keep(h.tx[0]) {
		return false
	}
	h.tx[0], h.queued, h.counted = nil, 0, 0
	return true
}

// sendSome hands over as much as the link takes.
func (h *half) sendSome() {
	n := h.queued
	var taken int
	if o := h.d.outbox; o != nil {
		taken = o.send(h.tx[:n], h.sender == nil)
	} else {
		taken = h.d.link.Send(h.tx[:n])
	}
	copy(h.tx[:], h.tx[taken:n])
	clear(h.tx[n-taken : n])
	h.queued -= taken
	h.counted -= taken
}

// discard takes back what was emitted and not sent, and gives back what
// arrived. Nobody runs the half.
func (h *half) discard() {
	for i, f := range h.tx[:h.queued] {
		h.tx[i] = nil
		f.Owner.FrameBack(f)
	}
	h.queued, h.counted = 0, 0
	for h.next() != nil {
		h.finish()
	}
	h.giveBack()
}

// retire is discard for a half that will never run again.
func (h *half) retire() {
	h.closed.Store(true)
	h.item.Close()
	h.d.timers.remove(h)
	h.discard()
	h.d.forgetRoom(h)
	h.pool.put(h.free)
	h.free, h.kept = nil, 0
	h.pool.put(h.regain())
}

// idle reports whether no frame of an epoch is out, and no run in progress.
func (h *half) idle(epoch int) bool {
	if h.out[epoch].Load() != 0 {
		h.pool.put(h.regain())
	}
	return h.out[epoch].Load() == 0
}

// An inbox holds packets for a half: one goroutine puts, one takes.
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
