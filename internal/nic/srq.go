package nic

import (
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/qp"
)

// An SRQ is a queue of receives that queue pairs share: whichever of them gets a
// message takes the oldest. Messages end in any order, and so slots come back in
// any order. They go round between those who post and those who take:
//
//	 posters  --- posted -->  receive halves
//	(mu)      <--- back ----  (taking)
//
// Each direction is a ring of slots with one side at each end, and each side has
// a lock of its own. Who drives a circle holds the lock of its side already, so
// there taking a receive costs no atomic write, and giving back one for each run.
// Halves that items run lock, on whatever executors they are.
//
// Its methods may be called from any goroutine.
type SRQ struct {
	Owner any // whoever made it may note itself here

	d      *Device
	pd     *PD
	sges   int
	users  atomic.Int32 // queue pairs
	failed atomic.Bool
	closed atomic.Bool

	mu    sync.Mutex // of those who post
	depth int        // slots there are, wherever; changes under both locks

	taking *sync.Mutex // own, or that of the circle
	own    sync.Mutex
	limit  int // raise an event when fewer are left; 0: do not

	posted slotRing
	back   slotRing
}

// A slotRing hands slots from one side to the other, in order. It has room for
// all the slots that there are, so it is never full.
type slotRing struct {
	slots []*qp.RecvWQE
	put   uint32        // of the giving side: how many ever were put
	out   uint32        // of the taking side: how many ever were taken
	in    atomic.Uint32 // what the taking side knows of put
}

func (r *slotRing) push(w *qp.RecvWQE) {
	r.slots[r.put&uint32(len(r.slots)-1)] = w
	r.put++
}

// publish lets the other side see what was put.
func (r *slotRing) publish() {
	if r.in.Load() != r.put {
		r.in.Store(r.put)
	}
}

// peek returns what pop would, or nil.
func (r *slotRing) peek() *qp.RecvWQE {
	if r.out == r.in.Load() {
		return nil
	}
	return r.slots[r.out&uint32(len(r.slots)-1)]
}

func (r *slotRing) pop() *qp.RecvWQE {
	w := r.peek()
	if w != nil {
		r.out++
	}
	return w
}

// undo puts w, which was taken, before all others. Its place is free: of the
// slots that there are, one at least was not in the ring.
func (r *slotRing) undo(w *qp.RecvWQE) {
	r.out--
	r.slots[r.out&uint32(len(r.slots)-1)] = w
}

func (r *slotRing) len() int { return int(r.in.Load() - r.out) }

// resize gives the ring room for n slots. Both sides are locked.
func (r *slotRing) resize(n int) {
	slots := make([]*qp.RecvWQE, 1<<bits.Len(uint(n-1)))
	r.publish()
	for i := r.out; i != r.put; i++ {
		slots[i&uint32(len(slots)-1)] = r.slots[i&uint32(len(r.slots)-1)]
	}
	r.slots = slots
}

// NewSRQ makes a queue for that many receives, each with up to sges entries in
// memory of p. An event says when fewer than limit are left; 0: none does.
func (p *PD) NewSRQ(depth, sges, limit int) (*SRQ, error) {
	d := p.d
	s := &SRQ{d: d, pd: p, sges: sges}
	if err := s.check(depth, limit); err != nil {
		return nil, err
	}
	if sges < 0 || sges > d.limits.SGE {
		return nil, fmt.Errorf("scatter entries of a receive %d, want 0 to %d: %w", sges, d.limits.SGE, ErrInvalid)
	}
	if n := int(d.srqs.Add(1)); n > d.limits.SRQ {
		d.srqs.Add(-1)
		return nil, fmt.Errorf("make a shared receive queue, %d exist: %w", d.limits.SRQ, ErrNoMemory)
	}
	s.taking = &s.own
	if d.circle != nil {
		s.taking = &d.circle.mu
	}
	s.limit = limit
	s.setDepth(depth)
	p.users.Add(1)
	return s, nil
}

func (s *SRQ) check(depth, limit int) error {
	switch {
	case depth < 1 || depth > s.d.limits.WR:
		return fmt.Errorf("shared receive queue of %d, want 1 to %d: %w", depth, s.d.limits.WR, ErrInvalid)
	case limit < 0 || limit > depth:
		return fmt.Errorf("limit of a shared receive queue %d, want 0 to %d: %w", limit, depth, ErrInvalid)
	}
	return nil
}

