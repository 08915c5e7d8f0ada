package nic

import (
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// groupBacklog is how many packets may wait for one of several members of a
// group: with more it loses datagrams to the group, and it alone. For each
// member there are so many references, and as many heads.
const groupBacklog = 256

// A reference stands for a frame in the queue of one of several halves. The
// frame goes back to the link when all of its references are released.
//
//	head ---------> the frame from the link
//	 ^  ^
//	 |  +-- reference in the queue of a half
//	 +----- reference in the queue of another
type reference struct {
	frame.Frame
	head *reference
	next *reference

	// Of a head alone.
	of   *frame.Frame
	left atomic.Int32 // references, and the receive path while it makes them
}

// FrameBack does nothing: release is the way back.
func (r *reference) FrameBack(*frame.Frame) {}

// references are those that are free.
type references struct {
	mu   sync.Mutex
	free *reference
	made int
}

// provide makes as many as that many members need at most, and those of one
// datagram that is being distributed.
func (s *references) provide(members int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	need := 2*groupBacklog*members + 2
	all := make([]reference, max(need-s.made, 0))
	s.made += len(all)
	for i := range all {
		all[i].Owner = &all[i]
		all[i].next, s.free = s.free, &all[i]
	}
}

func (s *references) take() *reference {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.free
	if r != nil {
		s.free = r.next
	}
	return r
}

func (s *references) put(r *reference) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.next, s.free = s.free, r
}

// open returns a head for f, which counts as one reference, or nil.
func (s *references) open(f *frame.Frame) *reference {
	h := s.take()
	if h != nil {
		h.head, h.of = h, f
		h.left.Store(1)
	}
	return h
}

// refer returns a reference to the frame of a head, or nil.
func (s *references) refer(head *reference) *reference {
	r := s.take()
	if r == nil {
		return nil
	}
	f := head.of
	r.head = head
	r.Head, r.HeadLen, r.Pad, r.Len, r.Payload = f.Head, f.HeadLen, f.Pad, f.Len, f.Payload
	r.Peer, r.Local, r.TOS, r.TTL = f.Peer, f.Local, f.TOS, f.TTL
	head.left.Add(1)
	return r
}

// release ends a reference, and returns the frame if it was the last.
func (s *references) release(r *reference) *frame.Frame {
	head := r.head
	if r != head {
		r.Payload = nil
		s.put(r)
	}
	if head.left.Add(-1) > 0 {
		return nil
	}
	f := head.of
	head.of = nil
	s.put(head)
	return f
}

// collect puts frames into the place of their last references, and leaves out
// the others.
func (s *references) collect(frames []*frame.Frame) []*frame.Frame {
	n := 0
	for _, f := range frames {
		if r, ok := f.Owner.(*reference); ok {
			if f = s.release(r); f == nil {
				continue
			}
		}
		frames[n] = f
		n++
	}
	return frames[:n]
}

// distribute hands a datagram to the queue pairs that are attached to the group
// it was sent to: to one as it is, to several as references.
func (r *receiver) distribute(f *frame.Frame) {
	g := r.d.groups.find(f.Local.IP)
	if g == nil {
		r.drop(f, dropGroup)
		return
	}
	if len(g.members) == 1 {
		if why, ok := r.deliver(g.members[0], f, backlog); !ok {
			r.drop(f, why)
		}
		return
	}
	s := &r.d.groups.refs
	head := s.open(f)
	if head == nil {
		r.drop(f, dropBacklog)
		return
	}
	for _, q := range g.members {
		ref := s.refer(head)
		if ref == nil {
			r.d.count(dropBacklog)
			continue
		}
		if why, ok := r.deliver(q, &ref.Frame, groupBacklog); !ok {
			r.d.count(why)
			s.release(ref)
		}
	}
	if s.release(head) != nil { // nobody has it
		r.drops[r.n] = f
		r.n++
	}
}

// deliver hands one datagram to a queue pair of a group, for which less than most
// packets wait, or says why not.
func (r *receiver) deliver(q *QP, f *frame.Frame, most int) (why counter, ok bool) {
	v, h := q.view.Load(), &q.recv.half
	switch {
	case !v.requests:
		return dropState, false
	case !samePartition((*roce.BTH)(f.Head[:]).PKey(), v.pkey):
		return dropPKey, false
	}
	if h.circle != nil {
		return dropBacklog, int(h.waiting) < most && h.accept(f)
	}
	r.commit() // what came before it
	if int(h.in.count.Load()) >= most {
		return dropBacklog, false
	}
	f.Next = nil
	r.half, r.newest, r.oldest, r.held = h, f, f, 1
	r.commit()
	return 0, true
}
