package conn

import "github.com/gantry-rdma/gantry/internal/mad"

// Reject says no: to a REQ that waits for the program, to a REP that does, or to
// an own REP that waits for its RTU. The info is what the reason wants besides.
// No event follows.
func (c *Conn) Reject(why mad.Reason, info, private []byte, now Instant) error {
	of := mad.OfREQ
	switch c.state {
	case ReqReceived:
	case RepReceived:
		of = mad.OfREP
	case RepSent:
		of = mad.OfOther
	default:
		return ErrState
	}
	if len(private) > mad.RejPrivate.Len() || len(info) > mad.RejInfo.Len() {
		return ErrPrivate
	}
	m := c.a.rej(c.exchange, c.localID, c.remoteID, of, why)
	if of == mad.OfREQ {
		mad.RejLocalID.Set(m, 0)
	}
	mad.RejInfoLen.Set(m, uint64(len(info)))
	mad.RejInfo.Put(m, info)
	mad.RejPrivate.Put(m, private)
	c.a.send(c.peer, m)
	if of == mad.OfREQ {
		c.refuse(m, now)
	} else {
		c.timeWait(m, now)
	}
	return nil
}

// Disconnect ends a connection that stands. EventDisconnected follows when the
// peer has answered, or does not.
func (c *Conn) Disconnect(private []byte, now Instant) error {
	if c.state != Established {
		return ErrState
	}
	if len(private) > mad.DreqPrivate.Len() {
		return ErrPrivate
	}
	m := mad.New(mad.DREQ, c.a.config.Random())
	mad.DreqLocalID.Set(m, uint64(c.localID))
	mad.DreqRemoteID.Set(m, uint64(c.remoteID))
	mad.DreqRemoteQPN.Set(m, uint64(c.remote.QPN))
	mad.DreqPrivate.Put(m, private)
	c.become(DreqSent)
	c.await(m, now)
	return nil
}

// Close ends a connection in whatever state it is, and no event of it follows.
// The agent keeps it until its time-wait is over.
func (c *Conn) Close(now Instant) {
	c.muted = true
	switch c.state {
	case ReqSent: // the answer would come to nobody
		c.timeWait(c.reject(mad.OfOther, mad.RejTimeout), now)
	case ReqReceived, RepReceived, RepSent:
		_ = c.Reject(mad.RejConsumer, nil, nil, now) // these states allow it
	case Established:
		_ = c.Disconnect(nil, now) // so does this
	case SidrSent:
		c.a.forget(c)
	case SidrReceived:
		_ = c.Answer(&Service{Status: mad.SidrRejected}, now) // and this
	case Closed, DreqSent, TimeWait, Refused, SidrAnswered, states:
	}
}

// stale ends a connection that the peer knows nothing of any more: its queue
// pair, or its identifier, belongs to another.
func (c *Conn) stale(now Instant) {
	switch c.state {
	case Established:
		_ = c.Disconnect(nil, now) // the state allows it
	case ReqReceived:
		c.a.forget(c)
		c.tell(Event{Kind: EventRejected, Reason: mad.RejStaleConn})
	case RepSent, RepReceived:
		c.timeWait(nil, now)
		c.tell(Event{Kind: EventRejected, Reason: mad.RejStaleConn})
	case Refused:
		c.a.forget(c)
	default: // it ends by itself
	}
}

// timeWait ends a connection. Its identifier, and its queue pair, are not used
// again before packets of it have died out. With a message, that is the answer
// to what comes again.
func (c *Conn) timeWait(answer *mad.MAD, now Instant) {
	c.last = answer
	c.become(TimeWait)
	c.a.timers.set(c, now+min(max(2*c.lifetime(), shortest), longestTimeWait))
}

// receiveDREQ ends a connection because the peer wants it. The answer does not
// wait for the program.
func (c *Conn) receiveDREQ(m *mad.MAD, now Instant) {
	if uint32(mad.DreqRemoteQPN.In(m)) != c.local.QPN {
		c.a.counters.Dropped[DropWrongPeer]++
		return
	}
	c.answerDREQ(m)
	c.timeWait(c.last, now)
	c.tell(Event{Kind: EventDisconnected, Message: m})
}

// disconnectedAgain answers a DREQ that has come before.
func (c *Conn) disconnectedAgain(m *mad.MAD, _ Instant) {
	c.a.counters.Duplicate[mad.DREQ-mad.REQ]++
	c.answerDREQ(m)
}

func (c *Conn) answerDREQ(m *mad.MAD) {
	d := mad.New(mad.DREP, m.Transaction())
	mad.DrepLocalID.Set(d, uint64(c.localID))
	mad.DrepRemoteID.Set(d, uint64(c.remoteID))
	c.last = d
	c.a.send(c.peer, d)
}

// receiveDREP takes the answer to a DREQ.
func (c *Conn) receiveDREP(m *mad.MAD, now Instant) {
	c.timeWait(nil, now)
	c.tell(Event{Kind: EventDisconnected, Message: m})
}

// receiveREJ takes a no.
func (c *Conn) receiveREJ(m *mad.MAD, now Instant) {
	why := mad.Reason(mad.RejReason.In(m))
	c.a.counters.Rejected[min(int(why), mad.Reasons-1)]++
	kind := EventRejected
	switch c.state {
	case ReqReceived: // the peer does not want any more
		c.a.forget(c)
	case DreqSent:
		kind = EventDisconnected
		c.timeWait(nil, now)
	default:
		c.timeWait(nil, now)
	}
	c.tell(Event{Kind: kind, Reason: why, Message: m})
}

// receiveMRA takes the request for more time. The message that waits is not
// repeated before that time is over.
func (c *Conn) receiveMRA(m *mad.MAD, now Instant) {
	c.a.timers.set(c, now+min(span(uint8(mad.MraTimeout.In(m)))+2*c.lifetime(), longest))
}
