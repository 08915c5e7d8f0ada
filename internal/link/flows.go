package link

import (
	"net/netip"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// A flow is what is known of a peer, for one direction.
type flow struct {
	peer  frame.Addr
	known bool
	addr  netip.AddrPort // of the peer
	icrc  roce.Flow

	numbered uint8 // packets with identification 0, and none in between that was not small
	refused  uint8 // packets in a row that were refused for theirs
}

// flows is a table of flows. Peers that fall on the same place take turns, and
// what is known of them is worked out again.
type flows struct {
	local    netip.AddrPort
	incoming bool
	table    [64]flow
}

// find returns the flow with a peer, or nil if the peer's address is not of the
// family of the local one.
func (t *flows) find(peer frame.Addr) *flow {
	h := uint32(peer.IP[15]) + uint32(peer.IP[14])*7 + uint32(peer.Port) + uint32(peer.Port>>8)
	f := &t.table[h%uint32(len(t.table))]
	if f.known && f.peer == peer {
		return f
	}
	addr := peer.AddrPort()
	src, dst := t.local, addr
	if t.incoming {
		src, dst = addr, t.local
	}
	icrc, ok := roce.NewFlow(src, dst)
	if !ok {
		return nil
	}
	*f = flow{peer: peer, known: true, addr: addr, icrc: icrc}
	return f
}

// Packets of our own kind carry their place in a send that the kernel cut, and
// so a small number, 0 again and again; other senders roll dice, or count: then
// 128 small ones come in a row each time the counter wraps, but 0 only once.
const (
	smallID  = 128 // no kernel cuts a send into more
	trusted  = 16  // so many times 0, and no large one, are no accident
	patience = 16  // so many others in a row mean that the sender is another one
)

// check verifies the ICRC of a packet, of which id is the expected place in a
// send. It returns the place that fits, and whether it had to be worked out.
//
// Working out costs most of the check: damage passes once in 2^15 packets. So
// it is for peers of another kind; from a peer whose numbers have been small,
// only small ones are taken, and damage passes once in 2^25.
func (f *flow) check(p roce.Packet, id int) (next int, solved, ok bool) {
	got, ok := f.icrc.Check(p, roce.Segment(id))
	switch {
	case !ok:
		return id + 1, false, false
	case got.ID < smallID && got.DF:
		if f.refused = 0; got.ID == 0 {
			f.numbered = min(f.numbered+1, trusted)
		}
	case f.numbered == trusted:
		if f.refused++; f.refused == patience {
			f.numbered, f.refused = 0, 0
		}
		return id + 1, true, false
	default:
		f.numbered = 0
	}
	return int(got.ID) + 1, got != roce.Segment(id), true
}
