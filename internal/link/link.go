// Package link moves frames in and out, in batches: between two devices of one
// process through memory, or over UDP. Wrappers around a link inject faults
// and write captures.
//
//   - [NewPair] joins two devices through memory: frames change hands, nothing
//     is copied.
//   - [ListenUDP] is RoCEv2 on a UDP socket, without privileges.
//   - [NewFaults] loses, doubles, reorders, damages and delays.
//   - [NewCapture] writes what passes as pcapng.
//
// A link delivers a frame once or not at all, in order as far as the network
// keeps it. It adds and checks the ICRC where packets leave the process; what
// is damaged is counted and dropped.
package link

import (
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/frame"
)

// A Link carries the frames of one device.
//
// Send and Give may be called from any goroutine. Recv is called by one
// goroutine at a time: the order in which it returns frames is the order of
// their arrival. None of the three allocates.
type Link interface {
	// Send takes frames over, in order, and returns how many: less than all
	// when a queue is full; see OnRoom. A frame that was taken comes back
	// through Frame.Back, sooner (copied, sent or dropped) or later (its
	// receiver is done). A link that is closed takes all frames and drops them.
	Send(frames []*frame.Frame) (taken int)

	// Recv fills frames with what arrived, and returns how many, at once.
	Recv(frames []*frame.Frame) int

	// Give returns frames that came from Recv, in any order, also after Close.
	Give(frames []*frame.Frame)

	// Wait blocks until Recv may have something (true) or the link is closed
	// (false). For a receive goroutine; a polled link needs it not.
	Wait() bool

	// OnReady sets what to call when frames may have become receivable on a
	// link that has no descriptor: any goroutine, must not block. Set it before
	// the first frame.
	OnReady(f func())

	// OnRoom sets what to call when a Send that did not take all is worth
	// trying again: any goroutine, must not block, may call Send. A link with a
	// descriptor finds out inside Recv, and the descriptor is readable when it
	// is time to call it. Set it before the first frame.
	OnRoom(f func())

	// SeeHeaders lets frames that are received from now on have TOS and TTL,
	// as far as the link can tell. It makes receiving a little dearer.
	SeeHeaders()

	// Join lets frames to a multicast group come in, and Leave ends that; each
	// works once for a group. Local of such a frame is the group. A group that
	// the device is not in it may still send to; what it sends comes in itself
	// if it has joined.
	Join(group netip.Addr) error
	Leave(group netip.Addr) error

	// Local is the address that peers send to.
	Local() frame.Addr

	// MTU is the largest RoCE payload of a packet: 256 to 4096 bytes.
	MTU() int

	// Pollable returns a descriptor that is readable when Recv has something.
	Pollable() (fd int, ok bool)

	// Stats returns what the link has counted since it was opened.
	Stats() Stats

	// Close ends the link and makes Wait return false. Frames that nobody has
	// received come back; those that a receiver holds come back when it gives
	// them. A second Close does nothing.
	Close() error
}

// Stats are the counters of a link. Frames are packets; bytes are those between
// UDP header and ICRC, pad included.
type Stats struct {
	SentFrames  uint64 // handed to the network
	SentBytes   uint64
	SentMerged  uint64 // of SentFrames: in one datagram with others, for the kernel to cut
	SentCalls   uint64 // system calls
	SentDropped uint64 // taken, and not sent: no such peer, closed, refused by the kernel
	SentTwice   uint64 // refused, because the frame was already out: a bug of the caller
	Blocked     uint64 // calls of Send that did not take all

	RecvFrames uint64 // returned by Recv
	RecvBytes  uint64
	RecvMerged uint64 // of RecvFrames: came merged with others by the kernel
	RecvCalls  uint64 // system calls that returned something

	BadLength  uint64 // dropped: shorter or longer than its opcode and pad allow
	BadVersion uint64 // dropped: another version of the transport header
	BadOpcode  uint64 // dropped: of a transport that there is not
	BadICRC    uint64 // dropped: damaged
	Solved     uint64 // received although IPv4 identification had to be worked out
	NoBuffer   uint64 // calls of Recv that found every receive buffer still held
	Overflow   uint64 // dropped by the kernel because the socket buffer was full

	RecvBuffer int   // bytes of the socket buffer, as the kernel accounts them
	SendBuffer int   // bytes of the socket buffer
	SendError  error // the last reason for which the kernel refused a packet, or nil
}
