package cm_test

import (
	"bytes"
	"context"
	"net/netip"
	"testing"

	. "github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// TestDatagramsResolveTheirPeer: port space UDP finds the queue pair of a peer,
// and both sides may send.
func TestDatagramsResolveTheirPeer(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		client, server := w[0], w[1]
		init := func(p *party) verbs.QPInit {
			x := p.rc()
			x.Type = verbs.UD
			return x
		}
		l := must(server.ch.NewID(UDP, nil))(t)
		server.ok(l.Listen(netip.AddrPortFrom(server.dev.Addr(), 7), 4))
		c := must(client.ch.NewID(UDP, nil))(t)
		client.ok(c.ResolveAddr(l.LocalAddr()))
		w.next(client, AddrResolved)
		client.ok(c.ResolveRoute())
		w.next(client, RouteResolved)
		q := must(c.CreateQP(client.pd, init(client)))(t)

		client.ok(c.Connect(ConnParam{PrivateData: []byte("who?")}))
		e := w.next(server, ConnectRequest)
		if !bytes.HasPrefix(e.Param.PrivateData, []byte("who?\x00")) || len(e.Param.PrivateData) != 180 {
			t.Errorf("got %q", e.Param.PrivateData)
		}
		server.ok(e.ID.Reject(nil))
		if e := w.next(client, Rejected); e.Reason != ReasonConsumer {
			t.Errorf("got reason %v, want %v", e.Reason, ReasonConsumer)
		}
		client.ok(c.Connect(ConnParam{}))
		s := w.next(server, ConnectRequest).ID
		sq := must(s.CreateQP(server.pd, init(server)))(t)
		_, err := sq.PostRecv(verbs.RecvWR{ID: 1, SG: []verbs.SGE{server.mr.SGE(0, 100)}})
		server.ok(err)
		server.ok(s.Accept(ConnParam{PrivateData: []byte("me")}))
		e = w.next(client, Established)
		if e.QPN != sq.Num() || e.QKey != 0x01234567 || !bytes.HasPrefix(e.Param.PrivateData, []byte("me\x00")) {
			t.Errorf("got queue pair %#x, Q_Key %#x, %q", e.QPN, e.QKey, e.Param.PrivateData)
		}
		ah := must(client.pd.CreateAH(e.AH))(t)
		copy(client.mem, "datagram")
		_, err = q.PostSend(verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.Signaled, SG: []verbs.SGE{client.mr.SGE(0, 8)},
			AH: ah, RemoteQPN: e.QPN, RemoteQKey: e.QKey})
		client.ok(err)
		client.ok(ah.Destroy())
		if wc := w.wc(server); wc.ByteLen != 48 || string(server.mem[40:48]) != "datagram" || wc.SrcQP != q.Num() {
			t.Errorf("got %d bytes from %#x: %q", wc.ByteLen, wc.SrcQP, server.mem[40:48])
		}
		w.wc(client)
	})
}

// TestUnreliableConnection: a queue pair of type UC, in both port spaces of
// connections.
func TestUnreliableConnection(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		for _, space := range []PortSpace{TCP, IB} {
			w.unreliable(t, space)
		}
	})
}

func (w world) unreliable(t *testing.T, space PortSpace) {
	client, server := w[0], w[1]
	l := must(server.ch.NewID(space, nil))(t)
	server.ok(l.Listen(netip.AddrPortFrom(server.dev.Addr(), 7), 4))
	c := must(client.ch.NewID(space, nil))(t)
	client.ok(c.ResolveAddr(netip.AddrPortFrom(server.dev.Addr(), 7)))
	w.next(client, AddrResolved)
	client.ok(c.ResolveRoute())
	w.next(client, RouteResolved)
	init := client.rc()
	init.Type = verbs.UC
	q := must(c.CreateQP(client.pd, init))(t)
	client.ok(c.Connect(usual("")))

	s := w.next(server, ConnectRequest).ID
	init = server.rc()
	init.Type = verbs.UC
	sq := must(s.CreateQP(server.pd, init))(t)
	_, err := sq.PostRecv(verbs.RecvWR{ID: 1, SG: []verbs.SGE{server.mr.SGE(0, 100)}})
	server.ok(err)
	server.ok(s.Accept(usual("")))
	w.next(client, Established)
	w.next(server, Established)
	_, err = q.PostSend(verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.Signaled, SG: []verbs.SGE{client.mr.SGE(0, 9)}})
	client.ok(err)
	if wc := w.wc(server); wc.ByteLen != 9 {
		t.Errorf("got %d bytes, want 9", wc.ByteLen)
	}
	w.wc(client)
	client.ok(c.Disconnect())
	w.next(server, Disconnected)
	w.next(client, Disconnected)
	for _, id := range []*ID{l, c, s} {
		client.ok(id.Close())
	}
}

