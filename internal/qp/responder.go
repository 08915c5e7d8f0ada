package qp

import (
	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// A ResponderConfig is what modifying a queue pair to ready-to-receive settles.
type ResponderConfig struct {
	Transport       roce.Transport // RC
	QPN             uint32         // the local queue pair
	DestQPN         uint32         // the peer
	MTU             roce.MTU       // of the path
	PSN             roce.PSN       // of the first packet that is expected
	MaxDestRdAtomic uint8          // READs and atomics that are remembered, at most MaxResources
	MinRNRTimer     roce.RNRTimer  // how long a peer waits when no receive is posted
	Access          Access         // what the peer may do: RemoteWrite, RemoteRead, RemoteAtomic
	SharedReceive   bool           // receives come from a shared queue, and are not flushed
}

// A Responder executes the peer's requests of one queue pair.
type Responder struct {
	env Env
	cfg ResponderConfig
}

// Init prepares a Responder for its life with an Env, and with room to
// remember that many READs and atomics. It is Stopped.
func (r *Responder) Init(env Env, resources int) { r.env = env }

// Start begins to take requests. A Responder starts Stopped.
func (r *Responder) Start(c ResponderConfig) { r.cfg = c }

// Receive takes one request, and reports whether it is done with it: the frame
// is the caller's again. If not, nothing happened, because an earlier request
// is still being answered: the caller keeps the frame, and hands it in again
// after Step.
func (r *Responder) Receive(f *frame.Frame, now Instant) (done bool) { return true }

// Step sends what answers are due, up to budget packets. It belongs after the
// last Receive of a run, because acknowledgements wait for it. It reports
// whether more could be done at once.
func (r *Responder) Step(now Instant, budget int) (more bool) { return false }

// State returns what the Responder does.
func (r *Responder) State() State { return Stopped }

// SetAccess changes what the peer may do.
func (r *Responder) SetAccess(a Access) {}

// SetMinRNRTimer changes how long a peer is told to wait.
func (r *Responder) SetMinRNRTimer(t roce.RNRTimer) {}

// Fail goes to the error state: requests are dropped, receives are flushed by
// Step.
func (r *Responder) Fail() {}

// Reset forgets everything, a receive in use included, and stops.
func (r *Responder) Reset() {}

// SetTrace sets whom to tell about each step; nil: nobody.
func (r *Responder) SetTrace(t Trace) {}
