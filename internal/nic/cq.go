package nic

import (
	"fmt"
	"math/bits"
	"runtime"
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
// On a device that is driven by polling the lock is that of the circle: who
// drives has it already.
//
// It raises one event each time it is armed. The event is pushed under the
// lock under which the entry was, so a queue that was armed before an entry
// came has an event after it.
type CQ struct {
	Owner any // whoever made it may note itself here

	d  *Device
	ch *Channel

	ready  atomic.Int64                // entries in the ring: what a poll looks at first; not with a circle
	used   atomic.Int64                // places that are taken, by entries in the ring or on their way
	size   atomic.Int64                // places
	drives atomic.Pointer[work.Inline] // of a queue pair that has an inline executor of its own

	mu       *sync.Mutex // own, or that of the circle
	own      sync.Mutex
	claimed  bool // halves claim places: only without them the ring alone says what is free
	polls    uint32
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
	vain    atomic.Uint32 // polls that found nothing, of a program that helps
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
	c.mu, c.claimed = &c.own, true
	if d.circle != nil {
		c.mu, c.claimed = &d.circle.mu, false
	}
	c.size.Store(int64(size))
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

// claim takes a place for one entry, for a half that is run by its item. Such
// a half learns at once of an overflow, and hands entries over together.
func (c *CQ) claim() bool {
	if c.used.Add(1) <= c.size.Load() {
		return true
	}
	c.used.Add(-1)
	return false
}

// overrun reports that an entry is lost. The caller holds mu.
func (c *CQ) overrun() {
	c.d.count(countCQOverflow)
	if !c.overflow {
		c.d.raise(Event{Kind: EventCQError, CQ: c})
	}
	c.overflow = true
}

// push adds entries, for which places were claimed, and raises an event if one
// is due.
func (c *CQ) push(entries []qp.CQE) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range entries {
		c.add(&entries[i])
	}
	if c.d.circle == nil {
		c.ready.Store(int64(c.tail - c.head))
	}
}

// put adds an entry for a half that a circle runs, whose driver calls it. It
// returns false and reports the overflow when there is no place.
func (c *CQ) put(e *qp.CQE) bool {
	if c.claimed && !c.claim() || !c.claimed && c.tail-c.head >= uint64(len(c.ring)) {
		c.overrun()
		return false
	}
	c.add(e)
	return true
}

// add adds an entry, for which there is a place.
func (c *CQ) add(e *qp.CQE) {
	c.ring[c.tail&uint64(len(c.ring)-1)].Copy(e)
	c.tail++
	if c.armed == armedNot || c.armed == armedSolicited && !solicits(e) {
		return
	}
	c.armed = armedNot
	if c.ch != nil {
		c.ch.push(c)
	}
}

// solicits reports whether an entry raises the event of a queue that waits for
// solicited ones: failures do too.
func solicits(e *qp.CQE) bool { return e.Solicited || e.Status != qp.StatusSuccess }

// pollsPerDrive is how many polls that find something may follow each other
// before one drives the device, so that nothing starves behind a full queue.
const pollsPerDrive = 16

// rounds is how often one poll lets a circle run, at most. A message needs
// three: send, execute, complete.
const rounds = 8

// Take returns up to n of the oldest entries, in two pieces, and locks the
// queue until Done. It locks nothing when it returns none. On a device that is
// driven by polling it drives when there are none, and now and then when there
// are.
func (c *CQ) Take(n int) (a, b []qp.CQE) {
	circle := c.d.circle
	if circle == nil && c.ready.Load() == 0 {
		return nil, nil
	}
	c.mu.Lock()
	if circle != nil {
		if c.polls++; c.tail == c.head || c.polls%pollsPerDrive == 0 {
			circle.driveLocked(rounds, 0, c)
		}
	}
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
	if c.claimed {
		c.used.Add(int64(-n))
	}
	if c.d.circle == nil {
		c.ready.Store(int64(c.tail - c.head))
	}
	c.mu.Unlock()
}

// restEvery is how many polls in vain of a program that helps let workers run
// once.
const restEvery = 32

// Rest is called after a poll in vain. Go puts a worker that is woken on the CPU
// of its waker. If that one polls and never rests, the worker waits for long until
// another CPU steals it. A program that helps does meanwhile what the worker would:
// it rests seldom. Not so where packets come through a socket: the goroutine that
// reads it is woken only when a processor has nothing else to do.
func (c *CQ) Rest() {
	d := c.d
	if d.circle != nil || d.linkFD < 0 && d.helped.Load() && c.vain.Add(1)%restEvery != 0 {
		return
	}
	runtime.Gosched()
}

// DriveOwn drives, where a queue pair has an inline executor of its own, that
// one for a few rounds, until the queue has an entry. It reports whether
// anything was done.
func (c *CQ) DriveOwn() (did bool) {
	x := c.drives.Load()
	for range rounds {
		if x == nil || !x.Drive(0) {
			break
		}
		if did = true; c.d.circle == nil && c.ready.Load() > 0 {
			break
		}
	}
	return did
}

// serve prepares for the entries of a half. A poll drives the inline executor
// that the half may have: it is one, so queue pairs on several of them need
// several queues.
func (c *CQ) serve(x work.Executor, h *half) {
	if h.circle != nil {
		return
	}
	if x, ok := x.(*work.Inline); ok {
		c.drives.Store(x)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.claimed {
		c.claimed = true
		c.used.Store(int64(c.tail - c.head))
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
	used := c.used.Load()
	if !c.claimed {
		used = int64(c.tail - c.head)
	}
	if used > int64(size) {
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
