package qp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
	"pgregory.net/rapid"
)

// A pair is two hosts and a network whose every packet's fate is drawn.
type pair struct {
	a, b  *host
	now   Instant
	queue [2][]*frame.Frame
	held  [2][]*frame.Frame
	fate  func() int // what becomes of the next packet
	late  []*frame.Frame

	state [][]byte // the memory of b as each FLUSH is to find it
	binds int
}

// The fates.
const (
	passes = iota
	isLost
	isDoubled
	isHeld  // until the next one passed
	isTaken // and its frame is given back late
)

// newPair returns two started hosts, each with a region under key 1.
func newPair(t fataler, mtu roce.MTU, psn roce.PSN, rd uint8, window int) *pair {
	p := &pair{a: newHost(t, "A", 16), b: newHost(t, "B", 16), now: 1000, fate: func() int { return passes }}
	train := int(psn%2) * (1 + window%7) // half of them send trains
	for i, h := range []*host{p.a, p.b} {
		h.refs = map[uint64]int{}
		h.register(pattern(make([]byte, 8192), 90*i), everything)
		h.s.Start(SenderConfig{MTU: mtu, PSN: psn, Timeout: 6, RetryCount: 7, RNRRetry: 7, EndlessRetry: true,
			MaxRdAtomic: rd, MaxWindow: window, MaxTrain: train, Probe: 20_000, Sparing: window%3 > 0})
		h.r.Start(ResponderConfig{MTU: mtu, PSN: psn, MaxDestRdAtomic: rd, MinRNRTimer: 1, MaxTrain: train,
			Access: RemoteRead | RemoteWrite | RemoteAtomic | RemoteFlushGlobal})
	}
	return p
}

// run runs until nothing is left to do, or for too long.
func (p *pair) run(t fataler) {
	for range 100_000 {
		busy := p.turn(t, p.a, 0)
		busy = p.turn(t, p.b, 1) || busy
		if busy {
			continue
		}
		for _, f := range p.late {
			f.Back()
		}
		p.queue[0], p.queue[1] = append(p.queue[0], p.held[0]...), append(p.queue[1], p.held[1]...)
		again := len(p.late)+len(p.held[0])+len(p.held[1]) > 0
		p.late, p.held = nil, [2][]*frame.Frame{}
		if again {
			continue
		}
		next := p.a.s.Deadline()
		if d := p.b.s.Deadline(); next == 0 || d != 0 && d < next {
			next = d
		}
		if next == 0 {
			return
		}
		p.now = max(p.now, next)
	}
	t.Fatalf("no end: %v and %v", p.a.s.Waiting(), p.b.s.Waiting())
}

// turn is a run of both halves of a host.
func (p *pair) turn(t fataler, h *host, me int) bool {
	in := p.queue[me]
	h.inbox = &in
	busy := len(in) > 0
	for len(in) > 0 {
		if !isRequest(in[0]) {
			h.s.Receive(in[0], p.now)
		} else if !h.r.Receive(in[0], p.now) {
			break
		}
		in = in[1:]
		h.sound(t)
	}
	p.queue[me] = in
	more := h.r.Step(p.now, 3)
	more = h.s.Step(p.now, 3) || more
	h.spread()
	h.sound(t)
	out := h.takeOut()
	for _, f := range out {
		p.carry(f, 1-me)
	}
	return busy || more || len(out) > 0
}

// carry lets a frame meet its fate.
func (p *pair) carry(f *frame.Frame, to int) {
	what := p.fate()
	c := clone(f)
	if what == isTaken {
		p.late = append(p.late, f)
	} else {
		f.Back()
	}
	switch what {
	case isLost:
		return
	case isHeld:
		p.held[to] = append(p.held[to], c)
		return
	case isDoubled:
		p.queue[to] = append(p.queue[to], clone(c))
	}
	p.queue[to] = append(append(p.queue[to], c), p.held[to]...)
	p.held[to] = nil
}

// TestRequestsExecuteInOrderOverAPerfectNetwork compares with a model that
// executes one request after the other.
func TestRequestsExecuteInOrderOverAPerfectNetwork(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { compare(rt, false) })
}

// TestRequestsExecuteInOrderOverAHostileNetwork does so with packets lost,
// doubled, out of order, and frames that come back late.
func TestRequestsExecuteInOrderOverAHostileNetwork(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { compare(rt, true) })
}

// A queued is a request in the model.
type queued struct {
	id   uint64
	loud bool
	n    uint32
}

