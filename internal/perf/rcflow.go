package perf

import (
	"github.com/gantry-rdma/gantry/verbs"
)

// A flow is one queue pair of an end with its messages, which are numbered from
// 0 for as long as it lives.
type flow struct {
	// What each message needs comes first, and is one line of memory.
	qp                 *verbs.QP
	goal, posted, done uint64 // messages: that are to be posted, are, have completed
	got                uint64 // receives that have completed
	arrived            uint64 // messages that have to be in the slots
	last               uint64 // messages, when the slice is over
	open               uint32 // receives that are posted and have not completed
	queued             bool   // it is in the list of those that are ready

	since uint64 // of arrived, those of earlier slices
	psn   uint32

	*lossyFlow // of UC and UD
}

// A work request's ID is the number of its message, under that of its flow.
const (
	flowShift = 48
	fenceBit  = 1 << 47
	numberOf  = fenceBit - 1
)

// requests are the work requests of an end, for one post each. All its flows have
// the same ones: with thousands of queue pairs those of each would have left the
// caches before they are used again, and what is measured would be that.
type requests struct {
	wrs  []verbs.SendWR // ready but for what depends on the flow and the message
	sge  []verbs.SGE    // of wrs
	rwr  []verbs.RecvWR
	rsge []verbs.SGE // of rwr
}

// receivesAtOnce is how many receives one post has at most.
const receivesAtOnce = 64

// prepare makes n work requests, with all that is the same for all messages.
func (e *rcEnd) prepare(n int) {
	t := &e.test
	e.wrs, e.sge = make([]verbs.SendWR, n), make([]verbs.SGE, n)
	for k := range e.wrs {
		e.sge[k] = verbs.SGE{Len: uint32(t.Size), LKey: e.mr.LKey()}
		e.wrs[k] = verbs.SendWR{Opcode: e.opcode(), RKey: e.far.RKey, Add: 1, AH: e.ah, RemoteQKey: e.qkey}
		if !e.inlined() {
			e.wrs[k].SG = e.sge[k : k+1]
		}
	}
}

// prepareReceives does the same for receives.
func (e *rcEnd) prepareReceives() {
	n := min(receivesAtOnce, e.test.RecvDepth)
	e.rwr, e.rsge = make([]verbs.RecvWR, n), make([]verbs.SGE, n)
	for k := range e.rwr {
		e.rwr[k].SG = e.rsge[k : k+1]
	}
}

// inlined reports whether messages are copied when they are posted.
func (e *rcEnd) inlined() bool { return e.test.Size <= e.test.Inline && !e.test.pulls() }

func (e *rcEnd) opcode() verbs.Opcode {
	switch t := &e.test; t.verb() {
	case "send":
		if e.lossy {
			return verbs.WRSendWithImm
		}
		return verbs.WRSend
	case "read":
		return verbs.WRRDMARead
	case "atomic":
		if t.Atomic == compareAndSwap {
			return verbs.WRAtomicCmpAndSwp
		}
		return verbs.WRAtomicFetchAndAdd
	}
	if e.test.IsLatency() || e.lossy {
		return verbs.WRRDMAWriteWithImm // memory that changes by itself is nothing that Go may look at
	}
	return verbs.WRRDMAWrite
}

// build makes a work request of message m of flow i.
func (e *rcEnd) build(i int, f *flow, k int, m uint64) {
	w := &e.wrs[k]
	w.ID = uint64(i)<<flowShift | m
	w.Flags = 0
	if (m+1)%uint64(e.test.Moderation) == 0 || m+1 == f.last || e.awaits || k+1 == e.test.List && e.test.fillsUp() {
		w.Flags = verbs.Signaled
		e.signaled++
	}
	if e.ah != nil {
		w.RemoteQPN = e.far.QPs[i].Num
	}
	if e.lossy {
		m += f.skip
	}
	w.Imm = uint32(m)
	from, slot := e.layout.start(m), e.layout.slot(i, m)
	switch w.Opcode {
	case verbs.WRRDMARead:
		e.sge[k].Addr = e.base + uint64(slot)
		w.RemoteAddr = e.far.Base + uint64(from)
		return
	case verbs.WRAtomicCmpAndSwp, verbs.WRAtomicFetchAndAdd:
		e.sge[k].Addr = e.base + uint64(slot)
		w.RemoteAddr = e.far.Base + uint64(e.layout.word(i))
		w.Compare, w.Swap = m, m+1
		return
	case verbs.WRRDMAWrite, verbs.WRRDMAWriteWithImm:
		w.RemoteAddr = e.far.Base + uint64(slot)
	}
	if e.inlined() {
		w.Flags |= verbs.Inline
		w.Data = e.region[from : from+e.test.Size]
	} else {
		e.sge[k].Addr = e.base + uint64(from)
	}
}

