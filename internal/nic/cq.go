package nic

import (
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/work"
)

// An arming says which completion raises the next event of a queue.
type arming uint8

const (
	armedNot arming = iota
	armedSolicited
	armedNext
)

// A CQ is a completion queue. Its methods may be called from any goroutine.
//
// It raises one event each time it is armed. The event is pushed under the
// lock under which the entry was, so a queue that was armed before an entry
// came has an event after it.
type CQ struct {
	Owner any // whoever made it may note itself here

	d  *Device
	ch *Channel

	ready atomic.Int64 // entries in the ring: what a poll looks at first
	used  atomic.Int64 // places that are taken, by entries in the ring or on their way
	size  atomic.Int64 // places
	polls atomic.Uint32
	drive atomic.Pointer[work.Inline] // what a poll drives

	mu       sync.Mutex
	ring     []qp.CQE
	head     uint64
	tail     uint64
	armed    arming
	overflow bool // an entry was lost since the last poll

	pending int // events that nobody got yet; under the lock of the channel
	queued  bool
	nextCQ  *CQ
	unacked atomic.Int64 // events that somebody got and did not acknowledge
	users   atomic.Int32 // queue pairs, twice if both halves use it
	closed  atomic.Bool
}

// NewCQ returns a queue for at least n entries. Its events go to ch, which
// may be nil.
func (d *Device) NewCQ(n int, ch *Channel) (*CQ, error) {
	size, err := d.cqSize(n)
	if err != nil {
		return nil, err
	}
	if ch != nil {
		ch.users.Add(1)
	}
	d.cqs.Add(1)
	c := &CQ{d: d, ch: ch, ring: make([]qp.CQE, size)}
	c.size.Store(int64(size))
	c.serve(d.exec)
	return c, nil
}

func (d *Device) cqSize(n int) (int, error) {
	if n < 1 || n > d.limits.CQE {
		return 0, fmt.Errorf("completion queue of %d entries, want 1 to %d: %w", n, d.limits.CQE, ErrInvalid)
	}
	return 1 << bits.Len(uint(n-1)), nil
}

// Cap returns how many entries the queue holds: a power of two.
func (c *CQ) Cap() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.ring)
}

// claim takes a place for one entry. It returns false and reports the overflow
// when there is none.
//
// A half claims a place for each entry at once, so that it learns of an
// overflow, and hands the entries over together at the end of its run.
func (c *CQ) claim() bool {
	if c.used.Add(1) <= c.size.Load() {
		return true
	}
	c.used.Add(-1)
	c.d.count(countCQOverflow)
	c.mu.Lock()
	first := !c.overflow
	c.overflow = true
	c.mu.Unlock()
	if first {
		c.d.raise(Event{Kind: EventCQError, CQ: c})
	}
	return false
}

// push adds entries, for which places were claimed, and raises an event if one
// is due.
func (c *CQ) push(entries []qp.CQE) {
	c.mu.Lock()
	defer c.mu.Unlock()
	mask := uint64(len(c.ring) - 1)
	for i := range entries {
		c.ring[c.tail&mask] = entries[i]
		c.tail++
	}
	c.ready.Store(int64(c.tail - c.head))
	if c.armed == armedNot || c.armed == armedSolicited && !slices.ContainsFunc(entries, solicits) {
		return
	}
	c.armed = armedNot
	if c.ch != nil {
		c.ch.push(c)
	}
}

// solicits reports whether an entry raises the event of a queue that waits for
// solicited ones: failures do too.
func solicits(e qp.CQE) bool { return e.Solicited || e.Status != qp.StatusSuccess }

// Take returns up to n of the oldest entries, in two pieces, and locks the
// queue until Done. It locks nothing when it returns none.
func (c *CQ) Take(n int) (a, b []qp.CQE) {
	if c.ready.Load() == 0 {
		return nil, nil
	}
	c.mu.Lock()
	n = min(n, int(c.tail-c.head))
	if n <= 0 {
		c.mu.Unlock()
		return nil, nil
	}
	at := int(c.head) & (len(c.ring) - 1)
	if first := len(c.ring) - at; n > first {
		return c.ring[at:], c.ring[:n-first]
	}
	return c.ring[at : at+n], nil
}

