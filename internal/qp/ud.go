package qp

import (
	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// unknownHops is the hop limit in a GRH where the link could not see it: the
// one that is usual for packets of a host.
const unknownHops = 64

// receiveUD takes one datagram. Nothing that a stranger sends can end the
// queue pair: what does not fit is dropped, and its receive stays in use for
// the next one.
func (r *Responder) receiveUD(f *frame.Frame) {
	p := &r.packet
	if !p.parse(f, roce.UD) || f.Len > r.mtu || p.h.BTH().Pad() != roce.PadFor(f.Len) {
		r.env.Count(CountDropMalformed)
		return
	}
	if r.trace != nil {
		r.trace("datagram", p.psn)
	}
	switch {
	case p.h.DETH().QKey() != qKey(r.cfg.QPN, r.cfg.QKey):
		r.env.Count(CountDropQKey)
	case r.takeReceive() == stepNotReady:
		r.env.Count(CountDropNoReceive)
	case uint64(roce.GRHLen+f.Len) > r.room:
		r.env.Count(CountDropTooLong)
	default:
		r.takeDatagram()
	}
	p.f = nil
}

// takeDatagram puts a datagram into the receive: where it came from first, then
// what it says.
func (r *Responder) takeDatagram() {
	p := &r.packet
	r.got = 0
	if !r.fillBehind(r.origin.from(p.f)) {
		r.fail(badReceive.recv)
		return
	}
	r.cqe = CQE{ByteLen: r.got, Op: OpRecv, Solicited: p.h.BTH().Solicited(), WithGRH: true}
	if h := p.h.ImmDt(); h != nil {
		r.cqe.Imm, r.cqe.WithImm = h.Value(), true
	}
	r.completeFrom(p.h.DETH().SrcQP())
}

// An origin is the GRH of the newest datagram, and what it was made of: the
// next one often has the same.
type origin struct {
	peer, local frame.Addr
	tos, ttl    uint8
	n           int // bytes of the UDP payload
	grh         roce.GRH
}

// from returns the GRH of a datagram: its IP header, as far as the link has
// seen it. It is zero for a frame whose addresses do not go together.
func (o *origin) from(f *frame.Frame) []byte {
	n := int(f.HeadLen) + f.Len + int(f.Pad) + roce.ICRCLen
	if o.n == n && o.peer == f.Peer && o.local == f.Local && o.tos == f.TOS && o.ttl == f.TTL {
		return o.grh[:]
	}
	o.n, o.peer, o.local, o.tos, o.ttl = n, f.Peer, f.Local, f.TOS, f.TTL
	path := roce.Path{Src: f.Peer.AddrPort(), Dst: f.Local.AddrPort(), TrafficClass: f.TOS, HopLimit: f.TTL,
		Ident: roce.Segment(0)}
	if f.TTL == 0 {
		path.HopLimit = unknownHops
	}
	path.PutGRH(&o.grh, n)
	return o.grh[:]
}
