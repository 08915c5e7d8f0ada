package conn

import (
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/roce"
)

// Resolve asks which queue pair serves datagrams. EventSidrReply or
// EventUnreachable follows, and with it the Conn is over.
func (a *Agent) Resolve(call *Call, now Instant) (*Conn, error) {
	if len(call.Private) > mad.SidrReqPrivate.Len() {
		return nil, ErrPrivate
	}
	c, err := a.call(call)
	if err != nil {
		return nil, err
	}
	c.remoteID = c.localID
	m := mad.New(mad.SIDRREQ, c.exchange)
	mad.SidrReqID.Set(m, uint64(c.localID))
	mad.SidrReqPKey.Set(m, roce.DefaultPKey)
	mad.SidrReqServiceID.Set(m, uint64(call.Service))
	mad.SidrReqPrivate.Put(m, call.Private)
	c.become(SidrSent)
	c.await(m, now)
	return c, nil
}

// receiveSIDRREP takes the answer.
func (c *Conn) receiveSIDRREP(m *mad.MAD, _ Instant) {
	c.remote.QPN = uint32(mad.SidrRepQPN.In(m))
	c.remote.QKey = uint32(mad.SidrRepQKey.In(m))
	c.a.forget(c)
	c.tell(Event{Kind: EventSidrReply, Status: mad.SidrStatus(mad.SidrRepStatus.In(m)), Message: m})
}

// receiveSIDR takes a question. One that comes again gets the answer that it
// got.
func (a *Agent) receiveSIDR(from netip.Addr, m *mad.MAD, now Instant) {
	id := uint32(mad.SidrReqID.In(m))
	if c := a.requests[sidrKey{from, id}]; c != nil && c.exchange == m.Transaction() {
		a.counters.Duplicate[mad.SIDRREQ-mad.REQ]++
		if c.state == SidrAnswered {
			c.again()
			a.timers.set(c, now+sidrMemory)
		}
		return
	}
	service := mad.ServiceID(mad.SidrReqServiceID.In(m))
	l := a.listener(service, mad.SidrReqPrivate.In(m))
	if l == nil {
		a.send(from, sidrRep(m.Transaction(), id, service, &Service{Status: mad.SidrUnsupported}))
		return
	}
	if l.waiting >= l.backlog || a.halfOpen >= a.config.HalfOpen {
		a.counters.Dropped[DropBacklog]++ // it will come again
		return
	}
	c, err := a.begin(from)
	if err != nil {
		a.counters.Dropped[DropBacklog]++
		return
	}
	if old := a.requests[sidrKey{from, id}]; old != nil {
		a.forget(old) // the peer has begun to count again
	}
	c.listener, c.service, c.remoteID, c.exchange = l, service, id, m.Transaction()
	l.waiting++
	a.requests[sidrKey{from, id}] = c
	c.become(SidrReceived)
	a.timers.set(c, now+sidrPatience)
	c.tell(Event{Kind: EventSidrRequest, Listener: l, Message: m})
}

// How long a question waits for the program, and is remembered after its last
// answer: a SIDR_REQ does not say how long its sender waits. Linux repeats one
// after 4.3 s, and would otherwise get the program asked anew when several
// answers are lost.
const (
	sidrPatience Instant = 30e9
	sidrMemory   Instant = 30e9
)

// A Service is the answer to a question for a service of datagrams.
type Service struct {
	Status  mad.SidrStatus
	QPN     uint32
	QKey    uint32
	Private []byte // up to 136 bytes
}

// Answer answers a question for a service of datagrams.
func (c *Conn) Answer(s *Service, now Instant) error {
	if c.state != SidrReceived {
		return ErrState
	}
	if len(s.Private) > mad.SidrRepPrivate.Len() {
		return ErrPrivate
	}
	c.settled()
	c.last = sidrRep(c.exchange, c.remoteID, c.service, s)
	c.become(SidrAnswered)
	c.a.send(c.peer, c.last)
	c.a.timers.set(c, now+sidrMemory)
	c.a.remember(c)
	return nil
}

func sidrRep(transaction uint64, id uint32, service mad.ServiceID, s *Service) *mad.MAD {
	m := mad.New(mad.SIDRREP, transaction)
	mad.SidrRepID.Set(m, uint64(id))
	mad.SidrRepStatus.Set(m, uint64(s.Status))
	mad.SidrRepServiceID.Set(m, uint64(service))
	mad.SidrRepQPN.Set(m, uint64(s.QPN))
	mad.SidrRepQKey.Set(m, uint64(s.QKey))
	mad.SidrRepPrivate.Put(m, s.Private)
	return m
}
