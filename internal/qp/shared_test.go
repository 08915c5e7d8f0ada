package qp

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// A sharing is a shared receive queue with the receivers of several queue
// pairs. Each receive is accounted for: posted, taken, and back, once.
type sharing struct {
	posted []*RecvWQE
	taken  map[*RecvWQE]int // by which queue pair
	back   []uint64
}

// A sharer is the Env of one of the queue pairs.
type sharer struct {
	*host
	all *sharing
	me  int
}

func (s *sharer) TakeReceive() *RecvWQE {
	if len(s.all.posted) == 0 {
		return nil
	}
	w := s.all.posted[0]
	s.all.posted = s.all.posted[1:]
	s.all.taken[w] = s.me
	return w
}

func (s *sharer) release(w *RecvWQE) {
	if by, ok := s.all.taken[w]; !ok || by != s.me {
		s.t.Fatalf("queue pair %d hands in receive %d, which it has not", s.me, w.ID)
	}
	delete(s.all.taken, w)
	s.all.back = append(s.all.back, w.ID)
}

func (s *sharer) CompleteReceive(w *RecvWQE, e *CQE) bool {
	s.release(w)
	s.received = append(s.received, *e)
	return true
}

func (s *sharer) GiveUpReceive(w *RecvWQE) { s.release(w) }

// newSharing returns responders that share n receives.
func newSharing(t fataler, responders, n int) (*sharing, []*sharer) {
	all := &sharing{taken: map[*RecvWQE]int{}}
	for i := range n {
		all.posted = append(all.posted, &RecvWQE{ID: uint64(i), SG: []SGE{{addr(1, 0), 4096, 1}}})
	}
	list := make([]*sharer, responders)
	for i := range list {
		s := &sharer{newHost(t, fmt.Sprint(i), 1), all, i}
		s.register(make([]byte, 4096), everything)
		s.r.Init(s, 4)
		s.r.Start(ResponderConfig{QPN: uint32(i), MTU: roce.MTU256, SharedReceive: true, Access: everything})
		list[i] = s
	}
	return all, list
}

// sendPacket returns one packet of a SEND.
func sendPacket(op roce.Opcode, psn roce.PSN) *frame.Frame {
	f := &frame.Frame{Len: 256, Payload: [][]byte{make([]byte, 256)}}
	h := roce.Build(&f.Head, op)
	h.BTH().SetPSN(psn)
	f.HeadLen = uint8(h.Len())
	return f
}

// TestSharedReceivesComeBackInAnyOrder: two messages are on their way at once;
// the one that began later ends first.
func TestSharedReceivesComeBackInAnyOrder(t *testing.T) {
	all, s := newSharing(t, 2, 3)
	s[0].r.Receive(sendPacket(roce.RCSendFirst, 0), 1)
	s[1].r.Receive(sendPacket(roce.RCSendOnly, 0), 1)
	s[1].r.Receive(sendPacket(roce.RCSendFirst, 1), 1)
	s[0].r.Receive(sendPacket(roce.RCSendLast, 1), 1)
	s[1].r.Fail()
	for s[1].r.Step(1, 8) {
	}
	if want := []uint64{1, 0, 2}; !slices.Equal(all.back, want) {
		t.Errorf("receives came back as %v, want %v", all.back, want)
	}
	if got := s[1].received; len(got) != 2 || got[0].ID != 1 || got[1].ID != 2 || got[1].Status != StatusFlushed {
		t.Errorf("queue pair 1 completed %v, want 1 and the flushed 2", got)
	}
	if len(all.taken) != 0 {
		t.Errorf("%d receives are in use", len(all.taken))
	}
}

// TestNoSharedReceiveIsLost: whatever becomes of the queue pairs, each receive
// is in the queue, with one queue pair that is in the middle of a message, or
// back; and the last event comes when a failed queue pair has none.
func TestNoSharedReceiveIsLost(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 9))
		const total, responders = 40, 3
		all, list := newSharing(t, responders, total)
		for range 400 {
			s := list[rng.IntN(responders)]
			switch k := rng.IntN(100); {
			case k < 80 && s.r.State() == Running:
				ops := []roce.Opcode{roce.RCSendFirst, roce.RCSendLast, roce.RCSendOnly, roce.RCSendMiddle}
				op := ops[rng.IntN(2)*2]
				if s.r.inside == sendMessage {
					op = ops[1+rng.IntN(2)*2]
				}
				s.r.Receive(sendPacket(op, s.r.Expected()), 1)
			case k < 83:
				s.r.Fail()
			case k < 86:
				s.r.Reset()
				s.events = nil
				s.r.Start(ResponderConfig{QPN: uint32(s.me), MTU: roce.MTU256, SharedReceive: true, Access: everything})
			}
			s.r.Step(1, rng.IntN(3))
			for _, f := range s.takeOut() {
				f.Back()
			}
			if s.r.State() == Failed {
				for range 3 {
					s.r.Step(1, 2)
				}
				last := slices.Index(s.events, LastWQEReached)
				if s.r.recv != nil || last < 0 || slices.Contains(s.events[last+1:], LastWQEReached) {
					t.Fatalf("seed %d: a failed queue pair has receive %v and told %v", seed, s.r.recv, s.events)
				}
			}
			if n := len(all.posted) + len(all.taken) + len(all.back); n != total {
				t.Fatalf("seed %d: %d of %d receives are accounted for", seed, n, total)
			}
			for w, by := range all.taken {
				if list[by].r.recv != w {
					t.Fatalf("seed %d: receive %d is with nobody", seed, w.ID)
				}
			}
		}
	}
}
