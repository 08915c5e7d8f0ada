package perf

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/notify"
)

// An RCServer is the other end of an [RCClient]'s tests, which decides about
// everything but what is set here.
type RCServer struct {
	Device   RCDevice // without an address: the one at which the client has called
	Executor string   // "": the client's choice
	Workers  int
	Buffer   int                             // SocketBuffer of its own; 0: the client's choice
	Begun    func(client net.Addr, t RCTest) // called for each test, or nil
}

// Serve carries out the tests of one client, and returns what it has reported
// in the end.
func (s *RCServer) Serve(ctx context.Context, conn net.Conn) (points []RCPoint, t RCTest, err error) {
	v := &serving{s: s, x: newExchange(ctx, conn)}
	defer func() {
		v.x.close()
		if v.port != nil {
			core.KeepFirst(&err, closePorts(v.port))
		}
	}()
	m, err := v.next(ctx)
	for err == nil && m.Kind == kindTest {
		m, err = v.serve(ctx, m)
	}
	if err == nil && m.Kind != kindEnd {
		err = fmt.Errorf("it says %q, want a test: %w", m.Kind, ErrRCPeer)
	}
	if err != nil && ctx.Err() == nil {
		_ = v.x.send(rcMessage{Kind: kindError, Error: err.Error()}) // it may have gone
	}
	return m.Points, v.test, err
}

// A serving is a server with a client.
type serving struct {
	s    *RCServer
	x    *exchange
	port *rcPort
	test RCTest
	e    *rcEnd
}

// next waits for a message.
func (v *serving) next(ctx context.Context) (rcMessage, error) {
	m, ok, err := v.x.await(ctx, nil)
	if err == nil && !ok {
		err = v.x.ended()
	}
	return m, err
}

// serve carries out one test and returns the message that ended it.
func (v *serving) serve(ctx context.Context, m rcMessage) (next rcMessage, err error) {
	if err = v.accept(m.Test); err != nil {
		return m, err
	}
	defer v.test.holdThread()()
	if v.e, err = newEnd(v.test, v.port, 1); err != nil {
		return m, err
	}
	defer func() { core.KeepFirst(&err, v.e.close()) }()
	if err = v.meet(ctx); err != nil {
		return m, err
	}
	for {
		if next, err = v.next(ctx); err != nil || next.Kind != kindBegin {
			return next, err
		}
		if err = v.slice(ctx, next); err != nil {
			return next, err
		}
	}
}

// accept checks what a client asks for and opens the device for its first test.
func (v *serving) accept(t *RCTest) error {
	if t == nil {
		return fmt.Errorf("a test without parameters: %w", ErrRCPeer)
	}
	v.test = *t
	if v.s.Executor != "" {
		v.test.Executor, v.test.Workers = v.s.Executor, v.s.Workers
	}
	if v.s.Buffer != 0 {
		v.test.SocketBuffer = v.s.Buffer
	}
	if err := v.test.Check(); err != nil {
		return err
	}
	if v.s.Begun != nil {
		v.s.Begun(v.x.conn.RemoteAddr(), v.test)
	}
	if v.port != nil {
		v.x.drives(&v.test, v.port)
		return nil
	}
	d := v.s.Device
	if !d.Addr.IsValid() {
		d.Addr = addrOf(v.x.conn.LocalAddr())
	}
	port, err := openPort(&v.test, d, 1)
	if err == nil {
		v.port = port
		v.x.drives(&v.test, v.port)
	}
	return err
}

// meet introduces both ends to each other.
func (v *serving) meet(ctx context.Context) error {
	mine := v.e.hello()
	if err := v.x.send(rcMessage{Kind: kindHello, Hello: &mine}); err != nil {
		return err
	}
	m, err := v.x.expect(ctx, kindHello, answerTime)
	if err != nil {
		return err
	}
	if m.Hello == nil {
		return fmt.Errorf("it says nothing of its queue pairs: %w", ErrRCPeer)
	}
	if err = v.e.connect(*m.Hello); err == nil {
		err = introduce(ctx, v.e)
	}
	if err == nil && v.e.cm != nil && v.e.cm.space == cm.UDP {
		err = v.found(ctx)
	}
	if err != nil {
		return err
	}
	return v.x.send(rcMessage{Kind: kindReady, Verified: v.e.verified, Traffic: v.port.traffic()})
}

// found answers the client's questions for queue pairs of datagrams, of which
// any may come again, until it says that it has found them all.
func (v *serving) found(ctx context.Context) error {
	for start := time.Now(); ; notify.Yield() {
		if time.Since(start) > answerTime {
			return fmt.Errorf("it has not said for %v that it has found all queue pairs: %w", answerTime, ErrRCPeer)
		}
		select {
		case m, ok := <-v.x.in:
			_, err := v.x.check(m, ok, kindReady)
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		default:
		}
		if _, err := v.e.cm.step(); err != nil {
			return err
		}
	}
}

// maxRCSlice is the most messages of a queue pair that a client may begin with.
const maxRCSlice = 1 << 30

// slice does the server's part of one: until the client wants to finish and
// all has arrived.
func (v *serving) slice(ctx context.Context, m rcMessage) error {
	if m.N < 1 || m.N > maxRCSlice {
		return fmt.Errorf("it begins with %d messages: %w", m.N, ErrRCPeer)
	}
	v.handOver()
	v.e.begin(m.N, m.Each)
	if err := v.x.send(rcMessage{Kind: kindBegun}); err != nil {
		return err
	}
	if err := v.work(ctx); err != nil {
		return err
	}
	if err := v.e.verify(); err != nil {
		return err
	}
	return v.x.send(rcMessage{
		Kind: kindFinished, Verified: v.e.verified, Traffic: v.port.traffic(), Arrival: v.e.arrival(),
	})
}

func (v *serving) handOver() {
	if v.e.test.fenced() {
		v.e.handOver()
	}
}

// work drives the server's end until it is told to finish and has done so.
func (v *serving) work(ctx context.Context) error {
	finish := false
	for idle := 0; !finish || !v.e.complete(); idle++ {
		if v.e.step() || v.e.help() {
			idle = 0
			continue
		}
		if v.e.failed != nil {
			return v.e.failed
		}
		v.e.came.look()
		if finish && v.e.left == 0 {
			v.e.settle()
		}
		told, err := v.told(ctx, finish)
		if err != nil {
			return err
		}
		if told {
			finish = true
			v.handOver()
			continue
		}
		if err := v.rest(idle); err != nil {
			return err
		}
	}
	return nil
}

// told looks for the client's word that it is time to finish. It waits for it
// where the device works without being polled and nothing else is expected.
func (v *serving) told(ctx context.Context, already bool) (bool, error) {
	if !already && v.e.complete() && v.e.test.Executor != "inline" {
		m, err := v.next(ctx)
		if err == nil {
			_, err = v.x.check(m, true, kindFinish)
		}
		return err == nil, err
	}
	select {
	case m, ok := <-v.x.in:
		_, err := v.x.check(m, ok, kindFinish)
		return err == nil, err
	default:
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		return false, nil
	}
}

// rest is what the server does when there is nothing for it to do.
func (v *serving) rest(idle int) error {
	switch {
	case v.e.test.Events && !v.e.complete():
		return v.e.wait(v.x.alive)
	case v.e.test.Executor == "inline" && v.port.dev.Drive(0):
	default:
		v.e.spin(idle)
	}
	return nil
}
