package perf

import (
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
)

// What is different over UC and UD, where a message may be lost and its sender
// never knows:
//
//   - Every message says its number as immediate data, also the WRITEs. So the
//     receiver knows which contents to expect, and what has come already.
//   - Bandwidth is what arrives, by the clock of the receiver.
//   - A slice ends when all have come; or when the sender has said, by another
//     way, that all were sent, and then nothing has come for a while. What has
//     not come by then is lost. If it comes later it does not count.
//   - A latency is measured of the messages that are answered. One that is not
//     answered in good time is lost, and the next one is sent.

const (
	// quietTime is how long nothing arrives until the rest is taken for lost.
	quietTime = 10 * time.Millisecond
	// lossyNap is the longest sleep until it is asked whether to wait on.
	lossyNap = 5 * time.Millisecond
)

// A lossyFlow is what a flow has in addition.
type lossyFlow struct {
	skip uint64 // what the numbers of messages are ahead of how many were sent

	base  uint64   // the first message of this slice that may arrive
	until uint64   // the first that may not
	floor uint64   // messages before it are late
	high  uint64   // the number after the newest that has come
	first uint64   // receives that were used before this slice
	seen  []uint64 // of a message that has come, its number + 1, by its low bits
	held  []uint64 // of a slot, the number of the message that came into it, or late
}

// late stands for a message that does not count, and is not compared.
const late = ^uint64(0)

// seenMessages is how far apart a message and its double are told from two.
const seenMessages = 1 << 12

func newLossyFlow(slots int) *lossyFlow {
	return &lossyFlow{seen: make([]uint64, max(seenMessages, slots)), held: make([]uint64, slots)}
}

// number returns which message has immediate data imm: the one with these low
// bits that is the next to the newest.
func (f *lossyFlow) number(imm uint32) uint64 {
	return f.high + uint64(int64(int32(imm-uint32(f.high))))
}

// isSeen reports whether message m has come.
func (f *lossyFlow) isSeen(m uint64) bool { return f.seen[m&uint64(len(f.seen)-1)] == m+1 }

// await prepares for n messages on a flow.
func (e *rcEnd) await(f *flow, n int) {
	f.base, f.floor, f.first = f.until, f.until, f.got
	f.until += uint64(n)
	if e.receives && (e.echoes || !e.test.IsLatency()) {
		e.due += n
	}
}

// stepLossy takes what has arrived.
func (e *rcEnd) stepLossy() (did bool) {
	for {
		n := e.rcq.Poll(e.wc[:])
		if n == 0 {
			return did
		}
		did = true
		before := e.came.n
		for i := range e.wc[:n] {
			e.arrived(&e.wc[i])
		}
		if e.came.n > before {
			e.came.note(e.due == 0)
		}
		if n < len(e.wc) || e.failed != nil {
			return true
		}
	}
}

// arrived takes a message.
func (e *rcEnd) arrived(w *verbs.WC) {
	i, k := int(w.ID>>flowShift), w.ID&numberOf
	if w.Status != verbs.WCSuccess {
		e.broken(i, w)
		return
	}
	f := &e.flows[i]
	m := f.number(w.Imm)
	if k != f.got || int(w.ByteLen) != e.test.Size+e.layout.grh || w.Flags&verbs.WCWithImm == 0 {
		core.KeepFirst(&e.failed, fmt.Errorf("queue pair %d: receive %d got %d bytes, want receive %d with %d and the number of the message",
			i, k, w.ByteLen, f.got, e.test.Size+e.layout.grh))
		return
	}
	f.got++
	f.open--
	e.take(i, m, k)
	if e.failed == nil {
		e.replenish(i)
	}
}

// take counts message m of flow i, which came into receive k, unless it comes
// too late or again.
func (e *rcEnd) take(i int, m, k uint64) {
	f := &e.flows[i]
	slot := k & uint64(e.layout.slots-1)
	f.held[slot] = late
	again := m < f.high && (f.isSeen(m) || e.test.Transport == "UC")
	switch {
	case m >= f.until:
		core.KeepFirst(&e.failed, fmt.Errorf("queue pair %d: message %d came, and only %d were sent: %w", i, m, f.until, ErrRCPeer))
		return
	case again && e.test.Transport == "UC":
		core.KeepFirst(&e.failed, fmt.Errorf("queue pair %d: message %d came after message %d, which UC does not do", i, m, f.high-1))
		return
	}
	f.high = max(f.high, m+1)
	f.seen[m&uint64(len(f.seen)-1)] = m + 1
	if again || m < f.floor || e.due == 0 {
		return
	}
	f.held[slot] = m
	e.due--
	e.came.n++
	if e.each && e.test.Verify {
		e.verifyArrived(i, m, k)
	}
	if e.echoes {
		f.skip = m - f.goal
		e.sendOne(i)
	}
}

