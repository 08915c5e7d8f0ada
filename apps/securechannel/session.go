package securechannel

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/side"
)

// A session is one side of a run. Its fields belong to the goroutine of the
// caller, but for the producer and the consumer, each of which has one of its
// own from exchange on.
type session struct {
	Options
	engine *core.Engine
	device *device.Device
	rep    *device.Representor // of the DPU
	server *comch.Server       // of the DPU
	client *comch.Client       // of the host
	conn   *comch.Connection   // nil until the sides have met
	lost   error               // the other side is gone
	failed error

	peer     *start // what the other side sends
	ended    bool   // the other side has said END
	consumer chan uint16
	told     bool // consumer has it
	producer producer
	receiver receiver
}

// sendTasks is how many control messages can be on their way.
const sendTasks = 1024

func (s *session) result() Result {
	return Result{Side: s.Side, Size: s.Size,
		Sent: s.producer.done.Load(), Sending: s.producer.took,
		Received: s.receiver.done.Load(), Receiving: s.receiver.took}
}

// run goes through the phases.
func (s *session) run(ctx context.Context) (err error) {
	s.consumer = make(chan uint16, 1)
	if s.engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, s.close()) }()
	if err = s.open(); err != nil {
		return err
	}
	if err = s.meet(ctx); err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, s.leave()) }()
	return s.explain(s.talk(ctx))
}

// talk is all that happens between two sides that have met.
func (s *session) talk(ctx context.Context) error {
	if err := s.say(start{s.Messages, s.Size}.encode()); err != nil {
		return err
	}
	if err := s.drive(ctx, func() bool { return s.peer != nil }); err != nil {
		return err
	}
	if err := s.exchange(ctx); err != nil {
		return err
	}
	if s.Side == DPU {
		if err := s.say(encodeEnd()); err != nil {
			return err
		}
		// The host leaves when it has read it.
		_ = s.drive(ctx, func() bool { return s.lost != nil })
		return nil
	}
	return s.drive(ctx, func() bool { return s.ended })
}

// explain replaces an error that only follows from the end of the connection by
// what ended it: whichever call met the end first, the reason reads the same.
func (s *session) explain(err error) error {
	reason := s.conn.Err()
	switch core.StatusOf(err) {
	case core.ErrConnectionReset, core.ErrBadState:
		if reason != nil {
			return gone(reason)
		}
	}
	return err
}

// gone is the error of a side whose peer is not there any more.
func gone(reason error) error {
	return fmt.Errorf("the other side ended before all messages were through: %w", reason)
}

// open makes this side's end of the control path.
func (s *session) open() (err error) {
	if s.Side == DPU {
		if s.device, s.rep, err = side.OpenDPU(s.Device, s.Representor); err != nil {
			return err
		}
		if s.server, err = comch.NewServer(s.device, s.rep, s.service); err != nil {
			return err
		}
		core.KeepFirst(&err, s.engine.Connect(&s.server.Context))
		core.KeepFirst(&err, s.server.ConfigureSend(s.sent, s.sent, sendTasks))
		core.KeepFirst(&err, s.server.SetMessageFunc(s.heard))
		core.KeepFirst(&err, s.server.SetConsumerFuncs(s.found, func(*comch.Connection, uint16) {}))
		core.KeepFirst(&err, s.server.SetConnectionFuncs(s.connected, s.disconnected))
		return err
	}
	if s.device, err = side.OpenHost(s.Device); err != nil {
		return err
	}
	if s.client, err = comch.NewClient(s.device, s.service); err != nil {
		return err
	}
	core.KeepFirst(&err, s.engine.Connect(&s.client.Context))
	core.KeepFirst(&err, s.client.ConfigureSend(s.sent, s.sent, sendTasks))
	core.KeepFirst(&err, s.client.SetMessageFunc(s.heard))
	core.KeepFirst(&err, s.client.SetConsumerFuncs(s.found, func(*comch.Connection, uint16) {}))
	return err
}

