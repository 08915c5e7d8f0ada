package conn

import "github.com/gantry-rdma/gantry/internal/mad"

// A Drop is why a message was not used.
type Drop uint8

// The reasons.
const (
	DropForeign       Drop = iota // no message of connection management, or of another version
	DropUnknown                   // an attribute that has no name
	DropAlternatePath             // LAP and APR
	DropUnknownID                 // no such connection
	DropWrongPeer                 // a connection of another peer, or with another identifier or queue pair
	DropUnexpected                // nothing to do with it in this state
	DropBacklog                   // too many questions
	Drops
)

var dropNames = [Drops]string{"foreign", "unknown_attribute", "alternate_path", "unknown_id", "wrong_peer", "unexpected", "backlog"}

// String returns the name of the reason.
func (d Drop) String() string { return dropNames[d] }

// Counters are what an agent has counted. Those of messages are by attribute,
// from REQ on; those of rejections by reason, where the last one stands for all
// above it too.
type Counters struct {
	Sent      [mad.Attrs]uint64 // with those that were repeated
	Retried   [mad.Attrs]uint64
	Received  [mad.Attrs]uint64
	Duplicate [mad.Attrs]uint64   // received again, or too late
	Rejects   [mad.Reasons]uint64 // sent
	Rejected  [mad.Reasons]uint64 // received
	Dropped   [Drops]uint64
}
