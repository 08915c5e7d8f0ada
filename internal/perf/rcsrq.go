package perf

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/verbs"
)

// sharedReceives are receives that all flows of an end take from. Messages of
// one flow complete in order, but those of different ones do not, so each
// receive is posted again for the slot that it had.
type sharedReceives struct {
	q     *verbs.SRQ
	flows map[uint32]int  // by the number of the queue pair
	free  []verbs.RecvWR  // to be posted
	wrs   []verbs.RecvWR  // one for each slot
	held  []sharedMessage // in each slot
}

// A sharedMessage is a message in a slot.
type sharedMessage struct {
	flow   int
	number uint64
	turn   uint64 // of the slice
}

func newSharedReceives(e *rcEnd) (s *sharedReceives, err error) {
	s = &sharedReceives{flows: make(map[uint32]int, e.test.QPs)}
	if s.q, err = e.pd.CreateSRQ(verbs.SRQInit{MaxWR: e.test.RecvDepth, MaxSGE: 1}); err != nil {
		return nil, fmt.Errorf("create a shared receive queue of %d: %w", e.test.RecvDepth, err)
	}
	e.later(s.q.Destroy)
	s.wrs = make([]verbs.RecvWR, e.test.RecvDepth)
	for slot := range s.wrs {
		s.wrs[slot] = verbs.RecvWR{ID: uint64(slot), SG: []verbs.SGE{e.receiveInto(0, uint64(slot))}}
	}
	s.free = append(make([]verbs.RecvWR, 0, len(s.wrs)), s.wrs...)
	s.held = make([]sharedMessage, len(s.wrs))
	return s, nil
}

// post posts the receives that are free, if there are at least so many.
func (s *sharedReceives) post(e *rcEnd, least int) {
	if len(s.free) < least {
		return
	}
	if _, err := s.q.PostRecv(s.free...); err != nil {
		core.KeepFirst(&e.failed, fmt.Errorf("post receives to the shared queue: %w", err))
	}
	s.free = s.free[:0]
}

// received takes the completion of a receive: the next message of its flow.
func (s *sharedReceives) received(e *rcEnd, w *verbs.WC) {
	i, known := s.flows[w.QPN]
	if !known || int(w.ByteLen) != e.test.Size {
		core.KeepFirst(&e.failed, fmt.Errorf("queue pair %#x: a shared receive got %d bytes, want %d",
			w.QPN, w.ByteLen, e.test.Size))
		return
	}
	f, slot := &e.flows[i], int(w.ID)
	s.held[slot] = sharedMessage{i, f.got, e.turn}
	f.got++
	e.left--
	if e.each {
		s.compare(e, slot)
	}
	s.free = append(s.free, s.wrs[slot])
	s.post(e, max(1, len(s.wrs)/8))
	if e.echoes {
		e.sendOne(i)
	}
}

// verify compares what the slots got in this slice.
func (s *sharedReceives) verify(e *rcEnd) {
	for slot := range s.held {
		if s.held[slot].turn == e.turn {
			s.compare(e, slot)
		}
	}
}

func (s *sharedReceives) compare(e *rcEnd, slot int) {
	h := &s.held[slot]
	e.compare(h.flow, h.number, e.region[e.layout.slot(0, uint64(slot)):][:e.test.Size], e.expect[e.layout.start(h.number):][:e.test.Size])
}