// drive progresses the control path until done says so, the other side is gone,
// or something failed.
func (s *session) drive(ctx context.Context, done func() bool) error {
	err := s.engine.Run(ctx, func() bool {
		s.look()
		return done() || s.lost != nil || s.failed != nil
	})
	switch {
	case err != nil:
		return err
	case s.failed != nil:
		return s.failed
	case done():
		return nil
	}
	return gone(s.lost)
}

// look finds out whether the host's connection is over.
func (s *session) look() {
	if s.client != nil && s.conn != nil && s.lost == nil && s.client.State() != core.Running {
		if s.lost = s.client.Err(); s.lost == nil {
			s.lost = core.ErrConnectionReset
		}
	}
}

// connected takes the first client, and sends others away.
func (s *session) connected(c *comch.Connection, _ bool) {
	if s.conn == nil {
		s.conn = c
		return
	}
	_ = s.server.Disconnect(c)
}

func (s *session) disconnected(c *comch.Connection, _ bool) {
	if c != s.conn {
		return
	}
	if s.lost = c.Err(); s.lost == nil {
		s.lost = core.ErrConnectionReset
	}
}

// heard takes a control message.
func (s *session) heard(c *comch.Connection, b []byte) {
	if s.conn != nil && c != s.conn {
		return
	}
	m, err := parse(b)
	switch {
	case err != nil:
		core.KeepFirst(&s.failed, err)
	case m == nil && s.Side == Host && s.peer != nil:
		s.ended = true
	case m != nil && s.peer == nil:
		s.peer = m
	default:
		core.KeepFirst(&s.failed, fmt.Errorf("the other side sent a control message that makes no sense now: %w", core.ErrUnexpected))
	}
}

// found hands the other side's consumer to the producer.
func (s *session) found(c *comch.Connection, id uint16) {
	if !s.told && (s.conn == nil || c == s.conn) { // a host is told of its connection later
		s.told = true
		s.consumer <- id
	}
}

// sent is the callback of control messages, good and bad ones: what became of
// the peer is found out elsewhere.
func (s *session) sent(t *comch.Send) { core.KeepFirst(&s.failed, t.Free()) }

// say sends a control message.
func (s *session) say(b []byte) error {
	alloc := func() (*comch.Send, error) { return s.client.AllocSend(s.conn, b) }
	if s.Side == DPU {
		alloc = func() (*comch.Send, error) { return s.server.AllocSend(s.conn, b) }
	}
	t, err := alloc()
	if err != nil {
		return err
	}
	if err = t.Submit(); err != nil {
		return errors.Join(err, t.Free())
	}
	return nil
}

// exchange runs the producer and the consumer, and the control path until both
// are through. Both also end when one of them fails, or the other side is gone.
func (s *session) exchange(ctx context.Context) error {
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var left atomic.Int32
	left.Store(2)
	results := make(chan error, 2)
	for _, half := range []func(context.Context) error{
		func(ctx context.Context) error { return s.producer.run(ctx, s) },
		func(ctx context.Context) error { return s.receiver.run(ctx, s) },
	} {
		go func() {
			err := half(running)
			results <- err
			if err != nil {
				cancel(err)
			} else if left.Add(-1) == 0 {
				cancel(errThrough)
			}
		}()
	}
	stop := s.report()
	err := s.drive(running, func() bool { return false })
	cancel(err)
	first, second := <-results, <-results
	stop()
	switch {
	case errors.Is(err, errThrough):
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.failed == nil && s.lost == nil && err == nil:
		return errors.Join(first, second)
	}
	return err
}

// errThrough ends the control path's part in the exchange.
var errThrough = errors.New("both directions are through")

// report tells Progress now and then, until stop.
func (s *session) report() (stop func()) {
	if s.Progress == nil {
		return func() {}
	}
	total := s.Messages + s.peer.messages
	quit, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				s.Progress(s.producer.done.Load()+s.receiver.done.Load(), total)
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-over
	}
}
