package qp

import "github.com/gantry-rdma/gantry/roce"

// A step is what the Responder does next with the request in hand.
type step uint8

const (
	stepDone        step = iota
	stepSequence         // expected, early, or late?
	stepOpcode           // may it come now, and from this peer?
	stepReceive          // take a receive, if it uses one up
	stepLength           // does it fit the MTU, its message, the receive?
	stepKey              // may the memory that it names be used?
	stepExecute          // do what it asks for
	stepComplete         // complete the receive
	stepAcknowledge      // answer
	stepDuplicate        // answer what was executed before
	stepGap              // say what is missing
	stepNotReady         // say that there is no receive
	stepRefuse           // say that it cannot be, and fail
)

var stepNames = [...]string{
	"done", "sequence", "opcode", "receive", "length", "key", "execute", "complete", "acknowledge",
	"duplicate", "gap", "not-ready", "refuse",
}

// String returns the step's name.
func (s step) String() string { return stepNames[s] }

// A refusal is what the peer is told, and how a receive that is in use ends.
type refusal struct {
	nak  roce.Syndrome // 0: the peer is told nothing
	recv Status
}

// The reasons to refuse a request (IBTA Vol 1, 9.7.5.2).
var (
	badRequest  = refusal{roce.NakInvalidRequest, StatusRemInvRequest}
	noAccess    = refusal{roce.NakRemoteAccess, StatusRemAccess}
	tooLong     = refusal{roce.NakInvalidRequest, StatusLocLen}
	badReceive  = refusal{roce.NakRemoteOperational, StatusLocQPOp}
	badInvalKey = refusal{0, StatusRemInvRequest}
)

// maxMessage is the longest message there is, in bytes.
const maxMessage = 1 << 31

// no notes why the request in hand is refused.
func (r *Responder) no(why refusal) step {
	r.packet.reason = why
	return stepRefuse
}

// checkSequence compares with the one PSN that is expected. What lies behind it
// by no more than half the circle was executed before.
func (r *Responder) checkSequence() step {
	switch d := r.packet.psn.Sub(r.expected); {
	case d > 0:
		return stepGap
	case d < 0 && d+r.packet.train > 0:
		p := &r.packet
		p.psn, p.train = r.expected, p.train+d
		p.behead(-d*r.mtu, &r.rest)
	case d < 0:
		return stepDuplicate
	}
	r.came()
	return stepOpcode
}

// came takes note that what was expected has come.
func (r *Responder) came() {
	r.gapTold = false
	if !r.met {
		r.met = true
		r.env.Raise(CommEstablished)
	}
}

// checkOpcode asks whether the request continues what was begun, and whether
// the queue pair lets the peer do such a thing at all. The specification wants
// a missing right answered as an access error; the kernel's driver says
// invalid request.
func (r *Responder) checkOpcode() step {
	p := &r.packet
	follows := noMessage
	if !p.has(roce.IsStart) {
		follows = sendMessage
		if p.has(roce.IsWrite) {
			follows = writeMessage
		}
	}
	if r.inside != follows {
		return r.no(badRequest)
	}
	var need Access
	switch {
	case p.has(roce.IsSend):
		return stepReceive
	case p.has(roce.IsWrite):
		need = RemoteWrite
	case p.has(roce.IsRead):
		need = RemoteRead
	case p.has(roce.IsAtomic):
		need = RemoteAtomic
	case p.has(roce.IsAtomicWrite):
		need = RemoteWrite
	case p.has(roce.IsFlush):
		return r.checkFlush()
	default:
		return r.no(badRequest)
	}
	if r.cfg.Access&need == 0 {
		return r.no(noAccess)
	}
	if !p.has(roce.IsWrite) && !r.saved.allow(p.psn) {
		return r.no(badRequest)
	}
	return stepReceive
}

// takeReceive takes a receive for a request that uses one up: a SEND with its
// first packet, a WRITE with immediate data with its last.
func (r *Responder) takeReceive() step {
	if !r.packet.has(roce.TakesReceive) {
		return stepLength
	}
	if !r.openReceive() {
		return stepNotReady
	}
	return stepLength
}

// openReceive takes a receive, unless one is in use, and reports whether there
// is one.
func (r *Responder) openReceive() bool {
	if r.recv != nil {
		return true
	}
	if r.recv = r.env.TakeReceive(); r.recv == nil {
		return false
	}
	r.place, r.room = place{}, 0
	for i := range r.recv.SG {
		r.room += uint64(r.recv.SG[i].Len)
	}
	return true
}

// checkLength holds a packet to the MTU and to what is left of its message:
// FIRST and MIDDLE carry exactly the MTU, LAST at least a byte, and a WRITE
// announces how much there will be.
func (r *Responder) checkLength() step {
	p := &r.packet
	n := p.n
	if n > r.mtu*p.train || p.h.BTH().Pad() != roce.PadFor(n) {
		return r.no(badRequest)
	}
	ends := p.has(roce.IsEnd)
	if !ends && n != r.mtu*p.train || ends && p.train != 1 || n == 0 && ends && p.is&(roce.IsStart|roce.HasPayload) == roce.HasPayload {
		return r.no(badRequest)
	}
	if p.has(roce.IsSend) {
		if p.has(roce.IsStart) {
			r.got = 0
		}
		if uint64(r.got)+uint64(n) > r.room {
			return r.no(tooLong)
		}
		return stepExecute // the keys of the receive are looked up as it is filled
	}
	if h := p.h.RETH(); h != nil {
		if h.DMALen() > maxMessage && !p.has(roce.IsFlush) {
			return r.no(badRequest)
		}
		if p.has(roce.IsWrite) {
			r.write, r.got = target{h.VA(), h.RKey(), h.DMALen()}, h.DMALen()
		}
	}
	if p.has(roce.IsWrite) && (ends && uint32(n) != r.write.left || !ends && uint32(n) >= r.write.left) {
		return r.no(badRequest)
	}
	return stepKey
}

// checkKey looks the memory up that the request names: all of it when a
// message begins, and again the piece of each packet. An empty message names
// none (IBTA Vol 1, C9-88).
func (r *Responder) checkKey() step {
	p := &r.packet
	switch {
	case p.has(roce.IsWrite):
		n := uint32(p.n)
		if p.has(roce.IsStart) {
			n = r.write.left
		}
		return r.lookUp(target{r.write.va, r.write.rkey, n}, RemoteWrite)
	case p.has(roce.IsRead):
		h := p.h.RETH()
		return r.lookUp(target{h.VA(), h.RKey(), h.DMALen()}, RemoteRead)
	case p.has(roce.IsAtomic):
	case p.has(roce.IsAtomicWrite):
		return r.checkAtomicWrite()
	default: // the device looks up the memory of a FLUSH
		return stepExecute
	}
	h := p.h.AtomicETH()
	if h.VA()%8 != 0 {
		return r.no(badRequest)
	}
	return r.lookUp(target{h.VA(), h.RKey(), 8}, RemoteAtomic)
}

// lookUp finds the memory of t for the packet in hand.
func (r *Responder) lookUp(t target, need Access) step {
	n := int(t.left)
	if n == 0 {
		return stepExecute
	}
	mem, ok := r.env.Remote(t.rkey, t.va, n, need)
	if n < 0 || !ok { // below zero: 2^31 where int has 32 bits
		return r.no(noAccess)
	}
	r.packet.mem = mem
	return stepExecute
}
