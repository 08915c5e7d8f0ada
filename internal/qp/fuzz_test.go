package qp

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// FuzzMachines feeds both machines of one queue pair with packets made of
// arbitrary bytes, between posts, runs, drains and the passing of time. Nothing
// may panic, grow, or contradict itself.
//
// The input is a list of actions: a byte that says which, and its arguments.
func FuzzMachines(f *testing.F) {
	f.Add([]byte("\x00\x00\x01\x01\x05\x04\x00\x00"))
	for op := range 32 {
		f.Add([]byte{0, 4, 1, 5, byte(op), 0x80, 0, 16, 3, 5, byte(op), 0, 1, 0, 5, 0x11, 0, 0, 31, 1, 2})
		f.Add([]byte{2, 0, byte(op), 1, 5, byte(op), 0x80, 0, 64, 9, 6, 3, 1, 5, 0x0e, 0, 1, 255, 255})
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		h := newHost(t, "F", 8)
		h.limit = 6
		h.register(make([]byte, 4096), everything)
		h.regions[h.register(nil, 0)-1].gone = true // a window
		h.s.Start(SenderConfig{MTU: roce.MTU256, PSN: 0xfffffe, Timeout: 3, RetryCount: 2, RNRRetry: 2, MaxRdAtomic: 2,
			MaxWindow: 8, Probe: 1000, Sparing: true})
		h.r.Start(ResponderConfig{MTU: roce.MTU256, PSN: 0xfffffe, MaxDestRdAtomic: 2,
			Access: everything, SharedReceive: len(in)%2 == 1})
		for now := Instant(1); len(in) > 0; {
			next := func() byte {
				if len(in) == 0 {
					return 0
				}
				b := in[0]
				in = in[1:]
				return b
			}
			now += h.act(next, now)
			h.spread()
			h.sound(t)
		}
		if h.made > h.limit {
			t.Fatalf("made %d frames", h.made)
		}
	})
}

// act does what the next bytes say, and returns how much time passes.
func (h *host) act(next func() byte, now Instant) (passed Instant) {
	switch next() % 8 {
	case 0:
		h.post(func(w *WQE) {
			w.Op, w.RKey, w.RemoteAddr = Op(next()%(uint8(opCount)+1)), 1, addr(1, 8)
			w.Flags = Flags(next())
			w.Placement, w.Level = roce.Placement(next()&7), roce.FlushLevel(next()&1)
			w.Bind = Binding{Window: 2, Key: 2, LKey: 1, Addr: addr(1, int(next())), Len: 64}
			if w.Flags&Inline != 0 {
				w.Data = w.Data[:int(next())]
				return
			}
			if w.Op != OpFlush || next() == 0 {
				w.SG = append(w.SG, SGE{addr(1, int(next())), uint32(next()) * 9, 1}, SGE{addr(1, 0), uint32(next()), 1})
			}
		})
	case 1:
		passed = Instant(next()) << (next() % 16)
		h.s.Step(now+passed, int(next()%8))
		h.r.Step(now+passed, int(next()%8))
	case 2:
		h.receive(1, SGE{addr(1, int(next())), uint32(next()) * 5, 1})
	case 3:
		for _, f := range h.takeOut() {
			f.Back()
		}
	case 4:
		if next() < 16 {
			h.s.Drain()
		} else if next() < 16 {
			h.s.Resume()
		}
	default:
		x := drawFrame(next)
		if isRequest(x) && next()%8 != 0 {
			h.r.Receive(x, now)
		} else {
			h.s.Receive(x, now)
		}
	}
	return passed
}

// drawFrame makes a frame of bytes: mostly near to what is expected, so that
// the machines get somewhere.
func drawFrame(next func() byte) *frame.Frame {
	f := &frame.Frame{}
	h := roce.Build(&f.Head, roce.Opcode(next()&0x1f))
	flags := next()
	h.BTH().SetAckReq(flags&0x80 != 0)
	h.BTH().SetSolicited(flags&0x40 != 0)
	h.BTH().SetPSN(roce.PSN(0xfffffe).Add(int(int8(next())) / 8))
	f.HeadLen, f.Len = uint8(h.Len()), int(next())
	if flags&1 != 0 {
		f.Len = 256
	}
	f.Pad = uint8(roce.PadFor(f.Len))
	h.BTH().SetPad(int(f.Pad) + int(flags>>1&1))
	if f.Len > 0 {
		b := make([]byte, f.Len)
		f.Payload = [][]byte{b[:f.Len/2], b[f.Len/2:]}
	}
	if x := h.RETH(); x != nil {
		x.Set(addr(1, int(next())*8), 1, uint32(next())<<(next()%26))
	}
	if x := h.FETH(); x != nil {
		x.Set(roce.Placement(next()&7), roce.FlushLevel(next()&1))
	}
	if x := h.AtomicETH(); x != nil {
		x.Set(addr(1, int(next())), 1, 5, 6)
	}
	if x := h.AETH(); x != nil {
		x.Set(roce.Syndrome(next()), 0)
	}
	if flags&4 != 0 { // anything at all
		for i := range int(next() % 40) {
			f.Head[i] = next()
		}
		f.HeadLen = next()
	}
	return f
}
