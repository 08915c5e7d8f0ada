package conn

import (
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/roce"
)

// A Call is what Connect and Resolve ask a peer for.
type Call struct {
	To      netip.Addr
	Service mad.ServiceID
	Private []byte // with the header of RDMA-CM, if the service wants one

	// Of connections alone.
	Local     Side
	FlowLabel uint32

	Terms         // of datagrams: AckTimeout alone
	Timeout uint8 // how soon either side answers, as a code
	Retries uint8 // how often a message is repeated: 0 to 15
	Owner   any   // of the connection
}

// Connect asks for a connection. EventReply, EventRejected or EventUnreachable
// follows.
func (a *Agent) Connect(call *Call, now Instant) (*Conn, error) {
	if len(call.Private) > mad.ReqPrivate.Len() {
		return nil, ErrPrivate
	}
	c, err := a.call(call)
	if err != nil {
		return nil, err
	}
	c.local = call.Local
	c.become(ReqSent)
	c.await(c.req(call), now)
	return c, nil
}

// call returns a new connection of the active side.
func (a *Agent) call(call *Call) (*Conn, error) {
	c, err := a.begin(call.To)
	if err != nil {
		return nil, err
	}
	c.active, c.Owner, c.service = true, call.Owner, call.Service
	c.terms = call.Terms
	c.terms.AckTimeout &= mad.MaxTimeout
	c.exchange, c.retries = a.config.Random(), min(call.Retries, 15)
	// An answer has to come here and back besides.
	c.wait = min(span(call.Timeout)+2*c.lifetime(), longest)
	return c, nil
}

// lifetime returns how long a packet of the connection may be on its way: half
// of what the queue pairs wait for an acknowledgement.
func (c *Conn) lifetime() Instant {
	return min(Instant(mad.Nanoseconds(c.terms.AckTimeout)), longest) / 2
}

// permissive is what stands for a local identifier where there are none: on
// Ethernet.
const permissive = 0xffff

// req returns the REQ of a call.
func (c *Conn) req(call *Call) *mad.MAD {
	m := mad.New(mad.REQ, c.exchange)
	service := uint64(0)
	if call.Transport == roce.UC {
		service = 1
	}
	fill(m, []value{
		{mad.ReqLocalID, uint64(c.localID)}, {mad.ReqServiceID, uint64(call.Service)}, {mad.ReqCAGUID, c.a.config.GUID},
		{mad.ReqQKey, uint64(call.Local.QKey)}, {mad.ReqQPN, uint64(call.Local.QPN)}, {mad.ReqPSN, uint64(call.Local.PSN)},
		{mad.ReqResources, uint64(call.Local.Resources)}, {mad.ReqDepth, uint64(call.Local.Depth)},
		{mad.ReqRemoteTimeout, uint64(call.Timeout)}, {mad.ReqLocalTimeout, uint64(call.Timeout)},
		{mad.ReqService, service}, {mad.ReqFlowControl, bit(call.Local.FlowControl)}, {mad.ReqSRQ, bit(call.Local.SRQ)},
		{mad.ReqRetryCount, uint64(call.RetryCount)}, {mad.ReqRNRRetry, uint64(call.Local.RNRRetry)},
		{mad.ReqPKey, roce.DefaultPKey}, {mad.ReqPathMTU, uint64(call.MTU)}, {mad.ReqMaxRetries, uint64(c.retries)},
		{mad.ReqLocalLID, permissive}, {mad.ReqRemoteLID, permissive}, {mad.ReqHopLimit, hopLimit},
		{mad.ReqTrafficClass, uint64(call.TrafficClass)}, {mad.ReqFlowLabel, uint64(call.FlowLabel)},
		{mad.ReqAckTimeout, uint64(c.terms.AckTimeout)},
	})
	mad.ReqLocalGID.PutAddr(m, c.a.config.Addr)
	mad.ReqRemoteGID.PutAddr(m, c.peer)
	mad.ReqPrivate.Put(m, call.Private)
	return m
}

// hopLimit is what the kernel asks for.
const hopLimit = 64

// A value is what a field is to hold.
type value struct {
	field mad.Field
	is    uint64
}

func fill(m *mad.MAD, all []value) {
	for _, v := range all {
		v.field.Set(m, v.is)
	}
}

func bit(on bool) uint64 {
	if on {
		return 1
	}
	return 0
}

// receiveREP takes the answer to a REQ.
func (c *Conn) receiveREP(m *mad.MAD, now Instant) {
	c.remoteID = uint32(mad.RepLocalID.In(m))
	c.guid = mad.RepCAGUID.In(m)
	c.remote = Side{
		QPN: uint32(mad.RepQPN.In(m)), PSN: roce.PSN(mad.RepPSN.In(m)), QKey: uint32(mad.RepQKey.In(m)),
		Resources: uint8(mad.RepResources.In(m)), Depth: uint8(mad.RepDepth.In(m)),
		RNRRetry: uint8(mad.RepRNRRetry.In(m)), FlowControl: mad.RepFlowControl.In(m) != 0, SRQ: mad.RepSRQ.In(m) != 0,
	}
	c.rest()
	if old := c.a.queues[c.queueKey()]; old != nil {
		// The peer has forgotten the connection that its queue pair had.
		c.timeWait(c.reject(mad.OfREP, mad.RejStaleConn), now)
		c.tell(Event{Kind: EventRejected, Reason: mad.RejStaleConn})
		old.stale(now)
		return
	}
	c.linked = true
	c.a.remote[c.remoteKey()] = c
	c.a.queues[c.queueKey()] = c
	c.become(RepReceived)
	c.tell(Event{Kind: EventReply, Message: m})
}

// Confirm tells the peer that the connection stands: the queue pair can send
// and receive. The private data goes to nobody but a program that looks at it.
func (c *Conn) Confirm(private []byte, _ Instant) error {
	if c.state != RepReceived {
		return ErrState
	}
	if len(private) > mad.RtuPrivate.Len() {
		return ErrPrivate
	}
	m := mad.New(mad.RTU, c.exchange)
	mad.RtuLocalID.Set(m, uint64(c.localID))
	mad.RtuRemoteID.Set(m, uint64(c.remoteID))
	mad.RtuPrivate.Put(m, private)
	c.last = m
	c.become(Established)
	c.a.send(c.peer, m)
	return nil
}
