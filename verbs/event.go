package verbs

import (
	"fmt"

	"github.com/gantry-rdma/gantry/internal/nic"
)

// An EventType is what an asynchronous event is about. The numbers are those
// of libibverbs.
type EventType uint8

// The asynchronous events.
const (
	EventCQErr       EventType = 0 // a completion did not fit into the queue
	EventQPFatal     EventType = 1
	EventQPReqErr    EventType = 2  // a peer's request was refused
	EventQPAccessErr EventType = 3  // a peer's access to memory was refused
	EventCommEst     EventType = 4  // the first packet has come
	EventSQDrained   EventType = 5  // what had begun before SQD is done
	EventSRQErr      EventType = 14 // the shared receive queue has failed

	EventSRQLimitReached EventType = 15 // fewer receives are left than its limit
	EventQPLastWQE       EventType = 16 // a queue pair that has failed takes no more from its shared receive queue
)

var eventNames = map[EventType]string{
	EventCQErr: "CQ_ERR", EventQPFatal: "QP_FATAL", EventQPReqErr: "QP_REQ_ERR", EventQPAccessErr: "QP_ACCESS_ERR",
	EventCommEst: "COMM_EST", EventSQDrained: "SQ_DRAINED", EventQPLastWQE: "QP_LAST_WQE_REACHED",
	EventSRQErr: "SRQ_ERR", EventSRQLimitReached: "SRQ_LIMIT_REACHED",
}

// String returns the name that libibverbs has, without its prefix.
func (t EventType) String() string {
	if s, ok := eventNames[t]; ok {
		return s
	}
	return fmt.Sprintf("EVENT(%d)", uint8(t))
}

// An Event is something that happened to a queue pair, a completion queue or a
// shared receive queue, and not to one work request.
type Event struct {
	Type EventType // what happened
	QP   *QP       // or nil
	CQ   *CQ       // or nil
	SRQ  *SRQ      // or nil
}

var eventTypes = [...]EventType{
	nic.EventCQError: EventCQErr, nic.EventQPFatal: EventQPFatal, nic.EventQPRequest: EventQPReqErr,
	nic.EventQPAccess: EventQPAccessErr, nic.EventCommEstablish: EventCommEst,
	nic.EventSQDrained: EventSQDrained, nic.EventLastWQE: EventQPLastWQE,
	nic.EventSRQError: EventSRQErr, nic.EventSRQLimit: EventSRQLimitReached,
}

func eventOf(e nic.Event) Event {
	out := Event{Type: eventTypes[e.Kind]}
	if e.QP != nil {
		out.QP, _ = e.QP.Owner.(*QP)
	}
	if e.CQ != nil {
		out.CQ, _ = e.CQ.Owner.(*CQ)
	}
	if e.SRQ != nil {
		out.SRQ, _ = e.SRQ.Owner.(*SRQ)
	}
	return out
}
