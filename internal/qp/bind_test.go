package qp

import (
	"testing"

	"github.com/gantry-rdma/gantry/roce"
)

// TestABindIsPassedWhereTheCursorStands: all is being sent again, one packet a
// run, and the cursor has come to a bind when all before it is acknowledged.
func TestABindIsPassedWhereTheCursorStands(t *testing.T) {
	p := newPair(t, roce.MTU256, 0, 1, 16)
	p.a.s.cfg.Probe = 0
	windows := []uint32{p.a.register(nil, 0), p.a.register(nil, 0)}
	p.a.post(write(0, 8))
	for _, key := range windows {
		p.a.regions[key-1].gone = true
		p.a.post(func(w *WQE) {
			w.ID, w.Op = uint64(key), OpBindMW
			w.Bind = Binding{Window: key, Key: key, LKey: 1, Addr: addr(1, 0), Len: 8}
		})
	}
	p.a.post(write(9, 8))
	p.a.s.Step(1, 8)
	p.a.s.Step(p.a.s.Deadline(), 1)
	if got := p.a.s.at; got.seq != 1 || got.wqe != 1 {
		t.Fatalf("the cursor is at packet %d of request %d, want 1 and 1", got.seq, got.wqe)
	}
	p.a.s.Receive(ack(0, roce.AckUnlimited), p.a.s.now+5)
	p.a.sound(t)
	for _, f := range p.a.takeOut() {
		f.Back()
	}
	p.a.s.Step(p.a.s.now, 8)
	p.a.s.Receive(ack(1, roce.AckUnlimited), p.a.s.now+5)
	for _, f := range p.a.takeOut() {
		f.Back()
	}
	p.a.s.Step(p.a.s.now, 8)
	p.a.sound(t)
	if len(p.a.bound) != 2 || len(p.a.sent) != 4 {
		t.Errorf("bound %d windows and completed %d requests, want 2 and 4", len(p.a.bound), len(p.a.sent))
	}
}
