// Package link moves frames in and out, in batches: between two devices of one
// process through memory, or over UDP. Wrappers around a link inject faults
// and write captures.
package link

import "github.com/gantry-rdma/gantry/internal/frame"

// A Link carries the frames of one device.
//
// Send and Give may be called from any goroutine. Recv is called by one
// goroutine at a time: the order in which it returns frames is the order of
// their arrival.
type Link interface {
	// Send takes frames over, in order, and returns how many: less than all
	// when a queue is full. A frame that was taken comes back through
	// Frame.Back, sooner (copied, or sent) or later (its receiver is done).
	Send(frames []*frame.Frame) (taken int)

	// Recv fills frames with what arrived, and returns how many, at once.
	Recv(frames []*frame.Frame) int

	// Give returns frames that came from Recv.
	Give(frames []*frame.Frame)

	// Wait blocks until Recv has something or the link is closed (false).
	// For a receive goroutine; a polled link needs it not.
	Wait() bool

	// OnReady sets what to call when frames may have become receivable on a
	// link that has no descriptor: any goroutine, must not block.
	OnReady(f func())

	// Local is the address that peers send to.
	Local() frame.Addr

	// MTU is the largest RoCE payload of a packet: 256 to 4096 bytes.
	MTU() int

	// Pollable returns a descriptor that is readable when Recv has something.
	Pollable() (fd int, ok bool)

	// Close ends the link. Frames that are out come back.
	Close() error
}