// compare runs a drawn program and checks all it leaves behind.
func compare(rt *rapid.T, hostile bool) {
	p := newPair(rt, roce.MTU(rapid.IntRange(1, 3).Draw(rt, "mtu")),
		roce.NewPSN(-uint32(rapid.IntRange(0, 12).Draw(rt, "psn"))),
		uint8(rapid.IntRange(1, 3).Draw(rt, "rdatomic")), rapid.IntRange(1, 20).Draw(rt, "window"))
	if hostile {
		evil := 40
		p.fate = func() int {
			if evil == 0 {
				return passes
			}
			evil--
			return rapid.IntRange(passes, isTaken).Draw(rt, "fate")
		}
	}
	if rapid.Bool().Draw(rt, "near") {
		p.a.near = func() *Responder { return &p.b.r }
	}
	p.b.onFlush = func() { p.checkFlush(rt) }
	local, remote := bytes.Clone(p.a.regions[0].mem), bytes.Clone(p.b.regions[0].mem)
	var want []queued
	var got []string
	receives := 0
	for i := range rapid.IntRange(1, 12).Draw(rt, "requests") {
		q := drawRequest(rt, p, i, local, remote, &receives)
		want = append(want, q)
		if rapid.IntRange(0, 3).Draw(rt, "run") == 0 {
			p.run(rt)
		}
	}
	p.run(rt)
	for _, q := range want {
		if q.loud {
			got = append(got, fmt.Sprint(q.id, " SUCCESS"))
		}
	}
	for i, e := range p.a.sent {
		if s := fmt.Sprint(e.ID, " ", e.Status); i >= len(got) || s != got[i] {
			rt.Fatalf("completion %d is %s, want %v", i, s, got)
		}
	}
	if len(p.a.sent) != len(got) || len(p.b.received) != receives || p.a.q.Len() != 0 {
		rt.Fatalf("got %d completions and %d receives, want %d and %d; %d are queued", len(p.a.sent),
			len(p.b.received), len(got), receives, p.a.q.Len())
	}
	if len(p.b.flushes) != len(p.state) || len(p.a.bound) != p.binds {
		rt.Fatalf("executed %d FLUSHes and %d binds, want %d and %d", len(p.b.flushes), len(p.a.bound), len(p.state), p.binds)
	}
	if !bytes.Equal(local, p.a.regions[0].mem) || !bytes.Equal(remote, p.b.regions[0].mem) {
		rt.Fatal("memory is not as the requests leave it")
	}
}

// planMemory fills in a FLUSH, and notes how it is to find the peer's memory; or
// a bind of a window of its own.
func (p *pair) planMemory(rt *rapid.T, w *WQE, remote []byte) {
	if w.Op == OpFlush {
		w.Placement, w.Level = roce.PlaceGlobal, roce.FlushLevel(rapid.IntRange(0, 1).Draw(rt, "level"))
		p.state = append(p.state, bytes.Clone(remote))
		return
	}
	key := p.a.register(nil, 0)
	p.a.regions[key-1].gone = true
	w.Bind = Binding{Window: key, Key: key, LKey: 1, Addr: addr(1, 0), Len: 8}
	p.binds++
}

// checkFlush checks that a FLUSH found what all before it left, and no more.
func (p *pair) checkFlush(t fataler) {
	n := len(p.b.flushes) - 1
	if n >= len(p.state) || !bytes.Equal(p.state[n], p.b.regions[0].mem) {
		t.Fatalf("FLUSH %d of %d did not find what the requests before it left", n, len(p.state))
	}
}

