package comch

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/core"
)

// A kind says whose seat it is.
type kind uint8

const (
	seatControl  kind = iota // the server's or client's own
	seatProducer             // a Producer's
	seatConsumer             // a Consumer's
)

// The most producers, and the most consumers, that one side of a connection
// has.
const maxSeats = 64

// A seat is the place of one context at a connection. All seats of a
// connection share its doorbell, each from the engine of its own context.
//
// The fields behind open belong to the goroutine of that engine.
type seat struct {
	conn    *Connection
	context *core.Context
	kind    kind
	id      uint16      // of a producer or consumer, among its kind on this side
	open    atomic.Bool // the context is not idle, so it may be notified

	watched bool // its engine watches the doorbell
	armed   bool // since the last settle
	quiet   int  // how often in a row settle found that nobody rang
}

// join takes a seat for a context, which need not have an engine yet. It
// answers core.ErrBadState when the connection is not established or over, and
// core.ErrNoMemory when all seats of the kind are taken.
func (c *Connection) join(x *core.Context, k kind) (*seat, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k != seatControl && c.phase() != phaseOpen {
		return nil, fmt.Errorf("comch: the connection is %v: %w", c.phase(), core.ErrBadState)
	}
	s := &seat{conn: c, context: x, kind: k}
	if k != seatControl {
		if c.count(k) >= maxSeats {
			return nil, fmt.Errorf("comch: the connection has %d of them on this side, which is the most: %w",
				maxSeats, core.ErrNoMemory)
		}
		s.id = c.number(k)
		c.owner.tenants.Add(1)
	}
	c.seats = append(c.seats, s)
	return s, nil
}

// count returns how many seats of a kind are taken. The caller holds c.mu.
func (c *Connection) count(k kind) (n int) {
	for _, s := range c.seats {
		if s.kind == k {
			n++
		}
	}
	return n
}

// number returns an identifier for a new seat: one that has not been used for
// as long as possible, from 1 to 0xfffe. The caller holds c.mu.
func (c *Connection) number(k kind) uint16 {
	taken := func(id uint16) bool {
		return slices.ContainsFunc(c.seats, func(s *seat) bool { return s.kind == k && s.id == id })
	}
	for {
		c.numbers[k]++
		if id := c.numbers[k]; id != 0 && id != 0xffff && !taken(id) {
			return id
		}
	}
}

// leave gives the seat back. The context is idle or about to be, and its
// engine still exists if it ever had one. The last to leave a connection that
// is over takes its memory and doorbell along.
func (s *seat) leave() {
	s.open.Store(false)
	c := s.conn
	s.unwatch()
	c.mu.Lock()
	if i := slices.Index(c.seats, s); i >= 0 {
		c.seats = slices.Delete(c.seats, i, i+1)
		if s.kind != seatControl {
			c.owner.tenants.Add(-1)
		}
	}
	c.mu.Unlock()
	c.release()
}

// begin says that the context is not idle any more: from now on it is notified
// of what happens to the connection. Called on the goroutine of its engine.
func (s *seat) begin() { s.open.Store(true) }

// end says that the context is idle. Called on the goroutine of its engine.
func (s *seat) end() {
	s.open.Store(false)
	s.armed = false
	s.unwatch() // or a bell that rings for others would keep the engine awake
}

// notify wakes the context if it waits. Any goroutine; the caller holds
// conn.mu, so that the seat cannot leave meanwhile.
func (s *seat) notify() {
	if s.open.Load() {
		s.context.Notify()
	}
}

// arm comes first in Arm of the context: from now on the doorbell wakes its
// engine. Then the context sets its arm words, and looks again at what they
// stand for. It reports false when the doorbell cannot be watched: then the
// context must not block.
func (s *seat) arm() (ok bool) {
	if !s.watched && !s.watch() {
		return false
	}
	s.armed = true
	return true
}

// watch makes the engine watch the doorbell, which it may do already for
// another seat.
func (s *seat) watch() (ok bool) {
	c, e := s.conn, s.context.Engine()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchers[e] == 0 && s.context.Watch(c.bell.FD()) != nil {
		return false
	}
	c.watchers[e]++
	s.watched = true
	return true
}

// unwatch undoes watch.
func (s *seat) unwatch() {
	if !s.watched {
		return
	}
	s.watched = false
	c, e := s.conn, s.context.Engine()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watchers[e]--; c.watchers[e] == 0 {
		delete(c.watchers, e)
		_ = s.context.Unwatch(c.bell.FD()) // silence may have done it
	}
}

// patience is how often a seat may find that nobody rang before it looks at
// the doorbell all the same.
const patience = 16

// settle comes first in Poll of a context that is armed; rung reports whether
// the peer has taken one of the arm words that were set since arm. Whoever was
// woken empties the doorbell, which all seats share, and so wakes the others in
// its stead: nobody's wake-up is lost.
//
// A peer that rings without having been asked would leave the doorbell loud,
// and so is found out after a while.
func (s *seat) settle(rung func() bool) {
	s.armed = false
	if !rung() {
		if s.quiet++; s.quiet < patience {
			return
		}
	}
	s.quiet = 0
	s.conn.quieten(s)
}

// quieten empties the doorbell and wakes every context but that of by.
func (c *Connection) quieten(by *seat) {
	if _, gone := c.bell.Drain(); gone {
		c.silence(by)
	}
	c.wake(by)
}

// silence stops by from watching a doorbell whose other end is closed, which
// would be loud for ever. The attendant tells what became of the peer.
func (c *Connection) silence(by *seat) {
	if by.watched {
		_ = by.context.Unwatch(c.bell.FD())
	}
}

// wake notifies every context at the connection but that of by, which may be
// nil. Any goroutine.
func (c *Connection) wake(by *seat) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seats {
		if s != by {
			s.notify()
		}
	}
}

// ring wakes the peer: for whoever has taken one of its arm words. It is a
// system call, never blocks, and does nothing once the peer is gone.
func (c *Connection) ring() { _ = c.bell.Ring() }
