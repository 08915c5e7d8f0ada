package cm_test

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	. "github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/verbs"
)

// TestConnectMovesDataAndDisconnects goes once through a life: private data both
// ways, a SEND, a READ, and the end, after which nothing is left.
func TestConnectMovesDataAndDisconnects(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		client, server := w[0], w[1]
		l := server.listen(7471, 4)
		c := w.call(client, server, 7471)
		client.ok(c.Connect(ConnParam{PrivateData: []byte("hello"), ResponderResources: 9, InitiatorDepth: 3, RetryCount: 7, RNRRetry: 6}))
		e := w.next(server, ConnectRequest)
		s := e.ID
		if e.Listener != l || s.User() != "listener" || s.PeerAddr() != c.LocalAddr() || s.LocalAddr() != c.PeerAddr() {
			t.Errorf("got a request %v>%v with %v, want %v>%v", s.PeerAddr(), s.LocalAddr(), s.User(), c.LocalAddr(), c.PeerAddr())
		}
		p := e.Param
		if !bytes.HasPrefix(p.PrivateData, []byte("hello\x00")) || len(p.PrivateData) != 56 ||
			p.ResponderResources != 3 || p.InitiatorDepth != 9 || p.RetryCount != 7 || p.RNRRetry != 6 {
			t.Errorf("got %+v", p)
		}
		q := must(s.CreateQP(server.pd, server.rc()))(t)
		_, err := q.PostRecv(verbs.RecvWR{ID: 1, SG: []verbs.SGE{server.mr.SGE(0, 100)}})
		server.ok(err)
		server.ok(s.Accept(ConnParam{PrivateData: []byte("welcome"), ResponderResources: 255, InitiatorDepth: 255, RNRRetry: 5}))
		p = w.next(client, Established).Param
		if !bytes.HasPrefix(p.PrivateData, []byte("welcome\x00")) || len(p.PrivateData) != 196 || p.RNRRetry != 5 ||
			p.InitiatorDepth != 3 || p.ResponderResources != 9 {
			t.Errorf("got %+v", p)
		}
		w.next(server, Established)

		sameTerms(t, c.QP(), q)
		w.exchange(client, server, c.QP())

		client.ok(c.Disconnect())
		w.next(server, Disconnected)
		w.next(client, Disconnected)
		for _, q := range []*verbs.QP{c.QP(), s.QP()} {
			if q.State() != verbs.StateErr {
				t.Errorf("got queue pair in %v, want ERR", q.State())
			}
		}
		server.ok(s.Disconnect()) // nothing more to do
		w.next(server, TimewaitExit)
		w.next(client, TimewaitExit)
		for _, id := range []*ID{l, c, s} {
			client.ok(id.Close())
			if err := id.Close(); !errors.Is(err, EBADF) || !errors.Is(err, verbs.EBADF) {
				t.Errorf("closed twice: got %v, want EBADF", err)
			}
		}
	})
}

// sameTerms checks what the queue pairs of TestConnectMovesDataAndDisconnects
// have agreed on.
func sameTerms(t *testing.T, client, server *verbs.QP) {
	t.Helper()
	c, _, _ := client.Query()
	s, _, _ := server.Query()
	if c.MaxQPRdAtomic != 3 || s.MaxDestRdAtomic != 3 || c.MaxDestRdAtomic != 9 || s.MaxQPRdAtomic != 9 ||
		c.RNRRetry != 5 || s.RNRRetry != 6 || s.RetryCnt != 7 || c.Timeout != 16 || s.Timeout != 16 ||
		c.SQPSN != s.RQPSN || s.SQPSN != c.RQPSN {
		t.Errorf("got queue pairs with\n%+v and\n%+v", c, s)
	}
}

// exchange sends from a client to a server, which has a receive posted at the
// start of its memory, and reads it back.
func (w world) exchange(client, server *party, q *verbs.QP) {
	client.t.Helper()
	copy(client.mem, "some data")
	_, err := q.PostSend(
		verbs.SendWR{ID: 2, Opcode: verbs.WRSend, Flags: verbs.Signaled, SG: []verbs.SGE{client.mr.SGE(0, 9)}},
		verbs.SendWR{ID: 3, Opcode: verbs.WRRDMARead, Flags: verbs.Signaled, SG: []verbs.SGE{client.mr.SGE(100, 9)},
			RemoteAddr: server.mr.Addr(), RKey: server.mr.RKey()})
	client.ok(err)
	if wc := w.wc(server); wc.ByteLen != 9 || string(server.mem[:9]) != "some data" {
		client.t.Errorf("got %d bytes: %q", wc.ByteLen, server.mem[:9])
	}
	w.wc(client)
	w.wc(client)
	if string(client.mem[100:109]) != "some data" {
		client.t.Errorf("read %q back", client.mem[100:109])
	}
}

func TestRejectTakesPrivateDataAlong(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		client, server := w[0], w[1]
		server.listen(7, 4)
		c := w.call(client, server, 7)
		for range 2 { // who was refused may try again, with the same queue pair
			client.ok(c.Connect(usual("")))
			e := w.next(server, ConnectRequest)
			server.ok(e.ID.Reject([]byte("not today")))
			server.ok(e.ID.Close())
			got := w.next(client, Rejected)
			if got.Reason != ReasonConsumer || !bytes.HasPrefix(got.Param.PrivateData, []byte("not today\x00")) ||
				!errors.Is(got.Err, ECONNREFUSED) {
				t.Errorf("got reason %v, %q, %v", got.Reason, got.Param.PrivateData, got.Err)
			}
		}
	})
}