// fillsUp reports whether a list may find no room for want of a completion: behind
// the last that has one there are as many messages as moderation allows. Then the
// end of each list has one.
func (t *RCTest) fillsUp() bool { return t.List > t.SendDepth-t.Moderation+1 }

// offer puts a flow among those that may post.
func (e *rcEnd) offer(i int) {
	f := &e.flows[i]
	if f.queued || f.posted == f.goal {
		return
	}
	f.queued = true
	if len(e.ready) == cap(e.ready) {
		n := copy(e.ready, e.ready[e.head:])
		e.ready, e.head = e.ready[:n], 0
	}
	e.ready = append(e.ready, int32(i))
}

// post lets every flow that is ready post all that it has room for.
func (e *rcEnd) post() (did bool) {
	for n := len(e.ready) - e.head; n > 0 && e.failed == nil; n-- {
		i := int(e.ready[e.head])
		e.head++
		e.flows[i].queued = false
		did = e.fill(i) || did
	}
	if e.head == len(e.ready) {
		e.ready, e.head = e.ready[:0], 0
	}
	return did
}

// fill posts lists of messages. A list waits until there is room for all of it.
func (e *rcEnd) fill(i int) (did bool) {
	f := &e.flows[i]
	for {
		want := min(uint64(e.test.List), f.goal-f.posted)
		if want == 0 || uint64(e.test.SendDepth)-(f.posted-f.done) < want {
			return did
		}
		for k := range int(want) {
			e.build(i, f, k, f.posted+uint64(k))
		}
		if _, err := f.qp.PostSend(e.wrs[:want]...); err != nil {
			e.refused(i, "post", err)
			return did
		}
		f.posted += want
		did = true
	}
}

// postReceives posts n more receives.
func (e *rcEnd) postReceives(i, n int) {
	f := &e.flows[i]
	for n > 0 {
		some := min(n, len(e.rwr))
		for k := range some {
			m := f.got + uint64(f.open) + uint64(k)
			e.rwr[k].ID = uint64(i)<<flowShift | m
			e.rsge[k] = e.receiveInto(i, m)
		}
		if _, err := f.qp.PostRecv(e.rwr[:some]...); err != nil {
			e.refused(i, "post receives", err)
			return
		}
		f.open += uint32(some)
		n -= some
	}
}

// receiveInto returns the slot of receive m of flow i.
func (e *rcEnd) receiveInto(i int, m uint64) verbs.SGE {
	return e.mr.SGE(e.layout.slot(i, m)-e.layout.grh, e.layout.grh+e.test.Size)
}

// handOver brings the memory of the targets from those who verify it to those
// who write to it, before the messages of a slice, and back behind them.
//
// A fence does that: an empty SEND for each flow. When it has arrived, so have
// the messages before it, and it does not arrive before the other end has
// posted the receive for it.
func (e *rcEnd) handOver() {
	if e.target {
		e.expectFences()
	}
	if e.sends {
		e.sendFences()
	}
}

// expectFences posts a receive for one fence of each flow.
func (e *rcEnd) expectFences() {
	for i := range e.flows {
		if _, err := e.flows[i].qp.PostRecv(verbs.RecvWR{ID: uint64(i)<<flowShift | fenceBit}); err != nil {
			e.refused(i, "post receives", err)
		}
		e.fences++
	}
}

func (e *rcEnd) sendFences() {
	for i := range e.flows {
		w := verbs.SendWR{ID: uint64(i)<<flowShift | fenceBit, Opcode: verbs.WRSend, Flags: verbs.Signaled}
		if _, err := e.flows[i].qp.PostSend(w); err != nil {
			e.refused(i, "post", err)
		}
		e.fences++
		e.signaled++
	}
}
