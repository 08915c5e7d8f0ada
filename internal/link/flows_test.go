package link

import (
	"net/netip"
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// sealed returns a packet from peer to local with the ICRC that an IPv4 header
// with that identification asks for.
func sealed(t *testing.T, peer, local netip.AddrPort, id roce.Ident) roce.Packet {
	t.Helper()
	f, _ := roce.NewFlow(peer, local)
	var head [roce.HeadSize]byte
	h := roce.Build(&head, roce.RCSendOnly)
	b := append(h.Bytes(), 0, 0, 0, 0)
	f.Start(h, 0, id).Put((*[4]byte)(b[len(b)-4:]))
	p, ok := roce.Parse(b)
	if !ok {
		t.Fatal("the packet does not parse")
	}
	return p
}

func TestAPeerOfOurKindIsHeldToSmallNumbers(t *testing.T) {
	local, peer := netip.MustParseAddrPort("10.0.0.1:4791"), netip.MustParseAddrPort("10.0.0.2:4791")
	table := flows{local: local, incoming: true}
	check := func(id roce.Ident, expect int) (solved, ok bool) {
		_, solved, ok = table.find(frame.AddrOf(peer)).check(sealed(t, peer, local, id), expect)
		return solved, ok
	}
	dice := roce.Ident{ID: 0x1234, DF: true}
	if solved, ok := check(dice, 0); !solved || !ok {
		t.Errorf("a number from a stranger: solved %v, ok %v, want true, true", solved, ok)
	}
	for range trusted {
		if solved, ok := check(roce.Segment(0), 0); solved || !ok {
			t.Fatalf("the expected number: solved %v, ok %v, want false, true", solved, ok)
		}
	}
	if solved, ok := check(roce.Segment(17), 0); !solved || !ok {
		t.Errorf("a small number: solved %v, ok %v, want true, true", solved, ok)
	}
	for i := range patience {
		if _, ok := check(dice, 0); ok {
			t.Fatalf("a number from nowhere passed, try %d", i)
		}
	}
	if _, ok := check(dice, 0); !ok {
		t.Error("the sender has changed, and its numbers are still refused")
	}
}

func TestAPeerThatCountsIsNotOfOurKindWhenItsCounterWraps(t *testing.T) {
	local, peer := netip.MustParseAddrPort("10.0.0.1:4791"), netip.MustParseAddrPort("10.0.0.2:4791")
	table := flows{local: local, incoming: true}
	f := table.find(frame.AddrOf(peer))
	for i := range 2 * smallID {
		id := roce.Ident{ID: uint16(i - smallID/2), DF: true}
		for range 1 + i%2 { // the network doubles some
			if _, _, ok := f.check(sealed(t, peer, local, id), 0); !ok {
				t.Fatalf("identification %d was refused", id.ID)
			}
		}
	}
}

func TestTheNumberAfterTheOneThatFitsIsExpected(t *testing.T) {
	local, peer := netip.MustParseAddrPort("10.0.0.1:4791"), netip.MustParseAddrPort("10.0.0.2:4791")
	table := flows{local: local, incoming: true}
	f := table.find(frame.AddrOf(peer))
	id := 0
	for i := 5; i < 9; i++ { // the kernel merged from the sixth segment on
		next, solved, ok := f.check(sealed(t, peer, local, roce.Segment(i)), id)
		if !ok || solved != (i == 5) || next != i+1 {
			t.Errorf("segment %d: next %d, solved %v, ok %v", i, next, solved, ok)
		}
		id = next
	}
}

func TestPeersThatShareAPlaceTakeTurns(t *testing.T) {
	table := flows{local: netip.MustParseAddrPort("10.0.0.1:4791")}
	for i := range 300 {
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), uint16(4791+i%3))
		if f := table.find(frame.AddrOf(a)); f == nil || f.addr != a {
			t.Fatalf("peer %v: got %+v", a, f)
		}
	}
	if f := table.find(frame.AddrOf(netip.MustParseAddrPort("[fd00::1]:4791"))); f != nil {
		t.Error("an IPv6 peer of an IPv4 link")
	}
}
