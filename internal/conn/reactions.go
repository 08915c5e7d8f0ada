package conn

import "github.com/gantry-rdma/gantry/internal/mad"

// A reaction is what a message does to a connection.
type reaction func(c *Conn, m *mad.MAD, now Instant)

// reactions say what each message does in each state. REQ and SIDR_REQ, which
// may begin a connection, are not here: see receiveREQ and receiveSIDR. What is
// empty is counted as unexpected, and does nothing.
var reactions [states][mad.Attrs]reaction

func init() {
	on := func(s State, a mad.Attr, r reaction) { reactions[s][a-mad.REQ] = r }

	on(ReqSent, mad.REP, (*Conn).receiveREP)
	on(ReqSent, mad.REJ, (*Conn).receiveREJ)
	on(ReqSent, mad.MRA, (*Conn).receiveMRA)

	on(ReqReceived, mad.REJ, (*Conn).receiveREJ)

	on(RepSent, mad.RTU, (*Conn).receiveRTU)
	on(RepSent, mad.REJ, (*Conn).receiveREJ)
	on(RepSent, mad.MRA, (*Conn).receiveMRA)
	on(RepSent, mad.DREQ, (*Conn).receiveDREQ) // the RTU was lost, and it is over already

	on(RepReceived, mad.REP, again) // the program takes its time
	on(RepReceived, mad.REJ, (*Conn).receiveREJ)
	on(RepReceived, mad.DREQ, (*Conn).receiveDREQ)

	on(Established, mad.REP, confirmAgain)
	on(Established, mad.RTU, again)
	on(Established, mad.REJ, (*Conn).receiveREJ)
	on(Established, mad.DREQ, (*Conn).receiveDREQ)

	on(DreqSent, mad.REP, again) // the DREQ tells the peer enough
	on(DreqSent, mad.RTU, again)
	on(DreqSent, mad.REJ, (*Conn).receiveREJ)
	on(DreqSent, mad.DREQ, (*Conn).receiveDREQ) // both want it
	on(DreqSent, mad.DREP, (*Conn).receiveDREP)

	on(TimeWait, mad.REP, refuseAgain)
	on(TimeWait, mad.RTU, refuseAgain) // given up here meanwhile
	on(TimeWait, mad.REJ, again)
	on(TimeWait, mad.MRA, again)
	on(TimeWait, mad.DREQ, (*Conn).disconnectedAgain)
	on(TimeWait, mad.DREP, again)

	on(Refused, mad.REJ, again) // both gave up

	on(SidrSent, mad.SIDRREP, (*Conn).receiveSIDRREP)
}

// again counts a message that has come before, or too late to matter.
func again(c *Conn, m *mad.MAD, _ Instant) { c.a.counters.Duplicate[m.Attr()-mad.REQ]++ }

// confirmAgain repeats the RTU: the peer has not got it.
func confirmAgain(c *Conn, m *mad.MAD, now Instant) {
	again(c, m, now)
	if c.active {
		c.again()
	}
}

// refuseAgain answers a REP or an RTU for a connection that is over here: with
// the REJ that ended it, if one did. An RTU may be a late copy.
func refuseAgain(c *Conn, m *mad.MAD, now Instant) {
	again(c, m, now)
	theirs, _ := m.IDs()
	switch {
	case c.last != nil && c.last.Attr() == mad.REJ && mad.RejRemoteID.In(c.last) != 0:
		c.again()
	case m.Attr() == mad.REP:
		c.a.send(c.peer, c.a.rej(m.Transaction(), c.localID, theirs, mad.OfREP, mad.RejInvalidCommID))
	}
}
