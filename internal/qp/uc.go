package qp

import (
	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// The journey of a request through the Responder of an unreliable connection.
// It is that of a reliable one, with other ends:
//
//   - What is late is dropped. Anything else is the newest packet there is,
//     whatever may be missing before it.
//   - A message of which a packet is missing or cannot be executed is dropped,
//     to its end. Its receive stays in use for the next one. The peer hears
//     nothing.
//   - The first packet of a message always starts clean.
//   - Only what is the fault of this side ends the connection: a receive that
//     is too short, or that names memory which may not be used.

// lateWindow is how far behind the newest packet another one is taken as late,
// doubled or reordered by the network. What is farther behind is new: so many
// packets were lost that the numbers came round.
const lateWindow = 1 << 16

// SetQKey changes the Q_Key that datagrams must name from now on.
func (r *Responder) SetQKey(k uint32) { r.cfg.QKey = k }

// receiveUnreliable takes one request of a transport without answers. It is
// always done with it.
func (r *Responder) receiveUnreliable(f *frame.Frame) (done bool) {
	if r.cfg.Transport == roce.UD {
		r.receiveUD(f)
	} else {
		r.receiveUC(f)
	}
	return true
}

// receiveUC takes one request of an unreliable connection.
func (r *Responder) receiveUC(f *frame.Frame) {
	if !r.packet.parse(f, roce.UC) {
		r.env.Count(CountDropMalformed)
		return
	}
	for st := stepSequence; st != stepDone; {
		if r.trace != nil {
			r.trace(st.String(), r.packet.psn)
		}
		switch st {
		case stepSequence:
			st = r.resume()
		case stepOpcode:
			st = r.checkOrder()
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
		case stepNotReady:
			st = r.skip(CountDropNoReceive)
		case stepRefuse:
			st = r.refuseUnreliable()
		default: // stepAcknowledge: nobody waits for it
			st = stepDone
		}
	}
	r.packet.f, r.packet.mem = nil, nil
}

// resume makes the packet in hand the expected one, unless it is late. If any
// is missing before it, the message that was going on is lost.
func (r *Responder) resume() step {
	p := &r.packet
	switch d := p.psn.Sub(r.expected); {
	case d < 0 && d >= -lateWindow:
		r.env.Count(CountDropLate)
		return stepDone
	case d != 0:
		r.env.Count(CountOutOfSequence)
		r.expected, r.inside = p.psn, lostMessage
	}
	if !r.met {
		r.met = true
		r.env.Raise(CommEstablished)
	}
	return stepOpcode
}

// checkOrder asks whether the packet continues what was begun, and whether the
// queue pair lets the peer do such a thing at all.
func (r *Responder) checkOrder() step {
	p := &r.packet
	is := sendMessage
	if p.has(roce.IsWrite) {
		is = writeMessage
	}
	switch {
	case p.has(roce.IsStart):
		r.place = place{} // in a receive that is still in use
	case r.inside == lostMessage:
		return r.skip(CountDropRest)
	case r.inside != is:
		return r.skip(CountDropOrder)
	}
	if is == writeMessage && r.cfg.Access&RemoteWrite == 0 {
		return r.skip(CountDropAccess)
	}
	return stepReceive
}

// skip drops the packet in hand with the rest of its message.
func (r *Responder) skip(why Counter) step {
	r.env.Count(why)
	r.expected = r.expected.Next()
	r.inside = lostMessage
	if r.packet.has(roce.IsEnd) {
		r.inside = noMessage
	}
	return stepDone
}

// refuseUnreliable drops the packet that cannot be executed, or fails the queue
// pair where a receive is to blame.
func (r *Responder) refuseUnreliable() step {
	switch r.packet.reason {
	case tooLong, badReceive:
		r.fail(r.packet.reason.recv)
		return stepDone
	case noAccess:
		return r.skip(CountDropAccess)
	}
	return r.skip(CountDropMalformed)
}
