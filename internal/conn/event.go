package conn

import "github.com/gantry-rdma/gantry/internal/mad"

// A Kind is what an event is about.
type Kind uint8

// The events.
const (
	EventRequest      Kind = iota // passive: a peer asks for a connection: Accept or Reject it
	EventReply                    // active: the peer accepts: Confirm or Reject it
	EventEstablished              // passive: data may flow
	EventRejected                 // there will be no connection, or it was ended: Reason says why
	EventUnreachable              // an answer did not come
	EventDisconnected             // the connection is over
	EventExpired                  // time-wait is over: the queue pair may be used again
	EventSidrRequest              // passive: a peer asks for a service of datagrams: Answer it
	EventSidrReply                // active: the answer; Status says whether it is a good one
)

var kindNames = [...]string{
	"REQUEST", "REPLY", "ESTABLISHED", "REJECTED", "UNREACHABLE", "DISCONNECTED", "EXPIRED", "SIDR_REQUEST", "SIDR_REPLY",
}

// String returns the name of the kind.
func (k Kind) String() string { return kindNames[k] }

// An Event tells a program what became of a connection.
type Event struct {
	Kind     Kind
	Conn     *Conn
	Listener *Listener      // EventRequest, EventSidrRequest
	Reason   mad.Reason     // EventRejected
	Status   mad.SidrStatus // EventSidrReply
	Message  *mad.MAD       // what has come, or nil
}

// Private returns the private data that came with an event, or nil. It lies in
// the message.
func (e Event) Private() []byte {
	if e.Message == nil {
		return nil
	}
	return e.Message.Private()
}