// drawRequest draws one request, posts it, and executes it on the model: local
// and remote are the two memories, of which READs and atomics change the first
// and all else the second. The lower half of each is never changed, so that the
// order of READs and WRITEs does not matter; what is read is at its start.
func drawRequest(rt *rapid.T, p *pair, i int, local, remote []byte, receives *int) queued {
	op := rapid.SampledFrom([]Op{OpSend, OpSendImm, OpWrite, OpWriteImm, OpRead, OpCompareSwap, OpFetchAdd, OpAtomicWrite,
		OpFlush, OpBindMW}).Draw(rt, "op")
	n := rapid.IntRange(0, 2000).Draw(rt, "len")
	from, to := rapid.IntRange(0, 2000).Draw(rt, "from"), 4096+rapid.IntRange(0, 2000).Draw(rt, "to")
	q := queued{id: uint64(i), loud: rapid.Bool().Draw(rt, "signaled"), n: uint32(n)}
	if op <= OpWriteImm && op != OpWrite {
		if *receives++; rapid.Bool().Draw(rt, "early") || op != OpSend {
			p.b.receive(uint64(i), SGE{addr(1, to), 2000, 1})
		} else {
			defer p.b.receive(uint64(i), SGE{addr(1, to), 2000, 1})
		}
	}
	p.a.post(func(w *WQE) {
		w.ID, w.Op, w.RKey = q.id, op, 1
		if !q.loud {
			w.Flags = 0
		}
		if rapid.Bool().Draw(rt, "fence") {
			w.Flags |= Fence
		}
		switch op {
		case OpSend, OpSendImm, OpWrite, OpWriteImm:
			w.RemoteAddr = addr(1, to)
			copy(remote[to:], local[from:from+n])
			if cut := rapid.IntRange(0, n).Draw(rt, "cut"); cut > 0 {
				w.SG = append(w.SG, SGE{addr(1, from), uint32(cut), 1})
				from, n = from+cut, n-cut
			}
			w.SG = append(w.SG, SGE{addr(1, from), uint32(n), 1})
		case OpRead:
			w.RemoteAddr = addr(1, from)
			w.SG = append(w.SG, SGE{addr(1, to), uint32(n), 1})
			copy(local[to:], remote[from:from+n])
		case OpAtomicWrite:
			w.RemoteAddr = addr(1, 8184)
			w.SG = append(w.SG, SGE{addr(1, from), 3, 1}, SGE{addr(1, from+3), 5, 1})
			copy(remote[8184:], local[from:from+8])
		case OpFlush, OpBindMW:
			w.RemoteAddr, w.Len = addr(1, from), uint32(n)
			p.planMemory(rt, w, remote)
		default:
			at, into := 8184, to
			w.RemoteAddr, w.SwapAdd = addr(1, at), rapid.Uint64().Draw(rt, "operand")
			before := binary.NativeEndian.Uint64(remote[at:])
			w.Compare = before + uint64(rapid.IntRange(0, 1).Draw(rt, "miss"))
			w.SG = append(w.SG, SGE{addr(1, into), 8, 1})
			binary.NativeEndian.PutUint64(local[into:], before)
			if op == OpFetchAdd {
				binary.NativeEndian.PutUint64(remote[at:], before+w.SwapAdd)
			} else if before == w.Compare {
				binary.NativeEndian.PutUint64(remote[at:], w.SwapAdd)
			}
		}
	})
	return q
}

// TestABrokenConnectionEndsInOrder: the network dies at some packet for good.
// Some first requests are done; one fails and says why; all the rest is
// flushed, each once, in order, silent ones as well.
func TestABrokenConnectionEndsInOrder(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := newPair(rt, roce.MTU256, roce.NewPSN(-uint32(rapid.IntRange(0, 12).Draw(rt, "psn"))), 2,
			rapid.IntRange(1, 20).Draw(rt, "window"))
		p.a.s.cfg.EndlessRetry = false
		p.a.s.cfg.RetryCount = uint8(rapid.IntRange(0, 3).Draw(rt, "retry"))
		p.a.s.retry.refill(&p.a.s.cfg)
		life := rapid.IntRange(0, 40).Draw(rt, "life")
		p.fate = func() int {
			if life--; life < 0 {
				return isLost
			}
			return passes
		}
		local, remote, receives := bytes.Clone(p.a.regions[0].mem), bytes.Clone(p.b.regions[0].mem), 0
		n := rapid.IntRange(1, 12).Draw(rt, "requests")
		var loud []bool
		for i := range n {
			loud = append(loud, drawRequest(rt, p, i, local, remote, &receives).loud)
		}
		p.run(rt)
		id, failed := 0, false
		for _, e := range p.a.sent {
			for !failed && id < n && !loud[id] && uint64(id) != e.ID {
				id++
			}
			want := StatusSuccess
			switch {
			case failed:
				want = StatusFlushed
			case e.Status != StatusSuccess:
				want, failed = StatusRetryExceeded, true
			}
			if e.ID != uint64(id) || e.Status != want {
				rt.Fatalf("got completion %d %v, want %d %v", e.ID, e.Status, id, want)
			}
			id++
		}
		for ; id < n; id++ {
			if loud[id] || failed {
				rt.Fatalf("request %d never completed", id)
			}
		}
		if p.a.q.Len() != 0 {
			rt.Fatalf("%d requests are left", p.a.q.Len())
		}
	})
}
