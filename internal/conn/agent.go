package conn

import (
	"errors"
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/roce"
)

// An Instant is a point in time: nanoseconds of a monotonic clock. 0 is none.
type Instant int64

// An Env is what an agent needs from its device and its program. Its methods are
// called from inside the methods of the agent, and must not call them.
type Env interface {
	// Send sends a message to the queue pair 1 of an address. The message
	// belongs to the agent, which does not change it any more.
	Send(to netip.Addr, m *mad.MAD)
	// Event tells the program something. What e points to in a message is valid
	// until Event returns.
	Event(e Event)
}

// Config says what an agent is the manager of.
type Config struct {
	Addr   netip.Addr    // of the device
	GUID   uint64        // of the device: who has it twice is taken for one
	MTU    roce.MTU      // the largest that the device takes
	Random func() uint64 // where identifiers and numbers come from

	Conns    int // connections at most, time-wait included; 0: 65536
	HalfOpen int // of them, those that the peer has begun and that do not stand yet; 0: 4096
}

// The errors of calls.
var (
	ErrState   = errors.New("the connection is in the wrong state")
	ErrPrivate = errors.New("too much private data")
	ErrFull    = errors.New("too many connections")
	ErrInUse   = errors.New("address in use")
)

// An Agent is the connection manager of a device. It belongs to one goroutine at
// a time.
type Agent struct {
	config    Config
	env       Env
	listeners map[mad.ServiceID][]*Listener
	local     map[uint32]*Conn    // by the identifier that we gave
	remote    map[remoteKey]*Conn // by the identifier that the peer gave
	queues    map[queueKey]*Conn  // by the queue pair of the peer
	requests  map[sidrKey]*Conn   // datagram services that peers asked for
	timers    timers
	halfOpen  int     // connections in ReqReceived, RepSent and SidrReceived
	refused   []*Conn // those in Refused and SidrAnswered, oldest first, and some that were
	counters  Counters
}

// A remoteKey names a connection as the peer does. The address is part of it:
// nobody else can speak for a peer by knowing its GUID.
type remoteKey struct {
	addr netip.Addr
	guid uint64
	id   uint32
}

// A queueKey names a queue pair of a peer.
type queueKey struct {
	addr netip.Addr
	guid uint64
	qpn  uint32
}

// A sidrKey names a question of a peer.
type sidrKey struct {
	addr netip.Addr
	id   uint32
}

// New returns an agent without connections.
func New(c Config, env Env) *Agent {
	if c.Conns == 0 {
		c.Conns = 1 << 16
	}
	if c.HalfOpen == 0 {
		c.HalfOpen = 4096
	}
	c.Addr = c.Addr.Unmap()
	return &Agent{
		config: c, env: env, listeners: map[mad.ServiceID][]*Listener{}, local: map[uint32]*Conn{},
		remote: map[remoteKey]*Conn{}, queues: map[queueKey]*Conn{}, requests: map[sidrKey]*Conn{},
	}
}

// Receive takes a message that came from an address.
func (a *Agent) Receive(from netip.Addr, m *mad.MAD, now Instant) {
	from = from.Unmap()
	if !m.CM() {
		a.counters.Dropped[DropForeign]++
		return
	}
	attr := m.Attr()
	if !attr.Known() {
		a.counters.Dropped[DropUnknown]++
		return
	}
	a.counters.Received[attr-mad.REQ]++
	switch attr {
	case mad.REQ:
		a.receiveREQ(from, m, now)
	case mad.SIDRREQ:
		a.receiveSIDR(from, m, now)
	case mad.LAP, mad.APR:
		a.counters.Dropped[DropAlternatePath]++
	default:
		a.deliver(from, m, now)
	}
}

// deliver finds the connection of a message that answers something, and lets it
// react.
func (a *Agent) deliver(from netip.Addr, m *mad.MAD, now Instant) {
	c, why := a.find(from, m)
	if c == nil {
		if why == DropUnknownID {
			a.answerStranger(from, m)
		}
		a.counters.Dropped[why]++
		return
	}
	react := reactions[c.state][m.Attr()-mad.REQ]
	if react == nil {
		a.counters.Dropped[DropUnexpected]++
		return
	}
	react(c, m, now)
}