// TestDataSaysThatAConnectionStands: the program of the passive side learns of
// data before the last message of the set-up, and says so.
func TestDataSaysThatAConnectionStands(t *testing.T) {
	x := work.NewInline() // nobody reads queue pair 1 of the server meanwhile
	a, b := pair(t, x)
	w := world{newParty(t, a), newParty(t, b)}
	client, server := w[0], w[1]
	server.listen(7, 4)
	c := w.call(client, server, 7)
	client.ok(c.Connect(usual("")))
	s := w.next(server, ConnectRequest).ID
	q := must(s.CreateQP(server.pd, server.rc()))(t)
	_, err := q.PostRecv(verbs.RecvWR{ID: 1, SG: []verbs.SGE{server.mr.SGE(0, 100)}})
	server.ok(err)
	server.ok(s.Accept(usual("")))
	alone := world{client}
	alone.next(client, Established)
	_, err = c.QP().PostSend(verbs.SendWR{Opcode: verbs.WRSend, SG: []verbs.SGE{client.mr.SGE(0, 9)}})
	client.ok(err)
	alone.wc(server)
	if e, err := server.dev.NextEvent(context.Background()); err != nil || e.Type != verbs.EventCommEst || e.QP != q {
		t.Fatalf("got %v, %v, want COMM_EST", e.Type, err)
	}
	server.ok(s.NotifyEstablished())
	w.next(server, Established)
	server.ok(s.NotifyEstablished()) // and the RTU comes behind it
	server.ok(s.Disconnect())
	w.next(server, Disconnected)
	w.next(client, Disconnected)
}

func TestIPv6(t *testing.T) {
	x := work.NewTasklet()
	t.Cleanup(x.Close)
	p := newParty(t, udp(t, "::1", x))
	w := world{p}
	p.listen(7, 4)
	c, s := w.self(p)
	if want := netip.IPv6Loopback(); c.PeerAddr().Addr() != want || s.PeerAddr().Addr() != want {
		t.Errorf("got peers %v and %v, want %v", c.PeerAddr(), s.PeerAddr(), want)
	}
}

// self connects a device with itself, and disconnects.
func (w world) self(p *party) (c, s *ID) {
	p.t.Helper()
	c = w.call(p, p, 7)
	p.ok(c.Connect(usual("")))
	s = w.next(p, ConnectRequest).ID
	must(s.CreateQP(p.pd, p.rc()))(p.t)
	p.ok(s.Accept(usual("")))
	w.next(p, Established)
	w.next(p, Established)
	_, err := s.QP().PostRecv(verbs.RecvWR{ID: 1, SG: []verbs.SGE{p.mr.SGE(0, 100)}})
	p.ok(err)
	_, err = c.QP().PostSend(verbs.SendWR{ID: 2, Opcode: verbs.WRSend, Flags: verbs.Signaled, SG: []verbs.SGE{p.mr.SGE(200, 9)}})
	p.ok(err)
	w.wc(p)
	w.wc(p)
	p.ok(c.Disconnect())
	w.next(p, Disconnected)
	w.next(p, Disconnected)
	return c, s
}

// TestDeviceConnectsWithItself: both ends are in one agent.
func TestDeviceConnectsWithItself(t *testing.T) {
	for _, e := range executors {
		t.Run(e.name, func(t *testing.T) {
			x := e.make()
			t.Cleanup(x.Close)
			p := newParty(t, udp(t, "127.0.0.73", x))
			p.listen(7, 4)
			world{p}.self(p)
		})
	}
}

// TestPathMTUAboveThePeers is refused with a reason that says so.
func TestPathMTUAboveThePeers(t *testing.T) {
	x := work.NewInline()
	t.Cleanup(x.Close)
	open := func(addr string, mtu int) *verbs.Device {
		d, err := verbs.Open(verbs.Config{Addr: netip.MustParseAddr(addr), Executor: x, MTU: mtu})
		if err != nil {
			t.Skipf("no device on %s: %v", addr, err)
		}
		t.Cleanup(func() {
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		})
		return d
	}
	w := world{newParty(t, open("127.0.0.74", 4096)), newParty(t, open("127.0.0.75", 1024))}
	w[1].listen(7, 4)
	c := w.call(w[0], w[1], 7)
	w[0].ok(c.Connect(usual("")))
	if e := w.next(w[0], Rejected); e.Reason != ReasonInvalidMTU {
		t.Errorf("got reason %v, want %v", e.Reason, ReasonInvalidMTU)
	}
	p := usual("")
	p.PathMTU = roce.MTU1024
	w[0].ok(c.Connect(p))
	if e := w.next(w[1], ConnectRequest); e.Param.PathMTU != roce.MTU1024 {
		t.Errorf("got path MTU %v, want 1024", e.Param.PathMTU)
	}
}