// setDepth adds slots that are free, or takes some away. Both sides are locked,
// and enough slots are free.
func (s *SRQ) setDepth(depth int) {
	s.back.publish()
	for range s.depth - depth {
		s.back.pop()
	}
	s.posted.resize(depth)
	s.back.resize(depth)
	if more := depth - s.depth; more > 0 {
		slots := qp.NewReceives(more, s.sges)
		for i := range slots {
			s.back.push(&slots[i])
		}
		s.back.publish()
	}
	s.depth = depth
}

// LockReceives locks the queue for posting, if it takes receives.
func (s *SRQ) LockReceives() bool {
	s.mu.Lock()
	if s.failed.Load() || s.closed.Load() {
		s.mu.Unlock()
		return false
	}
	return true
}

// NextReceive returns the next free slot, or nil when the queue is full.
// PostReceive posts it.
func (s *SRQ) NextReceive() *qp.RecvWQE { return s.back.peek() }

// PostReceive posts the slot of NextReceive.
func (s *SRQ) PostReceive() { s.posted.push(s.back.pop()) }

// UnlockReceives ends LockReceives, and shows what was posted.
func (s *SRQ) UnlockReceives() {
	s.posted.publish()
	s.mu.Unlock()
}

// take takes the oldest receive, or nil. A half that a circle runs has the lock.
func (s *SRQ) take(locked bool) *qp.RecvWQE {
	if !locked {
		s.taking.Lock()
		defer s.taking.Unlock()
	}
	if s.failed.Load() {
		return nil
	}
	w := s.posted.pop()
	if s.limit != 0 && s.posted.len() < s.limit {
		s.limit = 0
		s.d.raise(Event{Kind: EventSRQLimit, SRQ: s})
	}
	return w
}

// done takes back the slot of a receive that is complete, before anybody sees
// the completion. Of a half that a circle runs, the end of the run shows it.
func (s *SRQ) done(w *qp.RecvWQE, locked bool) {
	if locked {
		s.back.push(w)
		return
	}
	s.taking.Lock()
	defer s.taking.Unlock()
	s.back.push(w)
	s.back.publish()
}

// free shows those who post what a run of a half that a circle runs gave back.
func (s *SRQ) free(locked bool) {
	if locked {
		s.back.publish()
	}
}

// repost makes a receive that will not be completed by who took it the oldest
// again. Nobody here drives.
func (s *SRQ) repost(w *qp.RecvWQE) {
	s.taking.Lock()
	defer s.taking.Unlock()
	s.posted.undo(w)
}

// lock locks both sides.
func (s *SRQ) lock() error {
	s.mu.Lock()
	s.taking.Lock()
	if s.closed.Load() {
		s.unlock()
		return fmt.Errorf("shared receive queue: %w", ErrClosed)
	}
	return nil
}

func (s *SRQ) unlock() {
	s.taking.Unlock()
	s.mu.Unlock()
}

// Modify changes the depth, the limit, or both; what is nil stays. It fails
// when more receives are posted or in use than the depth would allow. A limit
// that is set raises one event: the next time that a queue pair asks for a
// receive and fewer are left.
func (s *SRQ) Modify(depth, limit *int) error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.unlock()
	n, l := s.depth, s.limit
	if depth != nil {
		n = *depth
	}
	if limit != nil {
		l = *limit
	}
	if err := s.check(n, l); err != nil {
		return err
	}
	s.back.publish()
	if used := s.depth - s.back.len(); n < used {
		return fmt.Errorf("shared receive queue of %d with %d receives in it: %w", n, used, ErrInvalid)
	}
	if n != s.depth {
		s.setDepth(n)
	}
	s.limit = l
	return nil
}

// Query returns the depth, and the limit: 0 when its event was raised.
func (s *SRQ) Query() (depth, limit int, err error) {
	if err := s.lock(); err != nil {
		return 0, 0, err
	}
	defer s.unlock()
	return s.depth, s.limit, nil
}

// SGEs returns the most entries of a receive.
func (s *SRQ) SGEs() int { return s.sges }

// Fail puts the queue into the error state, for good: nothing can be posted to
// it, and peers are told that there is no receive.
func (s *SRQ) Fail() {
	if !s.failed.Swap(true) {
		s.d.raise(Event{Kind: EventSRQError, SRQ: s})
	}
}

// Destroy gives the queue up, and the receives in it. It is busy while queue
// pairs use it.
func (s *SRQ) Destroy() error {
	if err := s.lock(); err != nil {
		return err
	}
	defer s.unlock()
	if n := s.users.Load(); n != 0 {
		return fmt.Errorf("shared receive queue of %d queue pairs: %w", n, ErrBusy)
	}
	s.closed.Store(true)
	s.d.events.drop(func(e Event) bool { return e.SRQ == s })
	s.d.srqs.Add(-1)
	s.pd.users.Add(-1)
	return nil
}
