package verbs

import (
	"github.com/gantry-rdma/gantry/internal/nic"
)

// SRQInit says how a shared receive queue is made.
type SRQInit struct {
	MaxWR  int // receives in it
	MaxSGE int // scatter entries in one
	Limit  int // see SRQAttr; 0: none
	User   any // comes back with SRQ.User
}

// SRQAttr are the attributes of a shared receive queue.
type SRQAttr struct {
	MaxWR  int // receives in it
	MaxSGE int // scatter entries in one: Query

	// Limit arms an event: EventSRQLimitReached is raised once, when a queue
	// pair asks for a receive and fewer than these are left. Then it is 0.
	Limit int
}

// An SRQAttrMask says which attributes a Modify sets. The numbers are those of
// libibverbs.
type SRQAttrMask uint32

// The attributes.
const (
	SRQMaxWR SRQAttrMask = 1 << 0
	SRQLimit SRQAttrMask = 1 << 1
)

// An SRQ is a shared receive queue: many queue pairs take their receives from
// it, the oldest first, whichever of them has a message. So as many receives
// suffice as there are messages at a time, and not as many as there are queue
// pairs. Receives complete in the queue of the queue pair that took them.
//
// When it is empty, peers are asked to come again, as with a receive queue.
//
// A queue pair that fails has at most one receive in use, for a message that had
// begun. That one is flushed; then EventQPLastWQE says that the queue pair takes
// no more. One that is reset or destroyed while a message is coming in puts the
// receive back, to be the next that is taken: no receive is lost.
type SRQ struct {
	pd   *PD
	n    *nic.SRQ
	user any
}

// CreateSRQ makes a shared receive queue. Its receives name memory of this
// domain, whatever the domain of the queue pairs.
func (p *PD) CreateSRQ(c SRQInit) (*SRQ, error) {
	n, err := p.n.NewSRQ(c.MaxWR, c.MaxSGE, c.Limit)
	if err != nil {
		return nil, numbered(err)
	}
	s := &SRQ{pd: p, n: n, user: c.User}
	n.Owner = s
	return s, nil
}

// User returns what CreateSRQ was given.
func (s *SRQ) User() any { return s.user }

// PD returns the protection domain.
func (s *SRQ) PD() *PD { return s.pd }

// PostRecv posts work requests, in order. On an error those before the returned
// index were posted, and that one and the rest were not; without one it is the
// number of requests. EINVAL: too many scatter entries, or the queue has failed.
// ENOMEM: the queue is full.
func (s *SRQ) PostRecv(wrs ...RecvWR) (bad int, err error) {
	if !s.n.LockReceives() {
		return 0, EINVAL
	}
	for bad < len(wrs) {
		wr := &wrs[bad]
		if len(wr.SG) > s.n.SGEs() {
			err = EINVAL
			break
		}
		w := s.n.NextReceive()
		if w == nil {
			err = ENOMEM
			break
		}
		w.ID = wr.ID
		w.SG, _ = gather(w.SG[:0], wr.SG)
		s.n.PostReceive()
		bad++
	}
	s.n.UnlockReceives()
	return bad, err
}

// Modify changes the size, the limit, or both, also while queue pairs take
// receives. EINVAL: more receives are posted or in use than would fit, or the
// limit is above the size.
func (s *SRQ) Modify(a SRQAttr, mask SRQAttrMask) error {
	if mask&^(SRQMaxWR|SRQLimit) != 0 {
		return invalid("modify a shared receive queue with attributes %#x", uint32(mask))
	}
	var depth, limit *int
	if mask&SRQMaxWR != 0 {
		depth = &a.MaxWR
	}
	if mask&SRQLimit != 0 {
		limit = &a.Limit
	}
	return numbered(s.n.Modify(depth, limit))
}

// Query returns the attributes.
func (s *SRQ) Query() (SRQAttr, error) {
	depth, limit, err := s.n.Query()
	if err != nil {
		return SRQAttr{}, numbered(err)
	}
	return SRQAttr{MaxWR: depth, MaxSGE: s.n.SGEs(), Limit: limit}, nil
}

// Fail puts the queue into the error state, as hardware does that has lost its
// queue, so that a program can be tested for it: EventSRQErr is raised, posting
// fails, and peers are told that there is no receive.
func (s *SRQ) Fail() { s.n.Fail() }

// Destroy gives the queue up. The receives in it do not complete. EBUSY: queue
// pairs use it.
func (s *SRQ) Destroy() error { return numbered(s.n.Destroy()) }
