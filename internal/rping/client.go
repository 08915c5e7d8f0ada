package rping

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

// Client pings the server at an address and a port, from a device. The result
// counts also when there is an error.
func Client(ctx context.Context, t Test, dev *verbs.Device, server netip.AddrPort) (r Result, err error) {
	if err = t.Verify(); err != nil {
		return r, err
	}
	d, err := newDesk(dev)
	if err != nil {
		return r, err
	}
	running, stop := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_ = d.run(running, func(id *cm.ID) { _ = id.Close() }) // nobody asks a client
	}()
	r, err = t.call(ctx, d, server)
	stop()
	<-over
	if closing := d.ch.Close(); err == nil && closing != nil {
		err = fmt.Errorf("close the connection manager: %w", closing)
	}
	return r, err
}

// call connects, pings, and leaves.
func (t *Test) call(ctx context.Context, d *desk, server netip.AddrPort) (r Result, err error) {
	id, err := d.ch.NewID(cm.TCP, nil)
	if err != nil {
		return r, err
	}
	s := newSession(ctx, t, d, id)
	defer func() {
		if closing := s.close(); err == nil && closing != nil {
			err = fmt.Errorf("close the connection: %w", closing)
		}
	}()
	if err = s.connect(server); err != nil {
		return r, err
	}
	err = s.pings()
	switch {
	case errors.Is(err, errLeft):
		err = rendezvous.Errorf(rendezvous.ErrPeer, "the server has ended the connection in ping %d: what it printed may say why", s.result.Count)
	case ctx.Err() == nil || err == nil:
		err = errors.Join(err, s.leave())
	default:
		_ = s.leave() // the interruption is what counts
	}
	return s.result, err
}

// connect makes the connection, ready for the server's first READ.
func (s *session) connect(server netip.AddrPort) error {
	s.t.step(fmt.Sprintf("connect to %v", server))
	if err := s.id.ResolveAddr(server); err != nil {
		return err
	}
	if err := s.expect(cm.AddrResolved); err != nil {
		return err
	}
	if err := s.id.ResolveRoute(); err != nil {
		return err
	}
	if err := s.expect(cm.RouteResolved); err != nil {
		return err
	}
	if err := s.equip(2 * s.t.Size); err != nil {
		return err
	}
	return s.reach()
}

// errNobody is the kind of error when no server listens. It may begin to.
var errNobody = fmt.Errorf("nobody listens: %w", rendezvous.ErrPeer)

// How long a client waits before it asks once more whether a server listens:
// twice as long each time.
const (
	firstPause = 10 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// reach asks for the connection. The server may be a little late.
func (s *session) reach() error {
	start := time.Now()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		if err := s.id.Connect(cm.ConnParam{
			ResponderResources: 1, InitiatorDepth: 1, RetryCount: retryCount, RNRRetry: rnrRetry,
		}); err != nil {
			return err
		}
		err := s.expect(cm.Established)
		if !errors.Is(err, errNobody) || time.Since(start) > rendezvous.Patience {
			return err
		}
		select {
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-time.After(pause):
		}
	}
}

// pings sends the texts, one after another.
func (s *session) pings() error {
	s.begin = time.Now()
	for n := 0; s.t.Count == 0 || n < s.t.Count; n++ {
		if err := s.ping(n); err != nil {
			return err
		}
	}
	return nil
}

// ping sends text n there and back.
func (s *session) ping(n int) error {
	size := s.t.Size
	source, sink := s.text(size), s.mem[textAt+size:]
	fill(source, n)
	if s.t.Check {
		for i := range sink { // the text before this one must not pass for it
			sink[i] = 0xff // which no text has
		}
	}
	at := s.mr.Addr() + textAt
	s.t.step(fmt.Sprintf("ping %d: advertise the source", n))
	if err := s.send(advert{at, s.mr.RKey(), uint32(size)}); err != nil {
		return err
	}
	if err := s.wait(sent|received, "the go-ahead of the server, which has to READ first"); err != nil {
		return err
	}
	s.t.step(fmt.Sprintf("ping %d: advertise the sink", n))
	if err := s.send(advert{at + uint64(size), s.mr.RKey(), uint32(size)}); err != nil {
		return err
	}
	if err := s.wait(sent|received, "word of the server that it has written"); err != nil {
		return err
	}
	if s.t.Check {
		if err := compare(sink, source, n); err != nil {
			return err
		}
	}
	if s.t.Ping != nil {
		s.t.Ping(sink[:size-1])
	}
	s.note(size)
	return nil
}
