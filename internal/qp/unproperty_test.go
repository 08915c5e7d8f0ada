package qp

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
	"pgregory.net/rapid"
)

// A sent is a message of the model: what the receiver knows of it only from its
// packets, the model knows from the start.
type sent struct {
	op      Op
	data    []byte
	at      int  // of a WRITE
	refused bool // a WRITE with a key that is not there
	first   int64
	packets int64
	imm     uint32
	wrong   bool // a datagram with another Q_Key
}

// A listener is the model of the receiving side: it knows messages, not
// packets, and has no state but the newest packet and what is left of a
// message.
type listener struct {
	mtu      int
	messages []sent
	newest   int64 // packet
	going    int   // the message that goes on; below zero: none
	mem      []byte
	receives []SGE // posted, of one entry each in mem
	used     int
	got      []string
	dropped  int
}

// hear takes packet seq of an unreliable connection.
func (l *listener) hear(seq int64) {
	if seq <= l.newest {
		l.dropped++
		return
	}
	gap := seq != l.newest+1
	l.newest = seq
	i := slices.IndexFunc(l.messages, func(m sent) bool { return seq < m.first+m.packets })
	m := &l.messages[i]
	k := int(seq - m.first)
	if k == 0 {
		l.going = i
	} else if gap || l.going != i {
		l.going = -1
	}
	if l.going < 0 || !l.execute(m, k, int64(k) == m.packets-1) {
		l.going = -1
		l.dropped++
	}
}

// execute executes packet k of a message, if it can be.
func (l *listener) execute(m *sent, k int, last bool) bool {
	part := m.data[min(len(m.data), k*l.mtu):min(len(m.data), (k+1)*l.mtu)]
	send := m.op == OpSend || m.op == OpSendImm
	takes := send && k == 0 || m.op == OpWriteImm && last
	if m.refused && len(m.data) > 0 || takes && len(l.receives) == 0 {
		return false
	}
	if send {
		copy(l.mem[int(l.receives[0].Addr)+k*l.mtu:], part)
	} else {
		copy(l.mem[m.at+k*l.mtu:], part)
	}
	if last && m.op != OpWrite {
		l.got = append(l.got, fmt.Sprintf("%d: %d %d %d", l.used, m.op, len(m.data), m.imm))
		l.receives = l.receives[1:]
		l.used++
	}
	return true
}

// kind is the operation that a completed receive belongs to.
func kind(e CQE) Op {
	switch {
	case e.Op == OpRecvWriteImm:
		return OpWriteImm
	case e.WithImm:
		return OpSendImm
	}
	return OpSend
}

// A try is one drawn run: hosts A and B, and the model of B.
type try struct {
	t     *rapid.T
	pair  *pair
	model *listener
	seq   int64          // of the next packet
	held  []*frame.Frame // for B, late
	out   []*frame.Frame // not given back
}

// newTry returns hosts that have started. All of B's memory is one region, so
// that receives and WRITEs may overlap.
func newTry(rt *rapid.T, of roce.Transport) *try {
	psn := roce.NewPSN(-uint32(rapid.IntRange(0, 12).Draw(rt, "psn")))
	p := newPair(rt, roce.MTU256, psn, 1, 1<<rapid.IntRange(0, 5).Draw(rt, "window"))
	p.a.cap = 1 << rapid.IntRange(0, 5).Draw(rt, "cap")
	for _, h := range []*host{p.a, p.b} {
		s, r := h.s.cfg, h.r.cfg
		s.Transport, r.Transport, s.QPN, s.QKey, r.QKey = of, of, qpnA, 5, 5
		h.s.Reset()
		h.r.Reset()
		h.s.Start(s)
		h.r.Start(r)
	}
	p.a.onSend = func(e *CQE) {
		if p.a.refs[e.ID] != 0 {
			rt.Fatalf("request %d completed with %d frames out", e.ID, p.a.refs[e.ID])
		}
		p.a.sent = append(p.a.sent, *e)
	}
	return &try{t: rt, pair: p, seq: int64(psn), model: &listener{mtu: 256, newest: int64(psn) - 1, going: -1,
		mem: bytes.Clone(p.b.regions[0].mem)}}
}

