package qp

import "github.com/gantry-rdma/gantry/internal/frame"

// Between two ends of one process MIDDLE packets of a message need not be told
// apart: one frame stands for a train of them. Numbers, windows and budgets
// count packets all the same, so everything else is as on the wire. What was
// sent again may be cut into other trains than the first time: then the head of
// a train may be known already, and is taken off.

// A body is the payload of a packet or a train.
type body struct {
	n       int // bytes
	payload [][]byte
}

// of makes it the payload of f.
func (b *body) of(f *frame.Frame) { b.n, b.payload = f.Len, f.Payload }

// behead takes n bytes off the front of a train, which has one piece. What is
// left is in room.
func (b *body) behead(n int, room *[1][]byte) {
	room[0] = b.payload[0][n:]
	b.payload, b.n = room[:], b.n-n
}

// train returns how many MIDDLE packets of w leave in one frame, if the window
// has room for that many. Their payload has to lie together.
func (s *Sender) train(w *WQE, room int) int {
	if s.cfg.MaxTrain < 2 || len(w.SG) > 1 {
		return 1
	}
	return max(1, min(s.cfg.MaxTrain, room, int(w.end-1-s.at.seq)))
}

// train returns how many packets of the answer to a READ leave in one frame, of
// budget.
func (r *Responder) train(budget int) int {
	j := &r.reading
	if r.cfg.MaxTrain < 2 || j.first || j.memory.left == 0 {
		return 1
	}
	middle := int(min(j.memory.left-1, 1<<30)) / r.mtu
	return max(1, min(r.cfg.MaxTrain, budget, middle))
}