// find returns the connection that a message is about, or why there is none.
func (a *Agent) find(from netip.Addr, m *mad.MAD) (*Conn, Drop) {
	theirs, ours := m.IDs()
	if ours == 0 && m.Attr() == mad.REJ {
		// Who gives up a REQ does not know our identifier yet, and says who it is.
		guid := mad.RejInfo.In(m)[:8]
		c := a.remote[remoteKey{from, be64(guid), theirs}]
		if c == nil || mad.Reason(mad.RejReason.In(m)) != mad.RejTimeout {
			return nil, DropUnknownID
		}
		return c, 0
	}
	c := a.local[ours]
	switch {
	case c == nil:
		return nil, DropUnknownID
	case c.peer != from:
		return nil, DropWrongPeer
	case c.state == SidrSent || c.state == ReqSent && m.Attr() != mad.DREQ && m.Attr() != mad.DREP:
		return c, 0 // the peer's identifier is not known yet
	case c.remoteID != theirs:
		return nil, DropWrongPeer
	}
	return c, 0
}

// answerStranger answers what names a connection that is not there, so that the
// peer need not wait for a timeout.
func (a *Agent) answerStranger(from netip.Addr, m *mad.MAD) {
	theirs, ours := m.IDs()
	switch m.Attr() {
	case mad.DREQ:
		d := mad.New(mad.DREP, m.Transaction())
		mad.DrepLocalID.Set(d, uint64(ours))
		mad.DrepRemoteID.Set(d, uint64(theirs))
		a.send(from, d)
	case mad.REP:
		a.send(from, a.rej(m.Transaction(), ours, theirs, mad.OfREP, mad.RejInvalidCommID))
	case mad.RTU: // given up here meanwhile: without a word the peer would believe in it for ever
		a.send(from, a.rej(m.Transaction(), ours, theirs, mad.OfOther, mad.RejInvalidCommID))
	}
}

// Deadline returns when Tick is to be called, or 0.
func (a *Agent) Deadline() Instant { return a.timers.first() }

// Tick tells the agent that it is now.
func (a *Agent) Tick(now Instant) {
	for c := a.timers.due(now); c != nil; c = a.timers.due(now) {
		a.timers.set(c, 0)
		c.expire(now)
	}
}

// Conns returns how many connections there are in any state.
func (a *Agent) Conns() int { return len(a.local) }

// HalfOpen returns how many connections a peer has begun that do not stand yet.
func (a *Agent) HalfOpen() int { return a.halfOpen }

// Counters returns what was counted so far.
func (a *Agent) Counters() Counters { return a.counters }

// send sends a message and counts it.
func (a *Agent) send(to netip.Addr, m *mad.MAD) {
	a.counters.Sent[m.Attr()-mad.REQ]++
	if m.Attr() == mad.REJ {
		a.counters.Rejects[min(int(mad.RejReason.In(m)), mad.Reasons-1)]++
	}
	a.env.Send(to, m)
}

// rej returns a REJ.
func (a *Agent) rej(transaction uint64, local, remote uint32, of mad.Of, why mad.Reason) *mad.MAD {
	m := mad.New(mad.REJ, transaction)
	mad.RejLocalID.Set(m, uint64(local))
	mad.RejRemoteID.Set(m, uint64(remote))
	mad.RejMessage.Set(m, uint64(of))
	mad.RejReason.Set(m, uint64(why))
	return m
}

// begin returns a new connection with an identifier that no other has, not even
// one in time-wait.
func (a *Agent) begin(peer netip.Addr) (*Conn, error) {
	if len(a.local) >= a.config.Conns {
		return nil, ErrFull
	}
	c := &Conn{a: a, peer: peer.Unmap()}
	for c.localID == 0 || a.local[c.localID] != nil {
		c.localID = uint32(a.config.Random())
	}
	a.local[c.localID] = c
	return c, nil
}

// forget ends the memory of a connection.
func (a *Agent) forget(c *Conn) {
	c.settled()
	c.become(Closed)
	a.timers.set(c, 0)
	delete(a.local, c.localID)
	a.unlink(c)
}

// unlink takes a connection out of the tables that peers get at it with.
func (a *Agent) unlink(c *Conn) {
	if k := c.remoteKey(); a.remote[k] == c {
		delete(a.remote, k)
	}
	if k := c.queueKey(); a.queues[k] == c {
		delete(a.queues, k)
	}
	if k := (sidrKey{c.peer, c.remoteID}); a.requests[k] == c {
		delete(a.requests, k)
	}
}

// remember keeps a connection that was refused for a while, so that the same
// question gets the same answer. The oldest makes room.
func (a *Agent) remember(c *Conn) {
	a.refused = append(a.refused, c)
	for len(a.refused) > a.config.HalfOpen || len(a.refused) > 0 && !a.refused[0].remembered() {
		if old := a.refused[0]; old.remembered() {
			a.forget(old)
		}
		a.refused[0] = nil
		a.refused = a.refused[1:]
	}
}
