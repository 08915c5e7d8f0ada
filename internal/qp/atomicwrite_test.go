package qp

import (
	"bytes"
	"testing"

	"github.com/gantry-rdma/gantry/roce"
)

// TestAnAtomicWriteArrivesInPieces: a link in memory hands over the sender's own
// frame, whose payload is as many pieces as the request has entries.
func TestAnAtomicWriteArrivesInPieces(t *testing.T) {
	p := newPair(t, roce.MTU256, 0, 1, 16)
	p.a.post(func(w *WQE) {
		w.Op, w.RKey, w.RemoteAddr = OpAtomicWrite, 1, addr(1, 64)
		w.SG = append(w.SG, SGE{addr(1, 1), 3, 1}, SGE{addr(1, 100), 0, 1}, SGE{addr(1, 300), 5, 1})
	})
	p.a.s.Step(1, 8)
	out := p.a.takeOut()
	if len(out) != 1 || len(out[0].Payload) != 2 {
		t.Fatalf("got %d frames, want one of two pieces", len(out))
	}
	p.b.r.Receive(out[0], 1)
	mem := p.a.regions[0].mem
	want := append(bytes.Clone(mem[1:4]), mem[300:305]...)
	if got := p.b.regions[0].mem[64:72]; !bytes.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	if p.b.atomics != 1 {
		t.Errorf("stored it in %d steps, want 1", p.b.atomics)
	}
}
