package conn

import (
	"encoding/binary"
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/roce"
)

// A State is where a connection is in its life.
type State uint8

// The states of a connection.
const (
	Closed       State = iota // forgotten
	ReqSent                   // active: a REQ waits for its answer
	ReqReceived               // passive: a REQ waits for the program
	RepSent                   // passive: a REP waits for an RTU
	RepReceived               // active: a REP waits for the program
	Established               // data may flow
	DreqSent                  // a DREQ waits for its answer
	TimeWait                  // over; packets of it may still be on their way
	Refused                   // passive: over before it began
	SidrSent                  // active: a SIDR_REQ waits for its answer
	SidrReceived              // passive: a SIDR_REQ waits for the program
	SidrAnswered              // passive: answered
	states
)

var stateNames = [states]string{
	"CLOSED", "REQ_SENT", "REQ_RCVD", "REP_SENT", "REP_RCVD", "ESTABLISHED", "DREQ_SENT", "TIMEWAIT", "REFUSED",
	"SIDR_REQ_SENT", "SIDR_REQ_RCVD", "SIDR_ANSWERED",
}

// String returns the name of the state.
func (s State) String() string { return stateNames[s] }

// half reports whether the state is that of a connection that a peer has begun
// and that does not stand yet.
func (s State) half() bool { return s == ReqReceived || s == RepSent || s == SidrReceived }

// A Conn is one connection, or one resolution of a service of datagrams. It
// belongs to whoever the agent belongs to.
type Conn struct {
	// Owner is the program's.
	Owner any

	a        *Agent
	state    State
	active   bool
	muted    bool // the program has closed it: no events any more
	linked   bool // the queue pairs may have seen each other
	peer     netip.Addr
	localID  uint32
	remoteID uint32
	guid     uint64 // of the peer
	local    Side
	remote   Side
	terms    Terms
	service  mad.ServiceID
	listener *Listener
	exchange uint64   // the transaction of REQ, REP, RTU
	wait     Instant  // for one answer
	retries  uint8    // of a message
	left     uint8    // retries of the message that waits
	last     *mad.MAD // what is sent again, or answers what comes again

	deadline Instant
	place    int // in the heap of deadlines
}

// A Side is what one end says of its queue pair.
type Side struct {
	QPN         uint32
	PSN         roce.PSN // that the peer is to begin with
	QKey        uint32   // of datagrams
	Resources   uint8    // READs and atomics that it answers at once
	Depth       uint8    // READs and atomics that it has outstanding
	RNRRetry    uint8
	FlowControl bool // end to end; noted
	SRQ         bool
}

// Terms are what holds for both queue pairs of a connection: the active side
// says them.
type Terms struct {
	Transport    roce.Transport // RC or UC
	MTU          roce.MTU       // of the path
	RetryCount   uint8
	AckTimeout   uint8 // as a code
	TrafficClass uint8
}

// State returns where the connection is.
func (c *Conn) State() State { return c.state }

// Peer returns the address of the peer.
func (c *Conn) Peer() netip.Addr { return c.peer }

// Remote returns what the peer said of its queue pair.
func (c *Conn) Remote() Side { return c.remote }

// Terms returns what holds for both queue pairs.
func (c *Conn) Terms() Terms { return c.terms }

// ID returns the identifier that we gave the connection.
func (c *Conn) ID() uint32 { return c.localID }

func (c *Conn) remoteKey() remoteKey { return remoteKey{c.peer, c.guid, c.remoteID} }
func (c *Conn) queueKey() queueKey   { return queueKey{c.peer, c.guid, c.remote.QPN} }

// remembered reports whether c is kept only to answer once more.
func (c *Conn) remembered() bool { return c.state == Refused || c.state == SidrAnswered }

// become changes the state.
func (c *Conn) become(s State) {
	if c.state.half() {
		c.a.halfOpen--
	}
	c.state = s
	if s.half() {
		c.a.halfOpen++
	}
}

// await sends a message that is to be answered: it is repeated until await or
// rest is called, or given up.
func (c *Conn) await(m *mad.MAD, now Instant) {
	c.last, c.left = m, c.retries
	c.a.send(c.peer, m)
	c.a.timers.set(c, now+c.wait)
}

// rest ends the wait for an answer.
func (c *Conn) rest() { c.a.timers.set(c, 0) }

// again sends the last message once more.
func (c *Conn) again() {
	c.a.counters.Retried[c.last.Attr()-mad.REQ]++
	c.a.send(c.peer, c.last)
}

// expire does what is due when the deadline of the state has come.
func (c *Conn) expire(now Instant) {
	switch c.state {
	case ReqSent, RepSent, DreqSent, SidrSent:
		if c.left > 0 {
			c.left--
			c.again()
			c.a.timers.set(c, now+c.wait)
			return
		}
		c.giveUp(now)
	case ReqReceived:
		c.refuse(c.reject(mad.OfREQ, mad.RejTimeout), now)
		c.tell(Event{Kind: EventUnreachable})
	case SidrReceived:
		c.a.forget(c)
		c.tell(Event{Kind: EventUnreachable})
	case TimeWait:
		c.a.forget(c)
		if c.linked {
			c.tell(Event{Kind: EventExpired})
		}
	case Refused, SidrAnswered:
		c.a.forget(c)
	case Closed, RepReceived, Established, states:
	}
}

// giveUp ends a wait for an answer that did not come.
func (c *Conn) giveUp(now Instant) {
	switch c.state {
	case SidrSent:
		c.a.forget(c)
		c.tell(Event{Kind: EventUnreachable})
	case DreqSent:
		c.timeWait(nil, now)
		c.tell(Event{Kind: EventDisconnected})
	default:
		of := mad.OfOther
		c.timeWait(c.reject(of, mad.RejTimeout), now)
		c.tell(Event{Kind: EventUnreachable})
	}
}

// reject sends a REJ, and returns it.
func (c *Conn) reject(of mad.Of, why mad.Reason) *mad.MAD {
	m := c.a.rej(c.exchange, c.localID, c.remoteID, of, why)
	if of == mad.OfREQ {
		mad.RejLocalID.Set(m, 0) // the peer has never heard of it
	}
	if why == mad.RejTimeout {
		// Who is told may not know our identifier, or we not his: say who we are.
		mad.RejInfoLen.Set(m, 8)
		binary.BigEndian.PutUint64(mad.RejInfo.In(m), c.a.config.GUID)
	}
	c.a.send(c.peer, m)
	return m
}

// tell tells the program something.
func (c *Conn) tell(e Event) {
	if !c.muted {
		e.Conn = c
		c.a.env.Event(e)
	}
}

// The limits of what a peer may ask for. They keep a code of a byte from
// meaning hours, or a message every few microseconds.
const (
	shortest Instant = 4096 << 10 // 4.2 ms
	longest  Instant = 4096 << 25 // 137 s

	longestTimeWait Instant = 4096 << 20 // 4.3 s
)

// span returns the time of a code, within the limits.
func span(code uint8) Instant {
	return min(max(Instant(mad.Nanoseconds(code)), shortest), longest)
}

func be64(b []byte) uint64 { return binary.BigEndian.Uint64(b) }
