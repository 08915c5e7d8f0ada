package qp

import (
	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// An Instant is a point in time: nanoseconds of a monotonic clock, above zero.
// Zero is no time at all. A difference of two is an Instant too.
type Instant int64

// An Env is the device around a queue pair: all that the two machines of it ask
// for. The Sender and the Responder call it only from within their own
// methods, each on the goroutine of its own work item, so both may call it at
// the same time. No method may call back into the machine, but for Sender.Free.
//
// Pointers that are handed in are valid during the call only.
type Env interface {
	// Frame takes a free frame, empty and with room in Payload for as many
	// segments as the queue pair has scatter entries. nil: there is none, and
	// the half that asked is to be woken when there is one.
	Frame() *frame.Frame

	// Emit takes over a frame that is ready to go to the peer: headers,
	// Payload, Len, Pad and Token are set. Peer is set by UD alone, each
	// datagram having its own; the other transports leave it to the device.
	// Frames of one half leave in the order of their Emit.
	Emit(f *frame.Frame)

	// Local returns the n bytes at addr of the region with that key, if it is
	// valid, in the domain of the queue pair, and may be written where write
	// is set. n is above zero.
	Local(lkey uint32, addr uint64, n int, write bool) ([]byte, bool)

	// Remote returns the n bytes at addr of the region with that key, if it
	// is valid, in the domain of the queue pair, and grants need. n is above
	// zero; the check must hold for the whole range.
	Remote(rkey uint32, addr uint64, n int, need Access) ([]byte, bool)

	// Atomic executes a COMPARE SWAP, FETCH ADD or ATOMIC WRITE on the 8
	// aligned bytes of mem, a number in the machine's byte order, under the
	// lock that all atomics of the device share. An ATOMIC WRITE stores
	// swapAdd, in one piece. It returns what was there before.
	Atomic(mem []byte, op Op, compare, swapAdd uint64) (before uint64)

	// Flush makes what was written into memory visible to all or safe from a
	// loss of power, and returns when it is. false: the key is not valid, not
	// in the domain of the queue pair, does not grant t.Need, does not cover
	// the range, or the memory cannot be made safe.
	Flush(t *FlushTarget) bool

	// BindWindow gives a memory window to a piece of a region, or takes it
	// away. Both are in the domain of the queue pair; a window of type 2 then
	// counts for this queue pair alone. false: it may not be.
	BindWindow(b *Binding) bool

	// InvalidateLocal makes a key of the queue pair's domain invalid, for the
	// local request; InvalidateRemote does, for a peer's SEND. The key of a
	// window of type 2 is that of a window bound to this queue pair.
	InvalidateLocal(key uint32) bool
	InvalidateRemote(rkey uint32) bool

	// TakeReceive takes the oldest posted receive, of the queue pair's own
	// queue or of the shared one. nil: there is none, or the shared queue is
	// in error; the peer is asked to come again.
	//
	// The receive is the Responder's, which has one at a time, until it is
	// handed in again, exactly once: through CompleteReceive, or through
	// GiveUpReceive by Reset. What several queue pairs took from one shared
	// queue comes back in any order.
	TakeReceive() *RecvWQE

	// Waiting returns the requests that have arrived and that the Responder is
	// not done with, linked by Next from the oldest on, if there are more than n
	// of them; else it may return nil. The one that Receive was called with is
	// among them.
	Waiting(n int) *frame.Frame

	// GiveUpReceive takes back a receive that will never be completed: the
	// queue pair is being reset.
	GiveUpReceive(w *RecvWQE)

	// CompleteSend and CompleteReceive put an entry into the completion queue
	// of that half. false: the queue is full, and the queue pair is lost. The
	// receive w is the device's again, either way. Who sees the completion of a
	// send may post the next one at once: before it is shown, call Sender.Free.
	CompleteSend(e *CQE) bool
	CompleteReceive(w *RecvWQE, e *CQE) bool

	// Now returns what time it is: the same until the end of the Step. To read a
	// clock costs as much as half a message, and few messages need one.
	Now() Instant

	// Near returns the Responder of the queue pair with that number at the
	// other end, if whoever runs the Sender may call it too until the end of
	// the Step, and nothing is between the two; else nil. It is for the Sender
	// alone: see express.go.
	Near(qpn uint32) *Responder

	// Try is Remote if need has RemoteWrite, and Local if not. It counts
	// nothing, and need not open all that those do: who gets nothing asks them.
	Try(key uint32, addr uint64, n int, need Access) ([]byte, bool)

	// Handed counts a message that went whole: as so many packets, with that
	// opcode if it is one, and so many bytes of payload and pad.
	Handed(only roce.Opcode, packets, bytes int)

	// WindowCap is the most packets that the queue pair may have outstanding:
	// its share of what the device may. The Sender asks once per Step.
	WindowCap() int

	// Raise reports an asynchronous event.
	Raise(e Event)

	// Fatal says that the queue pair has to go to the error state, and why.
	// The half that calls it is there already; the device is to call Fail of
	// the other one, on its own work item.
	Fatal(s Status)

	// Count counts something that is worth a counter.
	Count(c Counter)
}

// Access says what may be done to memory, in the bits that verbs have.
type Access uint16

// The rights.
const (
	LocalWrite            Access = 1 << 0
	RemoteWrite           Access = 1 << 1 // ATOMIC WRITE, too
	RemoteRead            Access = 1 << 2
	RemoteAtomic          Access = 1 << 3
	BindWindow            Access = 1 << 4 // windows may be bound to the region
	RemoteFlushGlobal     Access = 1 << 8
	RemoteFlushPersistent Access = 1 << 9
)

// An Event is what an Env is told through Raise.
type Event uint8

// The events.
const (
	CommEstablished Event = iota // the first request was taken
	SendQueueDrained
	LastWQEReached // with a shared receive queue: no receive of it is in use
)

var eventNames = [...]string{"COMM_EST", "SQ_DRAINED", "QP_LAST_WQE_REACHED"}

// String returns the event's name in verbs.
func (e Event) String() string { return eventNames[e] }

// A Counter is something that an Env is told to count.
type Counter uint8

// The counters: those of the kernel's driver first, then one for each reason
// for which a machine drops a packet.
const (
	CountDuplicate      Counter = iota // request that was executed before
	CountOutOfSequence                 // request from after a gap
	CountSentRNR                       // RNR NAK sent
	CountReceivedRNR                   // RNR NAK received
	CountReceivedSeqNak                // sequence NAK received
	CountRetry                         // went back to the oldest packet that is not acknowledged
	CountTimeout                       // ... because of the timer
	CountProbe                         // asked for an answer that is late
	CountRetryExceeded
	CountRNRRetryExceeded
	CountAckDeferred   // acknowledgement merged with a later one
	CountDropGhost     // response to nothing that is outstanding
	CountDropStale     // response to what was answered before, or a NAK acted upon
	CountDropGap       // request from after a gap that was reported before
	CountDropReplay    // duplicate READ or atomic that is no longer known
	CountDropState     // the machine takes no packets in its state
	CountDropMalformed // not a packet that this half may get

	// Those of unreliable transports, which tell the peer nothing.
	CountDropLate      // from before what arrived already
	CountDropOrder     // begins in the middle of a message
	CountDropRest      // of a message whose other packets are lost or were dropped
	CountDropNoReceive // no receive is posted
	CountDropTooLong   // does not fit the receive
	CountDropAccess    // a WRITE that the queue pair or its key does not allow
	CountDropQKey      // another Q_Key: the Q_Key violation counter
	CountUnsentTooLong // datagram that is longer than a packet: completed, and not sent
	Counters           // how many there are
)

var counterNames = [...]string{
	"duplicate_request", "out_of_seq_request", "send_rnr_err", "rcvd_rnr_err", "rcvd_seq_err",
	"completer_retry_err", "timeout", "probe", "retry_exceeded_err", "retry_rnr_exceeded_err", "ack_deferred",
	"drop_ghost", "drop_stale", "drop_gap", "drop_replay", "drop_state", "drop_malformed",
	"drop_late", "drop_order", "drop_rest", "drop_no_receive", "drop_too_long", "drop_access", "drop_qkey",
	"unsent_too_long",
}

// String returns the counter's name.
func (c Counter) String() string { return counterNames[c] }

// A Trace is told what a machine does, for tests and diagnosis.
type Trace func(step string, psn roce.PSN)
