package conn

import (
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/roce"
)

// receiveREQ takes a REQ: one that comes again gets the answer that it got, one
// that names what an earlier connection has is stale, and one that nobody wants
// is refused without a trace.
func (a *Agent) receiveREQ(from netip.Addr, m *mad.MAD, now Instant) {
	key := remoteKey{from, mad.ReqCAGUID.In(m), uint32(mad.ReqLocalID.In(m))}
	qpn := uint32(mad.ReqQPN.In(m))
	if c := a.remote[key]; c != nil && c.remote.QPN == qpn && c.exchange == m.Transaction() {
		a.counters.Duplicate[m.Attr()-mad.REQ]++
		c.requestedAgain(now)
		return
	}
	old := a.remote[key]
	if old == nil {
		old = a.queues[queueKey{from, key.guid, qpn}]
	}
	if old != nil {
		a.refuseREQ(from, m, mad.RejStaleConn)
		old.stale(now)
		return
	}
	l, why := a.admit(from, m)
	if why != 0 {
		a.refuseREQ(from, m, why)
		return
	}
	c, err := a.begin(from)
	if err != nil {
		a.refuseREQ(from, m, mad.RejNoResources)
		return
	}
	c.requested(l, m, now)
}

// admit finds the listener of a REQ, or the reason why it is refused.
func (a *Agent) admit(from netip.Addr, m *mad.MAD) (*Listener, mad.Reason) {
	l := a.listener(mad.ServiceID(mad.ReqServiceID.In(m)), mad.ReqPrivate.In(m))
	mtu := roce.MTU(mad.ReqPathMTU.In(m))
	switch {
	case l == nil:
		return nil, mad.RejInvalidServiceID
	case mad.ReqService.In(m) > 1:
		return nil, mad.RejInvalidTransport
	case mad.ReqRemoteGID.Addr(m) != a.config.Addr || mad.ReqLocalGID.Addr(m) != from:
		return nil, mad.RejInvalidGID // or something between us rewrites addresses
	case !mtu.Valid() || mtu > a.config.MTU:
		return nil, mad.RejInvalidMTU
	case l.waiting >= l.backlog || a.halfOpen >= a.config.HalfOpen:
		return nil, mad.RejNoResources
	}
	return l, 0
}

// refuseREQ answers a REQ that there is no connection for.
func (a *Agent) refuseREQ(to netip.Addr, m *mad.MAD, why mad.Reason) {
	a.send(to, a.rej(m.Transaction(), 0, uint32(mad.ReqLocalID.In(m)), mad.OfREQ, why))
}

// requested fills in a connection that a peer asks for, and tells the program.
func (c *Conn) requested(l *Listener, m *mad.MAD, now Instant) {
	c.listener, c.service = l, l.service
	c.remoteID, c.guid = uint32(mad.ReqLocalID.In(m)), mad.ReqCAGUID.In(m)
	c.exchange, c.retries = m.Transaction(), uint8(mad.ReqMaxRetries.In(m))
	c.terms = Terms{
		Transport: roce.Transport(mad.ReqService.In(m)), MTU: roce.MTU(mad.ReqPathMTU.In(m)),
		RetryCount: uint8(mad.ReqRetryCount.In(m)), AckTimeout: uint8(mad.ReqAckTimeout.In(m)),
		TrafficClass: uint8(mad.ReqTrafficClass.In(m)),
	}
	c.wait = span(uint8(mad.ReqLocalTimeout.In(m)))
	c.remote = Side{
		QPN: uint32(mad.ReqQPN.In(m)), PSN: roce.PSN(mad.ReqPSN.In(m)), QKey: uint32(mad.ReqQKey.In(m)),
		Resources: uint8(mad.ReqResources.In(m)), Depth: uint8(mad.ReqDepth.In(m)),
		RNRRetry: uint8(mad.ReqRNRRetry.In(m)), FlowControl: mad.ReqFlowControl.In(m) != 0, SRQ: mad.ReqSRQ.In(m) != 0,
	}
	c.a.remote[c.remoteKey()] = c
	c.a.queues[c.queueKey()] = c
	c.become(ReqReceived)
	l.waiting++
	// The peer gives up when its last REQ is not answered. Then so do we.
	patience := span(uint8(mad.ReqRemoteTimeout.In(m))) + 2*c.lifetime()
	c.a.timers.set(c, now+min(patience*Instant(c.retries+1), longest))
	c.tell(Event{Kind: EventRequest, Listener: l, Message: m})
}