func TestNobodyListens(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		client, server := w[0], w[1]
		l := server.listen(7, 4)
		c := w.call(client, server, 8)
		client.ok(c.Connect(usual("")))
		if e := w.next(client, Rejected); e.Reason != ReasonNoListener {
			t.Errorf("got reason %v, want %v", e.Reason, ReasonNoListener)
		}
		server.ok(l.Close())
		d := w.call(client, server, 7)
		client.ok(d.Connect(usual("")))
		if e := w.next(client, Rejected); e.Reason != ReasonNoListener {
			t.Errorf("got reason %v, want %v", e.Reason, ReasonNoListener)
		}
	})
}

// TestListenerClosesOnRequests: what the program has not seen yet is refused;
// what it has seen it may accept.
func TestListenerClosesOnRequests(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		client, server := w[0], w[1]
		l := server.listen(7, 4)
		one, two := w.call(client, server, 7), w.call(client, server, 7)
		client.ok(one.Connect(usual("")))
		client.ok(two.Connect(usual("")))
		var e Event
		until(t, "two requests", func() bool {
			client.pump()
			server.dev.Drive(0)
			if server.dev.Counter("rcvd_pkts") < 2 {
				return false
			}
			if e.ID == nil {
				e, _ = server.ch.TryNext() // on an inline executor, this takes in both
			}
			return e.ID != nil && counter(server.ch, "received_REQ") == 2
		})
		s := e.ID
		server.ok(l.Close())
		if e := w.next(client, Rejected); e.ID != two || e.Reason != ReasonConsumer {
			t.Errorf("got %v for the wrong ID or reason", e.Reason)
		}
		must(s.CreateQP(server.pd, server.rc()))(t)
		server.ok(s.Accept(usual("")))
		if e := w.next(client, Established); e.ID != one {
			t.Error("the wrong ID is connected")
		}
	})
}

func counter(c *Channel, name string) uint64 {
	for _, x := range c.Counters() {
		if x.Name == name {
			return x.Value
		}
	}
	return 0
}

func TestAddressInUse(t *testing.T) {
	a, _ := pair(t, nil)
	p := newParty(t, a)
	l := p.listen(7, 1)
	other := must(Open(a))(t)
	defer func() { p.ok(other.Close()) }()
	id := must(other.NewID(TCP, nil))(t)
	for _, addr := range []netip.AddrPort{
		netip.AddrPortFrom(a.Addr(), 7), netip.MustParseAddrPort("0.0.0.0:7"), netip.MustParseAddrPort("[::]:7"),
	} {
		if err := id.Listen(addr, 1); !errors.Is(err, EADDRINUSE) {
			t.Errorf("listen on %v: got %v, want EADDRINUSE", addr, err)
		}
	}
	if err := id.Listen(netip.MustParseAddrPort("192.0.2.77:9"), 1); !errors.Is(err, EADDRNOTAVAIL) {
		t.Errorf("got %v, want EADDRNOTAVAIL", err)
	}
	datagrams := must(other.NewID(UDP, nil))(t)
	p.ok(datagrams.Listen(netip.AddrPortFrom(a.Addr(), 7), 1)) // another port space
	p.ok(l.Close())
	p.ok(id.Listen(netip.AddrPortFrom(a.Addr(), 7), 1))
	free := must(other.NewID(TCP, nil))(t)
	p.ok(free.Listen(netip.AddrPort{}, 1))
	if free.LocalAddr().Port() < 49152 || free.LocalAddr().Addr() != a.Addr() {
		t.Errorf("listens on %v", free.LocalAddr())
	}
}

func TestCallsThatMakeNoSense(t *testing.T) {
	a, b := pair(t, nil)
	w := world{newParty(t, a), newParty(t, b)}
	p := w[0]
	l := p.listen(7, 1)
	id := must(p.ch.NewID(TCP, nil))(t)
	other := must(p.ch.NewID(UDP, nil))(t)
	c := w.call(p, w[1], 9)
	for name, err := range map[string]error{
		"port space":        func() error { _, err := p.ch.NewID(5, nil); return err }(),
		"listen twice":      l.Listen(netip.AddrPortFrom(a.Addr(), 8), 1),
		"connect first":     id.Connect(ConnParam{}),
		"route first":       id.ResolveRoute(),
		"accept nothing":    id.Accept(ConnParam{}),
		"reject nothing":    id.Reject(nil),
		"disconnect":        id.Disconnect(),
		"notify":            id.NotifyEstablished(),
		"foreign domain":    func() error { _, err := id.CreateQP(w[1].pd, w[1].rc()); return err }(),
		"type of datagrams": func() error { _, err := other.CreateQP(p.pd, p.rc()); return err }(),
		"second queue pair": func() error { _, err := c.CreateQP(p.pd, p.rc()); return err }(),
		"private data":      c.Connect(ConnParam{PrivateData: make([]byte, 57)}),
		"retries":           c.Connect(ConnParam{RetryCount: 8}),
		"times":             c.Connect(ConnParam{Times: Times{Response: 32}}),
		"path MTU":          c.Connect(ConnParam{PathMTU: 9}),
	} {
		if !errors.Is(err, EINVAL) {
			t.Errorf("%s: got %v, want EINVAL", name, err)
		}
	}
	for _, addr := range []string{"[fd00::1]:7", "0.0.0.0:7", "224.0.0.1:7"} {
		p.ok(id.ResolveAddr(netip.MustParseAddrPort(addr)))
		if e := w.next(p, AddrError); !errors.Is(e.Err, EADDRNOTAVAIL) {
			t.Errorf("%s: got %v, want EADDRNOTAVAIL", addr, e.Err)
		}
	}
	p.ok(id.Close())
	if err := id.ResolveAddr(netip.MustParseAddrPort("192.0.2.2:1")); !errors.Is(err, EBADF) {
		t.Errorf("after Close: got %v, want EBADF", err)
	}
}
