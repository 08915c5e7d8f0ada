package cm_test

import (
	"context"
	"testing"

	. "github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/work"
)

// established connects a client to a server that accepts with p.
func (w world) established(p ConnParam) (c, s *ID) {
	client, server := w[0], w[1]
	client.t.Helper()
	server.listen(7, 4)
	c = w.call(client, server, 7)
	client.ok(c.Connect(usual("")))
	s = w.next(server, ConnectRequest).ID
	must(s.CreateQP(server.pd, server.rc()))(server.t)
	server.ok(s.Accept(p))
	w.next(client, Established)
	w.next(server, Established)
	return c, s
}

// TestServerHasFewerResources: a client asks for no more at once than the server
// answers.
func TestServerHasFewerResources(t *testing.T) {
	a, b := pair(t, nil)
	c, s := world{newParty(t, a), newParty(t, b)}.established(ConnParam{ResponderResources: 1, InitiatorDepth: 2})
	one, _, _ := c.QP().Query()
	two, _, _ := s.QP().Query()
	if one.MaxQPRdAtomic != 1 || two.MaxDestRdAtomic != 1 || one.MaxDestRdAtomic != 2 || two.MaxQPRdAtomic != 2 {
		t.Errorf("got %d and %d of the client, %d and %d of the server, want 1 and 2, 1 and 2",
			one.MaxQPRdAtomic, one.MaxDestRdAtomic, two.MaxDestRdAtomic, two.MaxQPRdAtomic)
	}
}

// TestPeerHearsThatAChannelCloses: what is said last is sent before queue pair 1
// is given up, also where nobody drives any more.
func TestPeerHearsThatAChannelCloses(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		w.established(usual(""))
		w[0].ok(w[0].ch.Close())
		w[1:].next(w[1], Disconnected)
	})
}

// TestNextWakesForADeadline: who waits on an inline executor is woken when a
// message has to be sent again, though nothing comes.
func TestNextWakesForADeadline(t *testing.T) {
	w, g := gated(t, work.NewInline())
	c := w.call(w[0], w[1], 7)
	g.shut.Store(true)
	quick := usual("")
	quick.Times = hasty
	w[0].ok(c.Connect(quick))
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	if e, err := w[0].ch.Next(ctx); err != nil || e.Type != Unreachable {
		t.Errorf("got %v, %v, want %v", e.Type, err, Unreachable)
	}
	if n := counter(w[0].ch, "retried_REQ"); n != uint64(hasty.Retries) {
		t.Errorf("the REQ was sent again %d times, want %d", n, hasty.Retries)
	}
}
