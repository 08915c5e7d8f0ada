package qp

import (
	"math/bits"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// A SenderConfig is what modifying a queue pair to ready-to-send settles.
type SenderConfig struct {
	Transport    roce.Transport // RC, UC or UD
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
	QKey         uint32         // UD: of the local queue pair
	Sparing      bool           // requests without an entry ask for an answer only now and then: see sparing.go

	MaxWindow int     // most packets outstanding; 0: DefaultWindow
	MaxTrain  int     // most MIDDLE packets in one frame; 0: one
	Probe     Instant // shortest wait before asking for a late answer; 0: never ask
}

// DefaultWindow is how many packets may be outstanding where a SenderConfig
// does not say.
const DefaultWindow = 512

// DefaultProbe is a good SenderConfig.Probe: 200 us.
const DefaultProbe Instant = 200_000

// A Sender is the requester and the completer of one queue pair. It is called
// by one goroutine at a time, the send item of the queue pair; FrameBack alone
// may come from any.
//
// The zero Sender needs Init, and must not be copied then.
type Sender struct {
	env   Env
	q     *SendQueue
	slots []WQE // of q, here so that to find a request does not take the line that posts write
	trace Trace
	cfg   SenderConfig
	mtu   int
	shift uint8 // the MTU is 1 << shift
	state State
	mute  bool // the completion queue is lost: complete nothing more

	asking uint8  // requests that ask for an answer although they need not
	spared uint32 // requests sent since the last that asked
	now    Instant

	// Packets are counted without wrapping; see psnOf.
	una  int64  // the oldest that is not acknowledged
	high int64  // one after the newest that was ever sent
	at   cursor // the next to send: una when all is to be sent again

	head  uint32 // the oldest request that is not completed
	acked uint32 // the oldest that is not acknowledged
	tail  uint32 // one after the newest that was posted

	reads int   // READs, atomics and FLUSHes sent and not answered
	bound int   // binds executed and not passed by acked
	asked int64 // the newest packet that asked for an acknowledgement
	quiet int   // packets sent since
	took  int   // packets that the last step sent

	rest [1][]byte // payload of a response, if a head was taken off

	window window
	retry  retry
	pace   pace
	fill   landing // where READ data goes
	wait   Wait
	since  Feedback // the last one

	cqe CQE
}

// A cursor is a position in the send queue.
type cursor struct {
	seq   int64  // the packet
	wqe   uint32 // the request it belongs to
	place place  // where its payload begins
}

// Init prepares a Sender for its life with an Env and a queue. It is Stopped.
func (s *Sender) Init(env Env, q *SendQueue) { s.env, s.q, s.slots = env, q, q.slots }

// clock returns what time it is in this Step or Receive.
func (s *Sender) clock() Instant {
	if s.now == 0 {
		s.now = s.env.Now()
	}
	return s.now
}

// slot returns the slot with that running number.
func (s *Sender) slot(n uint32) *WQE { return &s.slots[n&uint32(len(s.slots)-1)] }

// Start begins to execute the queue. A Sender starts Stopped.
func (s *Sender) Start(c SenderConfig) {
	s.cfg, s.mtu, s.state = c, c.MTU.Bytes(), Running
	s.shift = uint8(bits.TrailingZeros(uint(s.mtu)))
	if s.cfg.MaxWindow == 0 {
		s.cfg.MaxWindow = DefaultWindow
	}
	s.una = int64(c.PSN)
	s.high, s.at.seq, s.asked = s.una, s.una, s.una-1
	s.window.open(s.cfg.MaxWindow)
	s.retry.probed = none
	s.retry.refill(&s.cfg)
	s.pace.stop()
	s.asking, s.spared = 0, 0
}

// State returns what the Sender does.
func (s *Sender) State() State { return s.state }

// Waiting returns why the last Step sent no more.
func (s *Sender) Waiting() Wait { return s.wait }

// Window returns how many packets may be outstanding now.
func (s *Sender) Window() int { return s.window.size() }

// A Feedback is what a Sender has learned of its path.
type Feedback struct {
	Out   int     // packets outstanding
	Acked int     // packets acknowledged since the last Feedback
	Lost  bool    // packets were lost since then
	Trip  Instant // the smoothed round trip; 0: not known
}

// Feedback returns what was learned since it was last called.
func (s *Sender) Feedback() Feedback {
	f := s.since
	s.since = Feedback{}
	if s.state != Failed && s.state != Stopped {
		f.Out, f.Trip = int(s.at.seq-s.una), s.pace.trip
	}
	return f
}

// NextPSN returns the sequence number of the next new packet.
func (s *Sender) NextPSN() roce.PSN { return psnOf(s.high) }

// SetTrace sets whom to tell about each step; nil: nobody.
func (s *Sender) SetTrace(t Trace) { s.trace = t }

// Step sends up to budget packets, acts upon a deadline that is over, and
// completes what can be completed. It reports whether more could be done at
// once. Where now is 0 the Sender asks Env.Now, if it has to know the time.
func (s *Sender) Step(now Instant, budget int) (more bool) {
	if s.state == Stopped {
		return false
	}
	s.now = now
	s.tail = s.q.tail.Load()
	if s.cfg.Transport != roce.RC {
		return s.stepUnreliable(budget)
	}
	if s.state != Failed {
		s.window.cap = s.env.WindowCap()
		s.expire()
		if more = s.request(budget); s.wait == WaitEarlier || s.state == Draining {
			s.hurry()
		}
	}
	s.reap()
	s.drained()
	return more
}

// Free frees the slots of the requests that are completed. Step and Receive do
// so at their end; an Env that shows completions earlier calls it before.
func (s *Sender) Free() {
	if s.q.head.Load() != s.head {
		s.q.head.Store(s.head)
	}
}

// Drain lets no further request begin, and raises SendQueueDrained when those
// that began are completed. Resume ends that.
func (s *Sender) Drain() {
	if s.state == Running {
		s.state = Draining
	}
}

// Resume lets requests begin again after Drain.
func (s *Sender) Resume() {
	if s.state == Draining || s.state == Drained {
		s.state = Running
	}
}

// Change takes over from c what may change while the queue is drained: Timeout,
// RetryCount, RNRRetry, MaxRdAtomic and Probe. They count for what is sent from
// now on.
func (s *Sender) Change(c SenderConfig) {
	o := &s.cfg
	o.Timeout, o.RetryCount, o.RNRRetry = c.Timeout, c.RetryCount, c.RNRRetry
	o.MaxRdAtomic, o.Probe = c.MaxRdAtomic, c.Probe
	s.retry.refill(o)
}

// Redirected forgets how much the path carries and how long it is: it leads
// elsewhere now. The queue is drained.
func (s *Sender) Redirected() {
	s.window.open(s.cfg.MaxWindow)
	s.pace.trip, s.pace.spread, s.pace.timed = 0, 0, none
}

// Fail goes to the error state: what is queued or will be is flushed by Step.
func (s *Sender) Fail() {
	if s.state != Stopped {
		s.state = Failed
		s.pace.stop()
	}
}

// Reset forgets all requests without completing them, and stops. Frames may
// still be out: their slots count on. Nobody may post meanwhile.
func (s *Sender) Reset() {
	s.tail = s.q.tail.Load()
	for n := s.head; n != s.tail; n++ {
		s.slot(n).state = wqePosted
	}
	s.q.head.Store(s.tail)
	*s = Sender{env: s.env, q: s.q, slots: s.slots, trace: s.trace, head: s.tail, acked: s.tail, tail: s.tail,
		at: cursor{wqe: s.tail}}
}

// drained tells when a drain is complete: nothing that began is left.
func (s *Sender) drained() {
	if s.state == Draining && s.head == s.at.wqe && s.begun() == nil {
		s.state = Drained
		s.env.Raise(SendQueueDrained)
	}
}

// begun returns the request at the cursor if a packet of it was sent.
func (s *Sender) begun() *WQE {
	if s.at.wqe == s.tail {
		return nil
	}
	if w := s.slot(s.at.wqe); w.state != wqePosted {
		return w
	}
	return nil
}

// noRequest is the Token of a frame into no request's memory.
const noRequest = ^uint64(0)

// FrameBack takes note that a frame is back. It may be called from any
// goroutine. It reports whether a request waited for that, so that the
// Sender's work item has to be woken.
func (s *Sender) FrameBack(f *frame.Frame) (wake bool) {
	if f.Token == noRequest {
		return false
	}
	w := s.slot(uint32(f.Token))
	n := w.back.Add(1)
	return n == w.awaited.Load()
}

// FrameBackHere is FrameBack for who may call the other methods too: it costs
// no atomic write.
func (s *Sender) FrameBackHere(f *frame.Frame) (wake bool) {
	if f.Token == noRequest {
		return false
	}
	w := s.slot(uint32(f.Token))
	w.out--
	if w.awaited.Load() == 0 {
		return false
	}
	w.awaited.Store(w.out) // of what may come back elsewhere, less is awaited now
	return true
}

// idle reports whether no frame refers to the memory of w. If one does, the
// last FrameBack will say so: it counts first and looks at what is awaited
// then, and here it is the other way round, so that one of the two sees the
// other. The counts of a slot run on from request to request.
func (w *WQE) idle() bool {
	if w.back.Load() == w.out {
		return true
	}
	w.awaited.Store(w.out)
	if w.back.Load() != w.out {
		return false
	}
	w.awaited.Store(0) // the last one came back in between
	return true
}

// psnOf folds a packet's number into the 24 bits of the wire.
func psnOf(seq int64) roce.PSN { return roce.NewPSN(uint32(seq)) }
