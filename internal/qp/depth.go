package qp

import "github.com/gantry-rdma/gantry/roce"

// A peer has no more READs and atomics outstanding than it was promised
// resources for (IBTA Vol 1, 9.7.5.2): outstanding is what it has sent and has
// not got the last response to. The Responder answers one request after the
// other, so those that are outstanding wait with the device, and are looked for
// there: when the last response to a READ or atomic is about to leave, it and
// those behind it are no more than the limit. The first above it is refused, in
// its turn.
//
// A peer that keeps to its limit cannot meet this, however late or often its
// packets come: it sends that request when it has the response that has not
// left yet. What comes again is not counted, because only what will be the next
// expected one is; nor is a duplicate that is being answered, because its first
// answer has left before. A FLUSH takes no resource here, and peers do not all
// count it.

const takesResource = roce.IsRead | roce.IsAtomic | roce.IsAtomicWrite

// holdToDepth looks for a READ or atomic too many. The last response to one of
// them is about to leave, and next is the sequence number behind it.
func (r *Responder) holdToDepth(next roce.PSN) {
	n := r.saved.limit - 1
	if r.packet.f != nil {
		n++ // the request in hand is among those that wait
	}
	var p packet
	behind := 0
	for f := r.env.Waiting(n); f != nil; f = f.Next {
		if !p.parse(f, roce.RC) || p.psn != next {
			continue
		}
		if p.is&takesResource != 0 {
			if behind++; behind == r.saved.limit {
				r.saved.excess, r.saved.exceeded = p.psn, true
				return
			}
		}
		packets := 1
		if p.has(roce.IsRead) {
			packets = r.packetsOf(p.h.RETH().DMALen())
		}
		next = next.Add(packets)
	}
}

// allow reports whether a READ or atomic may use a resource.
func (s *resources) allow(psn roce.PSN) bool {
	return s.limit > 0 && !(s.exceeded && s.excess == psn)
}