// postMessage posts a drawn message.
func (y *try) postMessage(ops []Op, longest int) {
	rt, p := y.t, y.pair
	m := sent{op: rapid.SampledFrom(ops).Draw(rt, "op"), first: y.seq}
	n := rapid.IntRange(0, longest).Draw(rt, "len")
	from := rapid.IntRange(0, 3000).Draw(rt, "from")
	m.data = bytes.Clone(p.a.regions[0].mem[from : from+n])
	m.packets = max(1, int64((n+255)/256))
	m.at = rapid.IntRange(0, 2000).Draw(rt, "to")
	if m.op == OpSendImm || m.op == OpWriteImm {
		m.imm = rapid.Uint32().Draw(rt, "imm")
	}
	write := m.op == OpWrite || m.op == OpWriteImm
	m.refused = write && rapid.IntRange(0, 7).Draw(rt, "refused") == 0
	m.wrong = rapid.IntRange(0, 7).Draw(rt, "wrong") == 0
	if !p.a.post(func(w *WQE) {
		w.ID, w.Op, w.RKey, w.RemoteAddr, w.Imm, w.QKey = uint64(len(y.model.messages)), m.op, 1, addr(1, m.at), m.imm, 5
		if m.refused {
			w.RKey = 9
		}
		if m.wrong {
			w.QKey = 6
		}
		cut := rapid.IntRange(0, n).Draw(rt, "cut")
		w.SG = append(w.SG, SGE{addr(1, from), uint32(cut), 1}, SGE{addr(1, from+cut), uint32(n - cut), 1})
	}) {
		return
	}
	y.model.messages = append(y.model.messages, m)
	y.seq += m.packets
}

// fly lets what A has sent meet its fate: B and the model hear the same.
func (y *try) fly(hear func(f *frame.Frame)) {
	p := y.pair
	for _, f := range p.a.takeOut() {
		switch what := rapid.IntRange(passes, isTaken).Draw(y.t, "fate"); what {
		case isLost:
		case isHeld:
			y.held = append(y.held, clone(f))
		default:
			hear(f)
			for range what - passes { // doubled, or more
				hear(f)
			}
		}
		if y.out = append(y.out, f); len(y.out) > max(1, min(p.a.cap, p.a.s.cfg.MaxWindow)) {
			y.t.Fatalf("%d frames are out, want at most %d and %d", len(y.out), p.a.cap, p.a.s.cfg.MaxWindow)
		}
		if len(y.held) > 0 && rapid.IntRange(0, 2).Draw(y.t, "late") == 0 {
			hear(y.held[0])
			y.held = y.held[1:]
		}
	}
}

// giveBack gives one frame back, or all, in any order. Who waits must be told.
func (y *try) giveBack(all bool) {
	for len(y.out) > 0 {
		i := rapid.IntRange(0, len(y.out)-1).Draw(y.t, "back")
		f := y.out[i]
		y.out = slices.Delete(y.out, i, i+1)
		f.Back()
		y.pair.a.sound(y.t)
		if !all {
			return
		}
	}
}

// finish compares what is left behind.
func (y *try) finish() {
	p, l := y.pair, y.model
	var got []string
	for _, e := range p.b.received {
		got = append(got, fmt.Sprintf("%d: %d %d %d", e.ID, kind(e), e.ByteLen, e.Imm))
	}
	if !slices.Equal(got, l.got) {
		y.t.Fatalf("received %v, want %v", got, l.got)
	}
	if !bytes.Equal(p.b.regions[0].mem, l.mem) {
		y.t.Fatal("memory is not as the packets leave it")
	}
	dropped := 0
	for c := CountDropMalformed; c <= CountDropQKey; c++ {
		dropped += p.b.counts[c]
	}
	if dropped != l.dropped {
		y.t.Fatalf("counted %d packets dropped, want %d: %v", dropped, l.dropped, p.b.counts)
	}
	for i, e := range p.a.sent {
		if e.ID != uint64(i) || e.Status != StatusSuccess {
			y.t.Fatalf("completion %d is %d %v", i, e.ID, e.Status)
		}
	}
	if len(p.a.sent) != len(l.messages) || p.a.q.Len() != 0 || len(p.b.fatal) != 0 {
		y.t.Fatalf("%d of %d messages completed, B: %v", len(p.a.sent), len(l.messages), p.b.fatal)
	}
}