// replenish posts new receives now and then.
func (e *rcEnd) replenish(i int) {
	f := &e.flows[i]
	if batch := max(1, e.test.RecvDepth/8); int(f.open) <= e.test.RecvDepth-batch {
		e.postReceives(i, batch)
	}
}

// place returns where the contents of message m are, which came into receive k.
func (e *rcEnd) place(i int, m, k uint64) int {
	if e.test.verb() == "send" {
		m = k
	}
	return e.layout.slot(i, m)
}

// verifyArrived compares a message, and what a datagram says of its sender.
func (e *rcEnd) verifyArrived(i int, m, k uint64) {
	at := e.place(i, m, k)
	e.compare(i, m, e.region[at:][:e.test.Size], e.expect[e.layout.start(m):][:e.test.Size])
	if e.layout.grh == 0 {
		return
	}
	grh := (*roce.GRH)(e.region[at-roce.GRHLen:])
	if from := grh.Src().Unmap(); from != e.far.Addr {
		core.KeepFirst(&e.failed, fmt.Errorf("queue pair %d: the GRH of message %d names %v, and it was sent by %v", i, m, from, e.far.Addr))
	}
}

// verifyLossy compares what is still in the slots of a flow after a slice.
func (e *rcEnd) verifyLossy(i int) {
	f, slots := &e.flows[i], uint64(e.layout.slots)
	if e.test.verb() != "send" {
		// A message that was lost may have come in part, over an older one.
		for m := max(f.base, f.until-min(f.until, slots)); m < f.until; m++ {
			if f.isSeen(m) {
				e.verifyArrived(i, m, 0)
			}
		}
		return
	}
	// A receive that is posted again may be in use: for a message of which the
	// rest is lost, or for one that comes too late.
	recvs := f.got + uint64(f.open)
	for k := max(f.first, recvs-min(recvs, slots)); k < f.got; k++ {
		if m := f.held[k&(slots-1)]; m != late {
			e.verifyArrived(i, m, k)
		}
	}
}

// settle is called again and again when all was sent. It reports whether the
// slice is over: nothing is due, or nothing has come for a while.
func (e *rcEnd) settle() bool {
	e.came.look()
	if e.due == 0 {
		return true
	}
	if !e.test.IsLatency() && !e.came.quiet() { // with a latency, the client has given up already
		return false
	}
	e.due = 0
	return true
}

// A span is when the messages of a slice came.
type span struct {
	began       time.Time // the slice
	first, last time.Time // messages were found
	n, ahead    int       // messages: all, and those that were found first
	fresh       bool      // some came since last
	since       time.Time // it has been quiet
	then        int       // n at that time
}

// note is called when messages have come.
func (s *span) note(all bool) {
	s.fresh = true
	if s.first.IsZero() {
		s.first, s.ahead = time.Now(), s.n
		s.last = s.first
	}
	if all {
		s.look()
	}
}

// look reads the clock if messages have come since the last time.
func (s *span) look() {
	if s.fresh {
		s.last, s.fresh = time.Now(), false
	}
}

// quiet reports whether nothing has come for a while, from the first call on.
func (s *span) quiet() bool {
	now := time.Now()
	if s.since.IsZero() || s.n != s.then {
		s.since, s.then = now, s.n
	}
	return now.Sub(s.since) >= quietTime
}

// each returns the time of one message in nanoseconds, or 0 if none came. Those
// that were found first had no time of their own.
func (s *span) each() float64 {
	switch {
	case s.n == 0:
		return 0
	case s.n > s.ahead && s.last.After(s.first):
		return float64(s.last.Sub(s.first)) / float64(s.n-s.ahead)
	}
	return float64(max(1, s.last.Sub(s.began))) / float64(s.n)
}

// An arrival says how many messages of a slice came, and how fast.
type arrival struct {
	N    int     `json:"n"`
	Each float64 `json:"ns"` // of one
}

func (e *rcEnd) arrival() arrival { return arrival{e.came.n, e.came.each()} }
