package perf

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
)

// An RCClient carries out tests with a server in another process.
type RCClient struct {
	x    *exchange
	dev  RCDevice
	port *rcPort
}

// DialRC connects to the server that listens at host:port. Without an address
// the device gets the one that TCP has, or on loopback 127.0.0.2, because the
// server has 127.0.0.1.
func DialRC(ctx context.Context, hostPort string, d RCDevice) (*RCClient, error) {
	conn, err := rendezvous.Dial(ctx, hostPort, "start gantry perf --listen there first")
	if err != nil {
		return nil, err
	}
	if !d.Addr.IsValid() {
		d.Addr = addrOf(conn.LocalAddr())
		if d.Addr == addrOf(conn.RemoteAddr()) && d.Addr.IsLoopback() && d.Addr.Is4() {
			d.Addr = d.Addr.Next()
		}
	}
	return &RCClient{x: newExchange(ctx, conn), dev: d}, nil
}

// addrOf returns the IP address of an address of TCP.
func addrOf(a net.Addr) netip.Addr {
	p, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return netip.Addr{}
	}
	return p.Addr().Unmap()
}

// Addr returns the address of the client's device.
func (c *RCClient) Addr() netip.Addr { return c.dev.Addr }

// End tells the server the results and that there are no more tests.
func (c *RCClient) End(points []RCPoint) error {
	return c.x.send(rcMessage{Kind: kindEnd, Points: points})
}

// Close gives up the device and the connection.
func (c *RCClient) Close() (err error) {
	c.x.close()
	if c.port != nil {
		err = closePorts(c.port)
	}
	return err
}

// Measure carries out one test. The device and its executor are those of the
// first one.
func (c *RCClient) Measure(ctx context.Context, t RCTest, run RCRun, w Watch) (p RCPoint, err error) {
	err = c.connected(ctx, t, func(r *rcRun) (err error) {
		p, err = r.measure(run, w)
		return err
	})
	return p, err
}

// connected connects both ends for a test, and lets f use them.
func (c *RCClient) connected(ctx context.Context, t RCTest, f func(*rcRun) error) (err error) {
	if err = t.Check(); err != nil {
		return err
	}
	defer t.holdThread()()
	if c.port == nil {
		if c.port, err = openPort(&t, c.dev, 0); err != nil {
			return err
		}
	}
	c.x.drives(&t, c.port)
	if err = c.x.send(rcMessage{Kind: kindTest, Test: &t}); err != nil {
		return err
	}
	a, err := newEnd(t, c.port, 0)
	if err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, a.close()) }()
	b := &rcRemote{x: c.x, a: a}
	if err = b.meet(ctx); err != nil {
		return err
	}
	if t.Events { // whoever sleeps has to hear that the server is gone
		ctx = c.x.alive
	}
	r := newRun(ctx, a, b)
	defer r.close()
	return f(r)
}

// An rcRemote is the server as the client sees it. It belongs to the client's
// goroutine.
type rcRemote struct {
	x *exchange
	a *rcEnd

	asked    bool      // finish was sent
	answer   rcMessage // ready or finished: the last
	answered bool
	failed   error
	gone     time.Time // when the exchange ended, or zero
}

// meet introduces both ends to each other.
func (b *rcRemote) meet(ctx context.Context) error {
	m, err := b.x.expect(ctx, kindHello, answerTime)
	if err != nil {
		return err
	}
	if m.Hello == nil {
		return fmt.Errorf("it says nothing of its queue pairs: %w", ErrRCPeer)
	}
	mine := b.a.hello()
	if err = b.x.send(rcMessage{Kind: kindHello, Hello: &mine}); err != nil {
		return err
	}
	if b.a.cm != nil { // the server is ready when it was called
		if err = b.a.connect(*m.Hello); err == nil {
			err = introduce(ctx, b.a)
		}
		if err == nil && b.a.cm.space == cm.UDP {
			err = b.x.send(rcMessage{Kind: kindReady})
		}
		if err != nil {
			return err
		}
	}
	if b.answer, err = b.x.expect(ctx, kindReady, answerTime); err != nil || b.a.cm != nil {
		return err
	}
	return b.a.connect(*m.Hello)
}

func (b *rcRemote) announce(n int, each bool) error {
	b.asked, b.answered = false, false
	err := b.x.send(rcMessage{Kind: kindBegin, N: n, Each: each})
	if err == nil {
		_, err = b.x.expect(context.Background(), kindBegun, answerTime)
	}
	return err
}

func (b *rcRemote) begin(int, bool)    {} // it has begun, behind its fences
func (b *rcRemote) step() bool         { return false }
func (b *rcRemote) behind(*rcEnd) bool { return false }
func (b *rcRemote) moved() bool        { return true }
func (b *rcRemote) settle() bool       { return b.complete() } // it is told that all was sent, and has settled
func (b *rcRemote) arrival() arrival   { return b.answer.Arrival }
func (b *rcRemote) handOver()          {} // the server does so when it begins and when it is to finish

// complete asks the server to finish, once, and reports whether it has.
func (b *rcRemote) complete() bool {
	if !b.asked {
		b.asked = true
		core.KeepFirst(&b.failed, b.x.send(rcMessage{Kind: kindFinish}))
	}
	b.look()
	return b.answered
}

// look takes a message, if there is one.
func (b *rcRemote) look() {
	if !b.gone.IsZero() || b.answered {
		return
	}
	select {
	case m, ok := <-b.x.in:
		b.take(m, ok)
	default:
	}
}

func (b *rcRemote) take(m rcMessage, ok bool) {
	if !ok {
		b.gone = time.Now()
		return
	}
	m, err := b.x.check(m, ok, kindFinished)
	if err != nil {
		core.KeepFirst(&b.failed, err)
		return
	}
	b.answer, b.answered = m, true
}

// fault returns why the server cannot go on. When it has vanished and messages
// are under way, the transport gets the time that it has promised to find that
// out by itself.
func (b *rcRemote) fault() error {
	b.look()
	if b.failed != nil || b.gone.IsZero() {
		return b.failed
	}
	if b.a.outstanding() && time.Since(b.gone) < b.a.test.promise() {
		return nil
	}
	return b.x.ended()
}

// wait blocks until the server says something.
func (b *rcRemote) wait(ctx context.Context) error {
	m, ok, err := b.x.await(ctx, nil)
	if err == nil {
		b.take(m, ok)
	}
	return err
}

func (b *rcRemote) verify() error { return nil } // it would have answered with an error

func (b *rcRemote) report() (uint64, traffic, error) {
	return b.answer.Verified, b.answer.Traffic, b.failed
}
