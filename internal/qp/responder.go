package qp

import (
	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// The journey of a request through the Responder:
//
//  1. The device hands in one frame after the other, in the order of their
//     arrival. While an earlier request is still being answered, it has to
//     keep the next one.
//  2. The sequence number says whether it is the expected request, one from
//     after a gap (NAK, once), or one that was executed before (duplicates.go).
//  3. What it is must fit what came before it, the rights of the queue pair,
//     the MTU, and the memory it names. Else it is refused: a NAK, and the end
//     of the connection.
//  4. If it uses up a receive, one is taken; if there is none, the peer is
//     told to come again.
//  5. It is executed: payload goes straight to its target (execute.go), a READ
//     begins to be answered (resources.go), an atomic, an ATOMIC WRITE
//     (atomicwrite.go) and a FLUSH (flush.go) are.
//  6. The expected number moves on, a receive that is full completes.
//  7. The answer is owed, and leaves at once or with Step (answer.go):
//     acknowledgements of one run are merged, all answers keep their order.

// A ResponderConfig is what modifying a queue pair to ready-to-receive settles.
type ResponderConfig struct {
	Transport       roce.Transport // RC, UC or UD
	QPN             uint32         // the local queue pair
	DestQPN         uint32         // the peer
	MTU             roce.MTU       // of the path
	PSN             roce.PSN       // of the first packet that is expected
	MaxDestRdAtomic uint8          // READs, atomics and ATOMIC WRITEs that the peer may have outstanding, and that are remembered; not above what Init was told
	MinRNRTimer     roce.RNRTimer  // how long a peer waits when no receive is posted
	Access          Access         // what the peer may do: the rights that begin with Remote
	MaxTrain        int            // most MIDDLE packets of a READ's answer in one frame; 0: one
	SharedReceive   bool           // receives come from a shared queue, and are not flushed
	QKey            uint32         // UD: what a datagram must name
}

// A Responder executes the peer's requests of one queue pair. It is called by
// one goroutine at a time: the receive item of the queue pair. It alone owns
// the expected sequence number.
//
// The zero Responder needs Init, and must not be copied then.
type Responder struct {
	env   Env
	trace Trace
	cfg   ResponderConfig
	mtu   int
	state State

	expected roce.PSN // of the next request to execute
	plain    roce.PSN // the newest SEND or WRITE packet executed: what an ACK may name
	msn      uint32   // messages executed
	inside   message  // the message whose middle is expected
	gapTold  bool     // the peer was told that expected is missing
	met      bool     // a request was taken
	flushed  bool     // the end of a shared receive queue was reported

	recv     *RecvWQE    // in use
	room     uint64      // bytes that recv can hold
	got      uint32      // bytes of the message that arrived
	place    place       // where the next byte goes in recv
	write    target      // where the next byte of a WRITE goes
	packet   packet      // the request in hand
	rest     [1][]byte   // payload of it, if a head was taken off
	flushing FlushTarget // ... if it is a FLUSH

	saved   resources
	reading reading // a READ that is being answered
	answers answers // what is owed

	cqe    CQE
	origin origin // of datagrams
}

// A message is what kind of request has begun and not ended.
type message uint8

const (
	noMessage message = iota
	sendMessage
	writeMessage
	lostMessage // UC: the rest of it is dropped
)

// A target is remote memory that is left to be written or read.
type target struct {
	va   uint64
	rkey uint32
	left uint32 // bytes
}

// A packet is the request in hand, taken apart.
type packet struct {
	f     *frame.Frame
	h     roce.Headers
	is    roce.Traits
	psn   roce.PSN
	train int  // packets that the frame stands for
	ask   bool // acknowledge request
	body
	mem    []byte // the memory that the key check found
	reason refusal
}

// Init prepares a Responder for its life with an Env, and with room to
// remember that many READs and atomics. It is Stopped.
func (r *Responder) Init(env Env, resources int) {
	r.env = env
	r.saved.ring = make([]resource, resources)
}

// Start begins to take requests. A Responder starts Stopped.
func (r *Responder) Start(c ResponderConfig) {
	r.cfg, r.mtu, r.state = c, c.MTU.Bytes(), Running
	r.expected, r.plain = c.PSN, c.PSN.Add(-1)
	r.saved.limit = min(int(c.MaxDestRdAtomic), len(r.saved.ring))
}

// State returns what the Responder does.
func (r *Responder) State() State { return r.state }

// SetAccess changes what the peer may do.
func (r *Responder) SetAccess(a Access) { r.cfg.Access = a }

// SetMinRNRTimer changes how long a peer is told to wait.
func (r *Responder) SetMinRNRTimer(t roce.RNRTimer) { r.cfg.MinRNRTimer = t }

// SetMaxDestRdAtomic changes how many READs and atomics are remembered. The
// newest of those that were are still known.
func (r *Responder) SetMaxDestRdAtomic(n uint8) {
	r.cfg.MaxDestRdAtomic = n
	r.saved.resize(int(n))
}

// SetTrace sets whom to tell about each step; nil: nobody.
func (r *Responder) SetTrace(t Trace) { r.trace = t }

// Expected returns the sequence number of the next request to execute.
func (r *Responder) Expected() roce.PSN { return r.expected }

// Fail goes to the error state: requests are dropped, receives are flushed by
// Step. A NAK that is owed is still sent.
func (r *Responder) Fail() {
	r.state, r.inside = Failed, noMessage
	r.reading.active = false
}

// Reset forgets everything, gives up a receive in use, and stops.
func (r *Responder) Reset() {
	if r.recv != nil {
		r.env.GiveUpReceive(r.recv)
	}
	*r = Responder{env: r.env, trace: r.trace, saved: resources{ring: r.saved.ring}}
}

// Step sends what answers are due, up to budget packets. It belongs after the
// last Receive of a run, because acknowledgements wait for it. It reports
// whether more could be done at once. In the error state it flushes receives.
func (r *Responder) Step(now Instant, budget int) (more bool) {
	if r.state == Stopped {
		return false
	}
	more = r.answer(budget)
	if r.state == Failed {
		more = r.flush(budget) || more
	}
	return more
}

// Receive takes one request, and reports whether it is done with it: the frame
// is the caller's again. If not, nothing happened, because an earlier request
// is still being answered: the caller keeps the frame, and hands it in again
// after Step.
func (r *Responder) Receive(f *frame.Frame, now Instant) (done bool) {
	if r.state != Running {
		r.env.Count(CountDropState)
		return true
	}
	if r.cfg.Transport != roce.RC {
		return r.receiveUnreliable(f)
	}
	if r.busy() {
		return false
	}
	if !r.packet.parse(f, roce.RC) && !r.packet.parseReserved(f) {
		r.env.Count(CountDropMalformed)
		return true
	}
	for st := stepSequence; st != stepDone; {
		if r.trace != nil {
			r.trace(st.String(), r.packet.psn)
		}
		switch st {
		case stepSequence:
			st = r.checkSequence()
		case stepOpcode:
			st = r.checkOpcode()
		case stepReceive:
			st = r.takeReceive()
		case stepLength:
			st = r.checkLength()
		case stepKey:
			st = r.checkKey()
		case stepExecute:
			st = r.execute()
		case stepComplete:
			st = r.complete()
		case stepAcknowledge:
			st = r.acknowledge()
		case stepDuplicate:
			st = r.duplicate()
		case stepGap:
			st = r.tellGap()
		case stepNotReady:
			st = r.tellNotReady()
		case stepRefuse:
			st = r.refuse()
		}
	}
	r.packet.f, r.packet.mem = nil, nil
	return true
}

// parse takes a frame apart, and reports whether it is a request of the
// transport service at all.
func (p *packet) parse(f *frame.Frame, of roce.Transport) bool {
	h, _, ok := roce.ParseHeaders(f.Head[:min(int(f.HeadLen), len(f.Head))])
	if !ok || h.Opcode().Transport() != of {
		return false
	}
	is, b := h.Opcode().Traits(), h.BTH()
	if is&roce.IsRequest == 0 || f.Len != 0 && is&roce.HasPayload == 0 || f.Len < 0 {
		return false
	}
	p.f, p.h, p.is, p.psn, p.ask, p.mem = f, h, is, b.PSN(), b.AckReq(), nil
	p.train = f.Packets()
	p.body.of(f)
	return p.train == 1 || len(f.Payload) == 1
}

// parseReserved takes a frame apart whose opcode is reserved, and reports
// whether it is one of RC. Nothing is known of it but where it stands: it has no
// trait of any request, so it is refused when its turn comes, and is no
// duplicate of anything.
func (p *packet) parseReserved(f *frame.Frame) bool {
	if f.HeadLen < roce.BTHLen || int(f.HeadLen) > len(f.Head) || f.Len < 0 {
		return false
	}
	b := (*roce.BTH)(f.Head[:])
	if b.Version() != 0 || b.Opcode().Known() || b.Opcode().Transport() != roce.RC {
		return false
	}
	*p = packet{f: f, psn: b.PSN()}
	return true
}

// has reports whether the packet has all of these traits.
func (p *packet) has(all roce.Traits) bool { return p.is&all == all }
