package qp

import (
	"bytes"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// middles returns a train of MIDDLE packets whose payload is one byte, repeated.
func middles(o roce.Opcode, psn, train, mtu int, b byte) *frame.Frame {
	f := &frame.Frame{Train: uint8(train), Len: train * mtu}
	h := roce.Build((*[roce.HeadSize]byte)(&f.Head), o)
	h.BTH().SetPSN(roce.PSN(psn))
	f.HeadLen = uint8(h.Len())
	f.Payload = [][]byte{bytes.Repeat([]byte{b}, f.Len)}
	return f
}

// want fails unless mem is n bytes of each value in turn.
func wantRuns(t *testing.T, mem []byte, n int, values ...byte) {
	t.Helper()
	for i, v := range values {
		if !bytes.Equal(mem[i*n:(i+1)*n], bytes.Repeat([]byte{v}, n)) {
			t.Errorf("packet %d holds %d, want %d all over", i, mem[i*n], v)
		}
	}
}

// What a train repeats is not executed again: a newer request may have written
// there since, or the program may.
func TestTheHeadOfATrainIsTakenOff(t *testing.T) {
	const mtu = 256
	p := newPair(t, roce.MTU256, 0, 1, 16)
	first := middles(roce.RCWriteFirst, 0, 0, mtu, 0)
	first.Len, first.Payload = mtu, [][]byte{bytes.Repeat([]byte{1}, mtu)}
	(*roce.RETH)(first.Head[roce.BTHLen:]).Set(addr(1, 0), 1, 5*mtu)
	for _, f := range []*frame.Frame{
		first,
		middles(roce.RCWriteMiddle, 1, 1, mtu, 2),
		middles(roce.RCWriteMiddle, 1, 3, mtu, 3), // packet 1 again
		middles(roce.RCWriteMiddle, 2, 2, mtu, 4), // both again
	} {
		if !p.b.r.Receive(f, 1) {
			t.Fatal("not taken")
		}
	}
	wantRuns(t, p.b.regions[0].mem, mtu, 1, 2, 3, 3)
	if got := p.b.r.Expected(); got != 4 {
		t.Errorf("expects %d, want 4", got)
	}
}

func TestATrainOfTheWrongLengthIsRefused(t *testing.T) {
	for _, bad := range []func(f *frame.Frame){
		func(f *frame.Frame) { f.Len--; f.Payload[0] = f.Payload[0][1:] },
		func(f *frame.Frame) { f.Train++ },
		func(f *frame.Frame) { (*roce.BTH)(f.Head[:]).SetOpcode(roce.RCWriteLast) },
	} {
		p := newPair(t, roce.MTU256, 0, 1, 16)
		first := middles(roce.RCWriteFirst, 0, 0, 256, 0)
		first.Len, first.Payload = 256, [][]byte{make([]byte, 256)}
		(*roce.RETH)(first.Head[roce.BTHLen:]).Set(addr(1, 0), 1, 3*256)
		p.b.r.Receive(first, 1)
		f := middles(roce.RCWriteMiddle, 1, 2, 256, 9)
		bad(f)
		p.b.r.Receive(f, 1)
		if s := p.b.r.State(); s != Failed {
			t.Errorf("got state %v after %v of %d bytes for %d packets, want FAILED", s, roce.Opcode(f.Head[0]), f.Len, f.Train)
		}
	}
}

// The same for the answer to a READ.
func TestTheHeadOfATrainOfAnswersIsTakenOff(t *testing.T) {
	const mtu = 256
	p := newPair(t, roce.MTU256, 0, 1, 16)
	p.a.post(func(w *WQE) {
		w.ID, w.Op, w.RKey, w.RemoteAddr, w.Len = 1, OpRead, 1, addr(1, 0), 5*mtu
		w.SG = append(w.SG, SGE{addr(1, 0), 5 * mtu, 1})
	})
	p.a.s.Step(1, 16)
	first := middles(roce.RCReadResponseFirst, 0, 0, mtu, 0)
	first.Len, first.Payload = mtu, [][]byte{bytes.Repeat([]byte{1}, mtu)}
	(*roce.AETH)(first.Head[roce.BTHLen:]).Set(roce.AckUnlimited, 1)
	for _, f := range []*frame.Frame{
		first,
		middles(roce.RCReadResponseMiddle, 1, 1, mtu, 2),
		middles(roce.RCReadResponseMiddle, 1, 3, mtu, 3),
		middles(roce.RCReadResponseMiddle, 2, 2, mtu, 4),
	} {
		p.a.s.Receive(f, 1)
	}
	wantRuns(t, p.a.regions[0].mem, mtu, 1, 2, 3, 3)
	// A train that would go on behind the end of the answer is none.
	p.a.s.Receive(middles(roce.RCReadResponseMiddle, 4, 2, mtu, 5), 1)
	if got := p.a.counts[CountDropGhost]; got != 1 {
		t.Errorf("dropped %d trains from behind what was asked for, want 1", got)
	}
}
