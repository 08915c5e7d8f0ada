package qp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// newEnd draws one endpoint.
func newEnd(w *world, i int, mtu roce.MTU, psn [2]roce.PSN, rd [2]uint8) *end {
	rng := rand.New(rand.NewPCG(w.rng.Uint64(), 5))
	h := newHost(w.t, string(rune('A'+i)), 1<<rng.IntN(7))
	h.refs = map[uint64]int{}
	if rng.IntN(3) == 0 {
		h.limit = 1 + rng.IntN(6)
	}
	e := &end{host: h, w: w, rng: rng, left: 20 + rng.IntN(60)}
	random := func(n int) []byte {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	h.register(random(256<<10), RemoteRead)
	h.register(make([]byte, targetSize), RemoteRead|RemoteWrite|RemoteAtomic|RemoteFlushGlobal|RemoteFlushPersistent|BindWindow)
	h.register(make([]byte, 80*longest), LocalWrite)
	h.register(make([]byte, 256<<10), LocalWrite)
	for range 200 {
		h.register(make([]byte, 8), RemoteRead)
	}
	for range 100 {
		h.regions[h.register(nil, 0)-1].gone = true // windows
	}
	e.target, e.invNext, e.local, e.window = make([]byte, targetSize), keyFirst, keyFirst+100, keyFirst+200
	e.onFlush = e.flushed
	e.onSend, e.onRecv = e.completed, e.arrived
	e.clock = func() Instant { return e.w.now }
	s := SenderConfig{QPN: uint32(i + 1), DestQPN: uint32(2 - i), MTU: mtu, PSN: psn[i], Timeout: 8, RetryCount: 7,
		EndlessRetry: true, RNRRetry: 7, MaxRdAtomic: rd[i], MaxWindow: 1 << rng.IntN(10),
		MaxTrain: rng.IntN(4) * rng.IntN(9)}
	if rng.IntN(2) == 0 {
		s.Probe = 20_000
		s.Sparing = rng.IntN(2) == 0
	}
	h.cap = 1 << rng.IntN(10)
	if often := rng.IntN(6); often > 2 { // nothing is between the two, now and then
		h.near = func() *Responder {
			if rng.IntN(6) < often {
				return &e.peer.r
			}
			return nil
		}
		e.plain = rng.IntN(4)
	}
	h.s.Start(s)
	h.r.Start(ResponderConfig{QPN: uint32(i + 1), DestQPN: uint32(2 - i), MTU: mtu, PSN: psn[1-i], MaxTrain: rng.IntN(7),
		MaxDestRdAtomic: rd[1-i], MinRNRTimer: 1, Access: RemoteRead | RemoteWrite | RemoteAtomic | RemoteFlushGlobal | RemoteFlushPersistent})
	return e
}

// String tells where an end is, for one that hangs.
func (e *end) String() string {
	return fmt.Sprintf("%s: posted %d done %d, %v waits for %v, deadline %d, fifo %d, receives %d of %d",
		e.name, e.count, e.done, e.s.State(), e.s.Waiting(), e.s.Deadline(), len(e.fifo), e.got, len(e.peer.expect))
}

// arrive queues a packet, or drops it when the FIFO is full.
func (e *end) arrive(f *frame.Frame) {
	if len(e.fifo) < 64 {
		e.fifo = append(e.fifo, f)
	}
	e.wake()
}

// back gives a frame back.
func (e *end) back(f *frame.Frame) {
	f.Back()
	e.wake()
}

// wake arranges for a run.
func (e *end) wake() {
	if !e.queued {
		e.queued = true
		e.w.after(Instant(e.rng.IntN(300)), func() {
			e.queued = false
			e.turn()
		})
	}
}

// turn is a run of both halves, as the device does it.
func (e *end) turn() {
	e.inbox = &e.fifo
	for len(e.fifo) > 0 {
		f := e.fifo[0]
		if !isRequest(f) {
			e.s.Receive(f, e.w.now)
		} else if !e.r.Receive(f, e.w.now) {
			break
		}
		e.fifo = e.fifo[1:]
	}
	more := e.r.Step(e.w.now, 1+e.rng.IntN(16))
	now := e.w.now
	if e.rng.IntN(2) == 0 {
		now = 0 // it has to ask
	}
	more = e.s.Step(now, 1+e.rng.IntN(16)) || more
	for _, f := range e.takeOut() {
		e.w.carry(e, f)
	}
	if more || len(e.fifo) > 0 && !e.r.busy() {
		e.wake()
	}
	if d := e.s.Deadline(); d != 0 && (e.alarm == 0 || d < e.alarm || e.alarm < e.w.now) {
		e.alarm = d
		e.w.after(max(0, d-e.w.now), func() {
			if e.alarm == d {
				e.alarm = 0
			}
			e.wake()
		})
	}
	if len(e.fatal) > 0 {
		e.w.fail("%s went to the error state: %v", e.name, e.fatal)
	}
}

// program posts receives and requests now and then, until there are enough.
func (e *end) program() {
	for range 1 + e.rng.IntN(4) {
		if e.rng.IntN(2) == 0 && e.wanted < e.got+16 {
			e.postReceive()
		}
		if e.left > 0 && e.postOne() {
			e.left--
		}
	}
	if e.left > 0 || e.wanted < 1000 && !e.w.done() {
		e.w.after(Instant(e.rng.IntN(20_000)), e.program)
	}
	e.wake()
}

// postReceive posts a receive, mostly of several entries, that holds every message.
func (e *end) postReceive() {
	at := e.wanted % 8 * 32 << 10
	n := 1 + e.rng.IntN(longest)
	if e.rng.IntN(4) < e.peer.plain {
		e.receive(uint64(e.wanted), SGE{addr(keyReceive, at), longest, keyReceive})
	} else {
		e.receive(uint64(e.wanted), SGE{addr(keyReceive, at), uint32(n), keyReceive},
			SGE{addr(keyReceive, at+n), uint32(longest - n), keyReceive})
	}
	e.wanted++
}

// size draws the length of a message.
func (e *end) size() int {
	switch e.rng.IntN(5) {
	case 0:
		return 0
	case 1:
		return e.rng.IntN(longest)
	case 2:
		return e.s.mtu * e.rng.IntN(longest/e.s.mtu)
	}
	return e.rng.IntN(300)
}

// postOne posts a random request, and plans what is to come of it.
func (e *end) postOne() bool {
	if e.count-e.done >= 8 && e.rng.IntN(2) == 0 {
		return false
	}
	return e.post(func(w *WQE) {
		w.ID, w.Op = e.count, Op(e.rng.IntN(int(opCount)))
		p := plan{op: w.Op, at: e.landed, loud: e.rng.IntN(3) > 0}
		if !p.loud {
			w.Flags = 0
		}
		if e.rng.IntN(8) == 0 || e.fence && w.Op != OpRead {
			w.Flags |= Fence
			e.fence = false
		}
		e.fillIn(w, &p)
		e.plans = append(e.plans, p)
		e.count++
	})
}

// fillIn fills a request in, and executes it on the model.
func (e *end) fillIn(w *WQE, p *plan) {
	switch w.Op {
	case OpSend, OpSendImm, OpSendInv:
		a := arrival{data: e.source(w, e.size()), kind: OpRecv}
		a.n = uint32(len(a.data))
		if w.Op == OpSendImm {
			a.with, a.imm = true, e.rng.Uint32()
			w.Imm = a.imm
		}
		if w.Op == OpSendInv {
			a.inv = e.invNext
			w.Imm = a.inv
			e.invNext++
		}
		e.expect = append(e.expect, a)
	case OpWrite, OpWriteImm:
		data := e.source(w, e.size())
		at := e.rng.IntN(targetSize - len(data))
		w.RKey, w.RemoteAddr = keyTarget, addr(keyTarget, at)
		copy(e.target[at:], data)
		if w.Op == OpWriteImm {
			w.Imm = e.rng.Uint32()
			e.expect = append(e.expect, arrival{n: uint32(len(data)), imm: w.Imm, with: true, kind: OpRecvWriteImm})
		}
	case OpRead:
		n := e.size()
		at := e.rng.IntN(targetSize - n)
		from := e.peer.regions[keySource-1].mem
		w.RKey = keySource
		if e.rng.IntN(2) == 0 { // what may change later: the next change is fenced
			from, w.RKey, e.fence = e.target, keyTarget, true
		}
		w.RemoteAddr = addr(w.RKey, at)
		p.data = bytes.Clone(from[at : at+n])
		e.landing(w, p.at, n)
	case OpCompareSwap, OpFetchAdd:
		at := 8 * e.rng.IntN(16)
		before := binary.NativeEndian.Uint64(e.target[at:])
		w.RKey, w.RemoteAddr = keyTarget, addr(keyTarget, at)
		w.SwapAdd, w.Compare = e.rng.Uint64(), before+uint64(e.rng.IntN(2))
		p.data = binary.NativeEndian.AppendUint64(nil, before)
		e.landing(w, p.at, 8)
		if w.Op == OpFetchAdd {
			binary.NativeEndian.PutUint64(e.target[at:], before+w.SwapAdd)
		} else if before == w.Compare {
			binary.NativeEndian.PutUint64(e.target[at:], w.SwapAdd)
		}
	case OpLocalInv:
		w.Imm = e.local
		e.local++
	default:
		e.fillInNew(w)
	}
}

// fillInNew is fillIn for what came later.
func (e *end) fillInNew(w *WQE) {
	switch w.Op {
	case OpAtomicWrite:
		data, at := e.source(w, 8), 8*e.rng.IntN(16)
		w.RKey, w.RemoteAddr = keyTarget, addr(keyTarget, at)
		copy(e.target[at:], data)
	case OpFlush:
		w.RKey, w.RemoteAddr, w.Len = keyTarget, addr(keyTarget, 8), uint32(e.rng.IntN(targetSize-8))
		w.Placement, w.Level = roce.Placement(1+e.rng.IntN(3)), roce.FlushLevel(e.rng.IntN(2))
		e.flushPlans = append(e.flushPlans, bytes.Clone(e.target))
	case OpBindMW:
		w.Bind = Binding{Window: e.window, Key: e.window, LKey: keyTarget, Access: RemoteRead, Addr: addr(keyTarget, 0), Len: 8}
		e.window++
	}
}

// flushed checks that all before a FLUSH is in its place, and nothing after it.
func (e *end) flushed() {
	n := len(e.flushes) - 1
	if n >= len(e.peer.flushPlans) {
		e.w.fail("%s: FLUSH %d was executed, and %d were posted", e.name, n, len(e.peer.flushPlans))
		return
	}
	if !bytes.Equal(e.peer.flushPlans[n], e.regions[keyTarget-1].mem) {
		e.w.fail("%s: the memory at FLUSH %d is not as the requests before it leave it", e.name, n)
	}
	e.peer.flushPlans[n] = nil
}

// source gives a request n bytes to send: inline, or from up to four entries.
func (e *end) source(w *WQE, n int) []byte {
	at := e.rng.IntN(256<<10 - n)
	data := e.regions[keySource-1].mem[at : at+n]
	if n <= cap(w.Data) && e.rng.IntN(3) == 0 {
		w.Flags |= Inline
		w.Data = append(w.Data, data...)
		return data
	}
	if e.rng.IntN(4) < e.plain {
		w.SG = append(w.SG, SGE{addr(keySource, at), uint32(n), keySource})
		return data
	}
	e.entries(w, keySource, at, n)
	return data
}

// landing gives a request room for n bytes.
func (e *end) landing(w *WQE, at, n int) {
	e.entries(w, keyLanding, at, n)
	e.landed += n
}

// entries splits memory into up to four scatter entries; some may be empty.
func (e *end) entries(w *WQE, key uint32, at, n int) {
	for i := range 4 {
		part := n
		if i < 3 {
			part = e.rng.IntN(n + 1)
		}
		w.SG = append(w.SG, SGE{addr(key, at), uint32(part), key})
		at, n = at+part, n-part
	}
}

// completed checks a completion of the send queue, and all silent ones before.
func (e *end) completed(c *CQE) {
	for ; e.done < c.ID; e.done++ {
		if e.plans[e.done].loud {
			e.w.fail("%s: completion %d came before %d", e.name, c.ID, e.done)
			return
		}
		e.land(e.done)
	}
	if c.ID != e.done || c.Status != StatusSuccess || !e.plans[c.ID].loud {
		e.w.fail("%s: got completion %d %v, want %d", e.name, c.ID, c.Status, e.done)
		return
	}
	e.land(e.done)
	e.done++
}

// land checks what a request has left behind, and that none of its frames is
// out any more.
func (e *end) land(n uint64) {
	if e.refs[n] != 0 {
		e.w.fail("%s: request %d completed with %d frames out", e.name, n, e.refs[n])
	}
	p := &e.plans[n]
	if got := e.regions[keyLanding-1].mem[p.at : p.at+len(p.data)]; !bytes.Equal(got, p.data) {
		e.w.fail("%s: request %d (%d) left the wrong %d bytes", e.name, n, p.op, len(got))
	}
}

// received checks a completion of a receive.
func (e *end) arrived(c *CQE) {
	if e.got >= len(e.peer.expect) || c.ID != uint64(e.got) || c.Status != StatusSuccess {
		e.w.fail("%s: received %d %v, want %d of %d", e.name, c.ID, c.Status, e.got, len(e.peer.expect))
		return
	}
	a := &e.peer.expect[e.got]
	if c.Op != a.kind || c.ByteLen != a.n || c.WithImm != a.with || c.WithImm && c.Imm != a.imm ||
		c.WithInv != (a.inv != 0) || c.WithInv && c.Imm != a.inv {
		e.w.fail("%s: receive %d is %+v, want %+v", e.name, e.got, *c, *a)
	}
	at := e.got % 8 * 32 << 10
	if got := e.regions[keyReceive-1].mem[at : at+len(a.data)]; !bytes.Equal(got, a.data) {
		e.w.fail("%s: receive %d got the wrong bytes", e.name, e.got)
	}
	e.got++
}

// finished reports whether all that was posted is executed and completed.
func (e *end) finished() bool {
	return e.left == 0 && e.q.Len() == 0 && e.got == len(e.peer.expect)
}

// check compares the end of a run with the model.
func (e *end) check() {
	if !e.finished() {
		e.w.fail("nothing happens any more: %s", e)
	}
	for ; e.done < e.count; e.done++ {
		if e.plans[e.done].loud {
			e.w.fail("%s: request %d never completed", e.name, e.done)
		}
		e.land(e.done)
	}
	if e.peer.r.expected != e.s.NextPSN() || e.s.una != e.s.high {
		e.w.fail("%s: the peer expects %d, want %d", e.name, e.peer.r.expected, e.s.NextPSN())
	}
	if !bytes.Equal(e.target, e.peer.regions[keyTarget-1].mem) {
		e.w.fail("%s: the peer's memory is not as the requests leave it", e.name)
	}
	if n := int(e.invNext - keyFirst + e.peer.local - keyFirst - 100); len(e.peer.killed) != n {
		e.w.fail("%s: %d keys are invalid, want %d", e.peer.name, len(e.peer.killed), n)
	}
	atomics := 0
	for _, p := range e.plans {
		if p.op >= OpCompareSwap && p.op <= OpAtomicWrite {
			atomics++
		}
	}
	if got, want := len(e.peer.flushes), len(e.flushPlans); got != want {
		e.w.fail("%s executed %d FLUSHes, want %d", e.peer.name, got, want)
	}
	if got, want := len(e.bound), int(e.window)-keyFirst-200; got != want {
		e.w.fail("%s bound %d windows, want %d", e.name, got, want)
	}
	for i, b := range e.bound {
		if int(b.Window) != keyFirst+200+i {
			e.w.fail("%s: bind %d is of window %d", e.name, i, b.Window)
		}
	}
	if e.peer.atomics != atomics {
		e.w.fail("%s executed %d atomics, want %d", e.peer.name, e.peer.atomics, atomics)
	}
}
