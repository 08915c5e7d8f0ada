package qp

import (
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// An Op is what a work request asks for.
type Op uint8

// The operations of a send queue.
const (
	OpSend Op = iota
	OpSendImm
	OpSendInv
	OpWrite
	OpWriteImm
	OpRead
	OpCompareSwap
	OpFetchAdd
	OpAtomicWrite
	OpFlush
	OpLocalInv // from here on without a packet
	OpBindMW
	opCount

	// The operations that only completions of receives have.
	OpRecv         = opCount + iota
	OpRecvWriteImm // a WRITE with immediate data used the receive up
)

// Flags say how a work request is executed, or what a completion holds.
type Flags uint8

// The flags of work requests.
const (
	Signaled  Flags = 1 << iota // completes with an entry in the completion queue
	Solicited                   // raises an event at a peer that waits for solicited ones
	Fence                       // starts when all earlier READs, atomics and FLUSHes are done
	Inline                      // the bytes are in the request, not in scatter entries
)

// An SGE is one piece of registered memory.
type SGE struct {
	Addr uint64
	Len  uint32
	LKey uint32
}

// A WQE is a work request in its slot of a [SendQueue].
//
// Who reserved the slot fills the exported fields until it publishes; then the
// Sender has it until the request completed. What a SEND or WRITE needs comes
// first, in two lines of memory: with thousands of queue pairs each line is far
// away.
type WQE struct {
	ID         uint64 // comes back in the completion
	RemoteAddr uint64
	SG         []SGE // set by the poster, within the capacity it came with
	RKey       uint32
	Imm        uint32 // immediate data, or the key to invalidate here or there
	Len        uint32 // bytes of the message: the sum over SG or Inline; 8 for atomics; of a FLUSH, its range
	Op         Op
	Flags      Flags

	state  wqeState      // where the request is
	status Status        // why it failed
	out    uint32        // frames that ever referred to the slot's memory
	back   atomic.Uint32 // how many of them are back

	first, end int64         // the packets of the message, end excluded
	awaited    atomic.Uint32 // how many frames the Sender waits for; 0: it does not wait
	piece      int32         // packets of one READ request
	one        [1]SGE        // what SG lies in, if there is never more
	Data       []byte        // with Inline: the bytes, within the capacity it came with

	Compare   uint64          // of atomics alone, COMPARE SWAP: what must be there
	SwapAdd   uint64          // COMPARE SWAP: what is put there; FETCH ADD: what is added
	Placement roce.Placement  // FLUSH: how far it reaches
	Level     roce.FlushLevel // FLUSH: the range, or the whole region

	// Of datagrams alone.
	Peer    frame.Addr // the address they go to, with its port
	TOS     uint8      // traffic class; 0: what the system has
	TTL     uint8      // hop limit; 0: what the system has
	DestQPN uint32     // the queue pair there, or all ones for a multicast group
	QKey    uint32     // of that queue pair; with the top bit: that of our own is used

	Bind Binding // of BIND MW alone
}

// A Binding is what a bind of a memory window asks for.
type Binding struct {
	Window uint32 // the key that the window has
	Key    uint32 // the key that it gets
	LKey   uint32 // the region
	Access Access // what peers may do through the window
	Addr   uint64 // where the window begins
	Len    uint64 // bytes; 0 takes a window of type 1 away
}

// A RecvWQE is a posted receive. It belongs to the device; the Responder has
// it from TakeReceive until it completes it or gives it up.
type RecvWQE struct {
	ID  uint64
	SG  []SGE
	one [1]SGE // what SG lies in, if there is never more
}

// NewReceives returns n slots, each with room for that many scatter entries.
func NewReceives(n, sges int) []RecvWQE {
	slots := make([]RecvWQE, n)
	if sges <= 1 {
		for i := range slots {
			slots[i].SG = slots[i].one[:0:sges]
		}
		return slots
	}
	sg := make([]SGE, n*sges)
	for i := range slots {
		slots[i].SG = sg[i*sges : i*sges : (i+1)*sges]
	}
	return slots
}

// A CQE is the completion of a work request.
//
// With any status but success, only ID, Status and QPN mean something.
type CQE struct {
	ID        uint64
	QPN       uint32 // the local queue pair
	SrcQP     uint32 // the peer, of receives: of a datagram, the one that sent it
	ByteLen   uint32 // bytes received, read, or swapped
	Imm       uint32 // immediate data, or the key that was invalidated
	Status    Status
	Op        Op
	WithImm   bool
	WithInv   bool
	WithGRH   bool // the receive begins with 40 bytes of GRH, which ByteLen counts
	Solicited bool // raises an event where solicited ones are waited for
}

// Copy makes e a copy of from, field by field: a CPU that has just written the
// fields one by one would wait for them if it read them all together.
func (e *CQE) Copy(from *CQE) {
	e.ID, e.QPN, e.SrcQP, e.ByteLen, e.Imm = from.ID, from.QPN, from.SrcQP, from.ByteLen, from.Imm
	e.Status, e.Op, e.WithImm, e.WithInv = from.Status, from.Op, from.WithImm, from.WithInv
	e.WithGRH, e.Solicited = from.WithGRH, from.Solicited
}
