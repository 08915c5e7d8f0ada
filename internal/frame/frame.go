// Package frame holds what travels between the transport and the links: one
// RoCEv2 packet, its header in place and its payload borrowed.
package frame

// HeadSize is the room for headers: BTH and the largest set of extension
// headers take 40 bytes.
const HeadSize = 64

// A Frame is one packet without what the link adds (UDP and below, and the
// ICRC).
//
//	Head[:HeadLen]   Payload[0] Payload[1] …   Pad zero bytes
//	BTH, extension   registered memory of the sender, or a receive segment
//
// It has one owner at a time. The transport fills it and hands it to a link;
// from then on it must not be touched until the link gives it back, through
// [Frame.Back]. A link hands a frame that it received to the transport, which
// gives it back with Give of the link. The memory that Payload refers to is
// only borrowed: it must stay, unchanged, until the frame is back.
//
// A frame that was received may be the sender's own. Whoever received it reads
// it, may use Next, and writes nothing else. A frame that is back has lost its
// addresses: fill in Peer before each hand-over.
type Frame struct {
	Head    [HeadSize]byte
	HeadLen uint8
	Pad     uint8    // zero bytes behind the payload, 0 to 3; not in Payload
	Payload [][]byte // its backing array belongs to the frame, and is reused
	Len     int      // bytes of payload, without Pad

	Peer  Addr // where it goes to, or came from
	Local Addr // received: the address it came to

	// What the IP header says. To be sent: 0 leaves it to the system. Received:
	// 0 where the link cannot tell; see its SeeHeaders.
	TOS uint8 // IPv6: traffic class
	TTL uint8 // IPv6: hop limit

	Owner Owner  // whom Back tells
	Token uint64 // the owner's; not touched by links
	Next  *Frame // for lists of whoever has the frame

	// Damage is added to the ICRC, bit by bit without carry: a frame where it
	// is not zero arrives broken. It is for fault injection.
	Damage uint32

	// Train is how many packets the frame stands for, if more than one: MIDDLE
	// packets that follow each other, of which Head is the first one's and Len
	// the payload of all. It only exists between two ends of one process, on
	// links that say so.
	Train uint8

	// out says that it is handed over and not back. It is a check, not a lock:
	// whoever hands a frame over or back owns it at that moment.
	out bool
}

// An Owner gets its frames back. It may be called from any goroutine, must not
// block, and must not call the link.
type Owner interface{ FrameBack(f *Frame) }

// Handed marks the frame as handed over; links call it for what they take. It
// reports false if it already was, which is a bug of the caller.
func (f *Frame) Handed() bool {
	was := f.out
	f.out = true
	return !was
}

// Regain undoes Handed without telling the owner, who calls it. It reports
// false if the frame was not out.
func (f *Frame) Regain() bool {
	was := f.out
	f.out = false
	return was
}

// Back returns the frame to its owner: the link is done with its memory. A
// second Back does nothing.
func (f *Frame) Back() {
	if f.Regain() && f.Owner != nil {
		f.Owner.FrameBack(f)
	}
}

// Packets returns how many packets the frame stands for.
func (f *Frame) Packets() int { return max(1, int(f.Train)) }

// Reset empties the frame for its next use, and keeps the backing array.
func (f *Frame) Reset() {
	f.HeadLen, f.Pad, f.Len, f.Token, f.Next, f.Damage = 0, 0, 0, 0, nil, 0
	f.TOS, f.TTL, f.Train = 0, 0, 0
	if len(f.Payload) == 1 { // nearly always, and then a call is saved
		f.Payload[0] = nil
	} else {
		clear(f.Payload)
	}
	f.Payload = f.Payload[:0]
}
