package qp

import (
	"encoding/binary"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// newUnreliable returns two hosts of that transport.
func newUnreliable(t fataler, of roce.Transport) *pair {
	p := newPair(t, roce.MTU256, 0, 1, 16)
	for i, h := range []*host{p.a, p.b} {
		s, r := h.s.cfg, h.r.cfg
		s.Transport, r.Transport, s.QPN, r.QPN, s.QKey, r.QKey = of, of, qpnA, qpnA, 5, 5
		h.addr = addrOf(string(rune('A'+i)), 4)
		h.s.Reset()
		h.r.Reset()
		h.s.Start(s)
		h.r.Start(r)
	}
	return p
}

// request returns one with n bytes of payload.
func request(op roce.Opcode, psn roce.PSN, n int) *frame.Frame {
	f := &frame.Frame{Len: n, Pad: uint8(roce.PadFor(n)), Payload: [][]byte{make([]byte, n)}}
	h := roce.Build(&f.Head, op)
	h.BTH().SetPSN(psn)
	h.BTH().SetPad(int(f.Pad))
	if x := h.DETH(); x != nil {
		x.Set(5, 0x77)
	}
	if x := h.RETH(); x != nil {
		x.Set(addr(1, 0), 1, uint32(n))
	}
	f.HeadLen = uint8(h.Len())
	return f
}

// TestPacketsOfOtherTransportsAreDropped: none of them is a request, and no
// transport but RC has responses.
func TestPacketsOfOtherTransportsAreDropped(t *testing.T) {
	for _, of := range []roce.Transport{roce.RC, roce.UC, roce.UD} {
		p := newUnreliable(t, of)
		p.a.receive(1, SGE{addr(1, 0), 100, 1})
		want := 0
		for _, op := range []roce.Opcode{roce.RCSendOnly, roce.UCSendOnly, roce.UDSendOnly, roce.RCReadRequest, roce.RCAck} {
			if op.Transport() == of {
				continue
			}
			p.a.r.Receive(request(op, 0, 0), 1)
			p.a.s.Receive(request(op, 0, 0), 1)
			want += 2
		}
		if of != roce.RC {
			p.a.s.Receive(request(roce.UCSendOnly, 0, 0), 1)
			p.a.s.Receive(request(roce.UDSendOnly, 0, 0), 1)
			want += 2
		}
		if got := p.a.counts[CountDropMalformed]; got != want || len(p.a.received) != 0 {
			t.Errorf("%v: dropped %d of %d, received %v", of, got, want, p.a.received)
		}
	}
}

// TestAMessageOf2GiBIsTheLongest: and no message of a single byte more begins.
func TestAMessageOf2GiBIsTheLongest(t *testing.T) {
	for n, want := range map[uint32]Status{1 << 31: StatusLocProt, 1<<31 + 1: StatusLocLen} {
		p := newUnreliable(t, roce.UC)
		p.a.post(func(w *WQE) {
			w.Op, w.Len = OpWrite, n
			w.SG = append(w.SG, SGE{addr(1, 0), 100, 1})
		})
		p.a.s.Step(1, 8)
		if len(p.a.sent) != 1 || p.a.sent[0].Status != want {
			t.Errorf("%d bytes: got %v, want %v", n, p.a.sent, want)
		}
	}
}

// TestAnInlineRequestHoldsItsBytes: one that does not is no request.
func TestAnInlineRequestHoldsItsBytes(t *testing.T) {
	p := newUnreliable(t, roce.UD)
	p.a.post(func(w *WQE) {
		w.Flags |= Inline
		w.Data, w.Len = w.Data[:4], 5
	})
	p.a.s.Step(1, 8)
	if len(p.a.sent) != 1 || p.a.sent[0].Status != StatusLocQPOp {
		t.Errorf("got %v, want LOC_QP_OP_ERR", p.a.sent)
	}
}

// TestTheGRHHasWhatTheLinkSaw: traffic class and hop limit where they are
// known, and the usual hop limit where they are not.
func TestTheGRHHasWhatTheLinkSaw(t *testing.T) {
	p := newUnreliable(t, roce.UD)
	for _, c := range []struct {
		from, to       string
		family         int
		tos, ttl, want uint8
		n              int
	}{
		{"B", "A", 4, 0, 0, 64, 1}, {"B", "A", 4, 0, 0, 64, 1}, {"B", "A", 4, 0, 0, 64, 5}, {"B", "A", 4, 9, 0, 64, 5},
		{"B", "A", 4, 9, 3, 3, 5}, {"A", "A", 4, 9, 3, 3, 5}, {"A", "B", 4, 9, 3, 3, 5}, {"A", "B", 6, 9, 3, 3, 5},
	} {
		p.a.receive(1, SGE{addr(1, 0), 100, 1})
		f := request(roce.UDSendOnly, 0, c.n)
		f.Peer, f.Local, f.TOS, f.TTL = addrOf(c.from, c.family), addrOf(c.to, c.family), c.tos, c.ttl
		p.a.r.Receive(f, 1)
		g := (*roce.GRH)(p.a.regions[0].mem)
		length := binary.BigEndian.Uint16(g[22:]) - 20
		if c.family == 6 {
			length = binary.BigEndian.Uint16(g[4:])
		}
		if g.Is4() != (c.family == 4) || g.TrafficClass() != c.tos || g.HopLimit() != c.want ||
			g.Src() != f.Peer.AddrPort().Addr() || g.Dst() != f.Local.AddrPort().Addr() ||
			int(length) != 8+roce.BTHLen+roce.DETHLen+c.n+roce.PadFor(c.n)+roce.ICRCLen {
			t.Errorf("%+v: GRH % x", c, g[:])
		}
	}
}

// TestQKeysChangeWhileRunning: what is sent and what is taken.
func TestQKeysChangeWhileRunning(t *testing.T) {
	p := newUnreliable(t, roce.UD)
	for i := range uint64(3) {
		p.b.receive(i, SGE{addr(1, 0), 100, 1})
	}
	send := func() {
		p.a.post(func(w *WQE) { w.QKey, w.Peer = 1<<31, p.b.addr })
		p.run(t)
	}
	send()
	p.a.s.SetQKey(6)
	send()
	p.b.r.SetQKey(6)
	send()
	if len(p.b.received) != 2 || p.b.counts[CountDropQKey] != 1 {
		t.Errorf("received %d, dropped %d: want 2 and 1", len(p.b.received), p.b.counts[CountDropQKey])
	}
}

// TestAConnectionIsEstablishedByItsFirstRequest: datagrams establish nothing.
func TestAConnectionIsEstablishedByItsFirstRequest(t *testing.T) {
	for of, want := range map[roce.Transport]int{roce.UC: 1, roce.UD: 0} {
		p := newUnreliable(t, of)
		for i := range roce.PSN(3) {
			p.a.r.Receive(request(map[roce.Transport]roce.Opcode{roce.UC: roce.UCWriteOnly, roce.UD: roce.UDSendOnly}[of], i, 0), 1)
		}
		if len(p.a.events) != want {
			t.Errorf("%v: got %v, want %d events", of, p.a.events, want)
		}
	}
}

// TestOverlappingPayloadsKeepTheOrderOfArrival: WRITEs to the same bytes leave
// those of the last one, and what comes behind it late leaves nothing.
func TestOverlappingPayloadsKeepTheOrderOfArrival(t *testing.T) {
	p := newUnreliable(t, roce.UC)
	mem := p.b.regions[0].mem
	frames := make([]*frame.Frame, 200)
	for i := range frames {
		frames[i] = request(roce.UCWriteOnly, roce.PSN(i), 100)
		for j := range frames[i].Payload[0] {
			frames[i].Payload[0][j] = byte(i)
		}
	}
	for i := range frames {
		p.b.r.Receive(frames[i], 1)
		p.b.r.Receive(frames[i*7/8], 1) // once more
		for j, is := range mem[:100] {
			if is != byte(i) {
				t.Fatalf("byte %d is of WRITE %d, want %d", j, is, i)
			}
		}
	}
}

// A hastyEnv gives a frame back while the Sender looks how many may be out.
type hastyEnv struct {
	*host
	calls int
}

func (e *hastyEnv) WindowCap() int {
	if e.calls++; e.calls == 2 {
		e.takeOut()[0].Back()
	}
	return 1
}

// TestAFrameThatComesBackMeanwhileIsNotAwaited: it comes back after the Sender
// counted, and before it says that it waits. Nobody else would wake it.
func TestAFrameThatComesBackMeanwhileIsNotAwaited(t *testing.T) {
	e := &hastyEnv{host: newHost(t, "A", 4)}
	e.register(make([]byte, 8192), 0)
	e.s.Init(e, e.q)
	e.s.Start(SenderConfig{Transport: roce.UC, MTU: roce.MTU256})
	woken := false
	e.onBack = func(wake bool) { woken = woken || wake }
	e.post(write(1, 600))
	if more := e.s.Step(1, 8); e.calls != 2 || !more && !woken {
		t.Errorf("after %d looks: more %v, woken %v", e.calls, more, woken)
	}
}

// TestASenderIsWokenWhenHalfOfItsFramesAreBack: not for each of them, and not
// when the link has run dry.
func TestASenderIsWokenWhenHalfOfItsFramesAreBack(t *testing.T) {
	h := newHost(t, "A", 4)
	h.cap = 8
	h.register(make([]byte, 8192), 0)
	h.s.Start(SenderConfig{Transport: roce.UC, MTU: roce.MTU256})
	var woken []int
	back := 0
	h.onBack = func(wake bool) {
		if back++; wake {
			woken = append(woken, back)
		}
	}
	h.post(write(1, 4000))
	h.s.Step(1, 16)
	for _, f := range h.takeOut() {
		f.Back()
	}
	if len(woken) != 1 || woken[0] != 4 || back != 8 {
		t.Errorf("woken by frame %v of %d, want by the fourth of 8", woken, back)
	}
}

// A slowLink gives frames back on another goroutine, and wakes the Sender as a
// device does.
type slowLink struct {
	*host
	out  chan *frame.Frame
	wake chan struct{}
	away atomic.Int32 // frames
}

func (e *slowLink) Frame() *frame.Frame {
	return &frame.Frame{Owner: e, Payload: make([][]byte, 0, 4)}
}

func (e *slowLink) FrameBack(f *frame.Frame) {
	e.away.Add(-1)
	if e.s.FrameBack(f) {
		select {
		case e.wake <- struct{}{}:
		default:
		}
	}
}

// TestASenderThatWaitsForItsFramesIsWoken: it runs only when it is told to,
// with room for few frames, and has to send and complete everything. It never
// has more frames out than it may.
func TestASenderThatWaitsForItsFramesIsWoken(t *testing.T) {
	for _, c := range []struct{ cap, size int }{{1, 100}, {2, 1000}, {5, 100}, {8, 9000}} {
		e := &slowLink{host: newHost(t, "A", 16), out: make(chan *frame.Frame, c.cap), wake: make(chan struct{}, 1)}
		e.cap = c.cap
		e.register(make([]byte, 16<<10), 0)
		e.s.Init(e, e.q)
		e.s.Start(SenderConfig{Transport: roce.UC, MTU: roce.MTU256})
		var back sync.WaitGroup
		back.Go(func() {
			for f := range e.out {
				f.Back()
			}
		})
		const total = 3000
		completed, posted := 0, 0
		e.onSend = func(*CQE) { completed++ }
		for completed < total {
			for posted < total && e.post(func(w *WQE) { w.SG = append(w.SG, SGE{addr(1, 0), uint32(c.size), 1}) }) {
				posted++
			}
			more := e.s.Step(1, 4)
			for _, f := range e.takeOut() {
				if n := int(e.away.Add(1)); n > c.cap {
					t.Fatalf("%d frames are out, want at most %d", n, c.cap)
				}
				e.out <- f
			}
			if !more && completed < total && (posted == total || e.q.Len() == e.q.Depth()) {
				<-e.wake // the frame that was waited for, or never
			}
		}
		close(e.out)
		back.Wait()
	}
}