// Done says that n entries of Take were copied.
func (c *CQ) Done(n int) {
	c.head += uint64(n)
	c.overflow = false
	c.ready.Store(int64(c.tail - c.head))
	c.used.Add(int64(-n))
	c.mu.Unlock()
}

// pollsPerDrive is how many polls that find enough may follow each other
// before one drives the device, so that nothing starves behind a full queue.
const pollsPerDrive = 16

// Due reports, where polling drives something, whether a poll that found what
// it wanted should drive all the same.
func (c *CQ) Due() bool {
	return c.drive.Load() != nil && c.polls.Add(1)%pollsPerDrive == 0
}

// rounds is how often one poll lets an executor run, at most. A message needs
// five: send, arrive, execute, acknowledge, complete.
const rounds = 8

// Inline reports whether nobody works for the queue but those who drive it.
func (c *CQ) Inline() bool {
	x := c.drive.Load()
	return x != nil && c.d.circle != nil && c.d.circle.x == x
}

// DriveFor drives a few rounds, until the queue has an entry. It returns false
// where nothing was to be done, or nothing is driven by polling.
func (c *CQ) DriveFor() bool {
	x := c.drive.Load()
	if x == nil {
		return false
	}
	if c.d.circle != nil && c.d.circle.x == x {
		return c.d.circle.drive(rounds, 0, c.hasEntry)
	}
	did := false
	for range rounds {
		if !x.Drive(0) {
			break
		}
		if did = true; c.hasEntry() {
			break
		}
	}
	return did
}

func (c *CQ) hasEntry() bool { return c.ready.Load() > 0 }

// serve makes polls drive the executor of a queue pair, if they should. That is
// one executor: queue pairs on several inline ones need several queues.
func (c *CQ) serve(x work.Executor) {
	if x, ok := x.(*work.Inline); ok {
		c.drive.Store(x)
	}
}

// Arm asks for an event with the next completion, or with the next one that
// is solicited or failed. Entries that are there already raise none: poll once
// more after arming. An arming for the next completion is not weakened.
func (c *CQ) Arm(solicited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !solicited {
		c.armed = armedNext
	} else if c.armed == armedNot {
		c.armed = armedSolicited
	}
}

// Resize changes how many entries the queue holds. Those that are in it must
// fit.
func (c *CQ) Resize(n int) error {
	size, err := c.d.cqSize(n)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The size first: whoever claims a place after the look at used sees it.
	old := c.size.Swap(int64(size))
	if used := c.used.Load(); used > int64(size) {
		c.size.Store(old)
		return fmt.Errorf("resize to %d entries, holding %d: %w", n, used, ErrInvalid)
	}
	have := int(c.tail - c.head)
	ring := make([]qp.CQE, size)
	for i := range have {
		ring[i] = c.ring[(c.head+uint64(i))&uint64(len(c.ring)-1)]
	}
	c.ring, c.head, c.tail = ring, 0, uint64(have)
	return nil
}

// Destroy gives the queue up. It is busy while queue pairs use it, or events
// of it are not acknowledged.
func (c *CQ) Destroy() error {
	if n := c.users.Load(); n != 0 {
		return fmt.Errorf("completion queue used by %d halves of queue pairs: %w", n, ErrBusy)
	}
	if n := c.unacked.Load(); n != 0 {
		return fmt.Errorf("completion queue with %d events not acknowledged: %w", n, ErrBusy)
	}
	if c.closed.Swap(true) {
		return fmt.Errorf("completion queue: %w", ErrClosed)
	}
	if c.ch != nil {
		c.ch.forget(c)
		c.ch.users.Add(-1)
	}
	c.d.cqs.Add(-1)
	return nil
}