// play runs a drawn program to its end.
func (y *try) play(post, receive func(), hear func(f *frame.Frame)) {
	for range rapid.IntRange(1, 30).Draw(y.t, "steps") {
		switch rapid.IntRange(0, 5).Draw(y.t, "do") {
		case 0:
			post()
		case 1:
			receive()
		case 2, 3:
			y.giveBack(false)
		default:
			y.pair.a.s.Step(1, rapid.IntRange(1, 4).Draw(y.t, "budget"))
			y.pair.a.sound(y.t)
			y.fly(hear)
		}
	}
	for range 1000 {
		if y.pair.a.q.Len() == 0 {
			break
		}
		y.giveBack(true)
		y.pair.a.s.Step(1, 8)
		y.fly(hear)
	}
	y.finish()
}

// TestUnreliableMessagesArriveWholeOrNotAtAll compares with a model that knows
// messages, over a network that loses, doubles and reorders. All memory is
// compared: WRITEs and receives overlap, so it shows any packet that was
// executed out of turn.
func TestUnreliableMessagesArriveWholeOrNotAtAll(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		y := newTry(rt, roce.UC)
		b := y.pair.b
		receive := func() {
			at := rapid.IntRange(0, 2000).Draw(rt, "into")
			b.receive(uint64(y.model.used+len(y.model.receives)), SGE{addr(1, at), 3000, 1})
			y.model.receives = append(y.model.receives, SGE{Addr: uint64(at)})
		}
		y.play(func() { y.postMessage([]Op{OpSend, OpSendImm, OpWrite, OpWriteImm}, 1200) }, receive, func(f *frame.Frame) {
			b.r.Receive(f, 1)
			b.sound(rt)
			d := (*roce.BTH)(f.Head[:]).PSN().Sub(psnOf(y.model.newest))
			y.model.hear(y.model.newest + int64(d))
		})
	})
}

// TestDatagramsArriveAsTheyCome compares with a model of three lines.
func TestDatagramsArriveAsTheyCome(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		y := newTry(rt, roce.UD)
		b, l := y.pair.b, y.model
		var rooms []int
		receive := func() {
			n, at := rapid.IntRange(0, 400).Draw(rt, "room"), rapid.IntRange(0, 2000).Draw(rt, "into")
			cut := rapid.IntRange(0, n).Draw(rt, "cut")
			b.receive(uint64(l.used+len(l.receives)), SGE{addr(1, at), uint32(cut), 1}, SGE{addr(1, at+cut), uint32(n - cut), 1})
			l.receives = append(l.receives, SGE{Addr: uint64(at)})
			rooms = append(rooms, n)
		}
		y.play(func() { y.postMessage([]Op{OpSend, OpSendImm}, 256) }, receive, func(f *frame.Frame) {
			b.r.Receive(f, 1)
			b.sound(rt)
			m := &l.messages[(*roce.BTH)(f.Head[:]).PSN().Sub(psnOf(l.messages[0].first))]
			if m.wrong || len(rooms) == 0 || len(m.data)+40 > rooms[0] {
				l.dropped++
				return
			}
			at := int(l.receives[0].Addr)
			clear(l.mem[at : at+40])
			copy(l.mem[at:], b.regions[0].mem[at:at+40]) // scenarios show what is there
			copy(l.mem[at+40:], m.data)
			l.got = append(l.got, fmt.Sprintf("%d: %d %d %d", l.used, m.op, len(m.data)+40, m.imm))
			l.receives, rooms = l.receives[1:], rooms[1:]
			l.used++
		})
	})
}
