// Package frame holds what travels between the transport and the links: one
// RoCEv2 packet, its header in place and its payload borrowed.
package frame

import "sync/atomic"

// HeadSize is the room for headers: BTH and the largest set of extension
// headers take 40 bytes.
const HeadSize = 64

// An Addr is an IP address and a UDP port. IPv4 is ::ffff:a.b.c.d.
type Addr struct {
	IP   [16]byte
	Port uint16
}

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
type Frame struct {
	Head    [HeadSize]byte
	HeadLen uint8
	Pad     uint8    // zero bytes behind the payload, 0 to 3; not in Payload
	Payload [][]byte // its backing array belongs to the frame, and is reused
	Len     int      // bytes of payload, without Pad

	Peer  Addr // where it goes to, or came from
	Local Addr // received: the address it came to

	Owner Owner  // whom Back tells; of a frame that is sent
	Token uint64 // the owner's; not touched by links
	Next  *Frame // for lists of whoever has the frame

	out atomic.Bool // handed over and not back: a check against double hand-over
}

// An Owner gets its frames back. It may be called from any goroutine, must not
// block, and must not call the link.
type Owner interface{ FrameBack(f *Frame) }

// Handed marks the frame as handed over. It reports false if it already was,
// which is a bug of the caller.
func (f *Frame) Handed() bool { return f.out.CompareAndSwap(false, true) }

// Back returns the frame to its owner: the link is done with its memory. A
// second Back does nothing.
func (f *Frame) Back() {
	if f.out.CompareAndSwap(true, false) && f.Owner != nil {
		f.Owner.FrameBack(f)
	}
}

// Reset empties the frame for its next use, and keeps the backing array.
func (f *Frame) Reset() {
	f.HeadLen, f.Pad, f.Len, f.Token, f.Next = 0, 0, 0, 0, nil
	clear(f.Payload)
	f.Payload = f.Payload[:0]
}
