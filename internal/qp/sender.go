package qp

import (
	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// A SenderConfig is what modifying a queue pair to ready-to-send settles.
type SenderConfig struct {
	Transport    roce.Transport // RC
	QPN          uint32         // the local queue pair
	DestQPN      uint32         // the peer
	MTU          roce.MTU       // of the path
	PSN          roce.PSN       // of the first packet
	Timeout      uint8          // 4.096 us << Timeout; 0: wait for ever
	RetryCount   uint8          // 0 to 7
	RNRRetry     uint8          // 0 to 7; 7: for ever
	MaxRdAtomic  uint8          // READs and atomics outstanding at most
	SignalAll    bool           // every request completes with an entry
	EndlessRetry bool           // RetryCount 7 means for ever, as the kernel's driver has it

	MaxWindow int     // most packets outstanding; 0: DefaultWindow
	Probe     Instant // shortest wait before asking for a late answer; 0: never ask
}

// DefaultWindow is how many packets may be outstanding where a SenderConfig
// does not say.
const DefaultWindow = 512

// DefaultProbe is a good SenderConfig.Probe: 200 us.
const DefaultProbe Instant = 200_000

// A Sender is the requester and the completer of one queue pair.
type Sender struct {
	env Env
	q   *SendQueue
	cfg SenderConfig
}

// Init prepares a Sender for its life with an Env and a queue. It is Stopped.
func (s *Sender) Init(env Env, q *SendQueue) { s.env, s.q = env, q }

// Start begins to execute the queue. A Sender starts Stopped.
func (s *Sender) Start(c SenderConfig) { s.cfg = c }

// Receive takes one response. The frame is the caller's again when it returns.
func (s *Sender) Receive(f *frame.Frame, now Instant) {}

// Step sends up to budget packets, acts upon a deadline that is over, and
// completes what can be completed. It reports whether more could be done at
// once.
func (s *Sender) Step(now Instant, budget int) (more bool) { return false }

// Deadline returns when Step is to be called at the latest; 0: no need.
func (s *Sender) Deadline() Instant { return 0 }

// FrameBack takes note that a frame is back. It may be called from any
// goroutine. It reports whether a request waited for that, so that the
// Sender's work item has to be woken.
func (s *Sender) FrameBack(f *frame.Frame) (wake bool) { return false }

// State returns what the Sender does.
func (s *Sender) State() State { return Stopped }

// Drain lets no further request begin, and raises SendQueueDrained when those
// that began are completed. Resume ends that.
func (s *Sender) Drain() {}

// Resume lets requests begin again after Drain.
func (s *Sender) Resume() {}

// Fail goes to the error state: what is queued or will be is flushed by Step.
func (s *Sender) Fail() {}

// Reset forgets all requests without completing them, and stops.
func (s *Sender) Reset() {}

// SetTrace sets whom to tell about each step; nil: nobody.
func (s *Sender) SetTrace(t Trace) {}
