package cm

import (
	"fmt"

	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/verbs"
)

// An EventType is what an event is about. The numbers are those of librdmacm.
type EventType uint8

// The events.
const (
	AddrResolved   EventType = 0  // the address is one that the device can reach
	AddrError      EventType = 1  // it is not: see Event.Err
	RouteResolved  EventType = 2  // the ID can connect
	ConnectRequest EventType = 4  // a peer asks for a connection; Event.ID is new
	ConnectError   EventType = 6  // the queue pair could not be connected: see Event.Err
	Unreachable    EventType = 7  // the peer did not answer
	Rejected       EventType = 8  // the peer said no: see Event.Reason
	Established    EventType = 9  // data may flow
	Disconnected   EventType = 10 // the connection is over, and the queue pair in ERR
	TimewaitExit   EventType = 15 // packets of the connection have died out
)

var eventNames = map[EventType]string{
	AddrResolved: "ADDR_RESOLVED", AddrError: "ADDR_ERROR", RouteResolved: "ROUTE_RESOLVED",
	ConnectRequest: "CONNECT_REQUEST", ConnectError: "CONNECT_ERROR", Unreachable: "UNREACHABLE", Rejected: "REJECTED",
	Established: "ESTABLISHED", Disconnected: "DISCONNECTED", TimewaitExit: "TIMEWAIT_EXIT",
}

// String returns the name that librdmacm has, without its prefix.
func (t EventType) String() string {
	if s, ok := eventNames[t]; ok {
		return s
	}
	return fmt.Sprintf("EVENT(%d)", uint8(t))
}

// An Event is something that happened to an ID.
type Event struct {
	Type     EventType // what happened
	ID       *ID       // to whom
	Listener *ID       // ConnectRequest: who listens
	Reason   Reason    // Rejected
	Err      error     // of events that report a failure

	// Param holds what the peer sent: private data as long as the message has
	// room for it, with zeros behind what it filled; in ConnectRequest and
	// Established, also the other fields, from our point of view.
	Param ConnParam

	// Of Established with datagrams: where to send them.
	AH   verbs.AHAttr
	QPN  uint32
	QKey uint32
}

// A Reason is why a connection was refused, with the numbers of the protocol.
type Reason uint16

// The reasons that a program meets most.
const (
	ReasonNoResources Reason = 3  // the backlog is full, or a limit of the peer is reached
	ReasonTimeout     Reason = 4  // an answer of ours did not come in time
	ReasonNoListener  Reason = 8  // nobody listens there
	ReasonStale       Reason = 10 // the queue pair had a connection a moment ago
	ReasonInvalidGID  Reason = 12 // the peer has other addresses than we think: something rewrites them
	ReasonInvalidMTU  Reason = 26 // the path MTU is too large for the peer
	ReasonConsumer    Reason = 28 // the program of the peer refused
)

// String says what the reason is.
func (r Reason) String() string { return mad.Reason(r).String() }