// delay is what an MRA asks for while the program thinks, as a code: 17 seconds.
// Longer would cost the peer more when the answer behind it is lost.
const delay = 22

// requestedAgain answers a REQ that has come before.
func (c *Conn) requestedAgain(now Instant) {
	switch c.state {
	case ReqReceived: // the program takes its time: ask for more
		m := mad.New(mad.MRA, c.exchange)
		mad.MraLocalID.Set(m, uint64(c.localID))
		mad.MraRemoteID.Set(m, uint64(c.remoteID))
		mad.MraMessage.Set(m, uint64(mad.OfREQ))
		mad.MraTimeout.Set(m, delay)
		c.a.send(c.peer, m)
		c.a.timers.set(c, max(c.deadline, now+span(delay)))
	case RepSent, Refused:
		c.again()
	case TimeWait:
		if c.last != nil && c.last.Attr() == mad.REJ {
			c.again()
		}
	default: // a late copy
	}
}

// An Answer is what Accept says of our side.
type Answer struct {
	Local    Side
	AckDelay uint8  // how long the device takes to acknowledge, as a code
	Private  []byte // up to 196 bytes
}

// Accept answers a REQ. The queue pair must be able to receive and to send, for
// data may come before EventEstablished. EventRejected or EventUnreachable may
// come instead.
func (c *Conn) Accept(ans *Answer, now Instant) error {
	if c.state != ReqReceived {
		return ErrState
	}
	if len(ans.Private) > mad.RepPrivate.Len() {
		return ErrPrivate
	}
	c.local = ans.Local
	m := mad.New(mad.REP, c.exchange)
	fill(m, []value{
		{mad.RepLocalID, uint64(c.localID)}, {mad.RepRemoteID, uint64(c.remoteID)}, {mad.RepQKey, uint64(ans.Local.QKey)},
		{mad.RepQPN, uint64(ans.Local.QPN)}, {mad.RepPSN, uint64(ans.Local.PSN)}, {mad.RepResources, uint64(ans.Local.Resources)},
		{mad.RepDepth, uint64(ans.Local.Depth)}, {mad.RepAckDelay, uint64(ans.AckDelay)},
		{mad.RepFlowControl, bit(ans.Local.FlowControl)}, {mad.RepRNRRetry, uint64(ans.Local.RNRRetry)},
		{mad.RepSRQ, bit(ans.Local.SRQ)}, {mad.RepCAGUID, c.a.config.GUID},
	})
	mad.RepPrivate.Put(m, ans.Private)
	c.linked = true
	c.settled()
	c.become(RepSent)
	c.await(m, now)
	return nil
}

// receiveRTU takes the last message of the three.
func (c *Conn) receiveRTU(m *mad.MAD, _ Instant) { c.stand(m) }

// Established tells a passive connection that data has come, which says as much
// as an RTU.
func (c *Conn) Established() error {
	if c.state != RepSent {
		return ErrState
	}
	c.stand(nil)
	return nil
}

func (c *Conn) stand(m *mad.MAD) {
	c.rest()
	c.become(Established)
	c.tell(Event{Kind: EventEstablished, Message: m})
}

// settled gives the place in the backlog of the listener to another.
func (c *Conn) settled() {
	if c.listener != nil {
		c.listener.waiting--
		c.listener = nil
	}
}

// refuse remembers what a REQ was answered with. The queue pair of the peer is
// free for another REQ.
func (c *Conn) refuse(with *mad.MAD, now Instant) {
	c.settled()
	c.last = with
	if k := c.queueKey(); c.a.queues[k] == c {
		delete(c.a.queues, k)
	}
	c.become(Refused)
	c.a.timers.set(c, now+min(2*c.wait+2*c.lifetime(), longest))
	c.a.remember(c)
}
