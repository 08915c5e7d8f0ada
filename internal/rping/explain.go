package rping

import (
	"context"
	"errors"
	"time"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

// errLeft is why the connection ended when the other end, or this one, has
// disconnected.
var errLeft = errors.New("the other end has disconnected")

// happened takes an event of the connection manager.
func (s *session) happened(e cm.Event) {
	switch e.Type {
	case cm.Disconnected:
		s.end(errLeft)
		return
	case cm.AddrError, cm.ConnectError, cm.Unreachable, cm.Rejected:
		if !unheard(e) {
			s.end(s.unconnected(e))
			return
		}
	case cm.AddrResolved, cm.RouteResolved, cm.Established, cm.ConnectRequest, cm.TimewaitExit:
	}
	select {
	case s.events <- e:
	default: // nobody waits for that many
	}
}

// unheard reports whether nobody listens, which does not end a session: it may
// ask again.
func unheard(e cm.Event) bool { return e.Type == cm.Rejected && e.Reason == cm.ReasonNoListener }

// expect waits for an event.
func (s *session) expect(want cm.EventType) error {
	limit := time.NewTimer(s.t.Limit)
	defer limit.Stop()
	for {
		select {
		case e := <-s.events:
			switch {
			case e.Type == want:
				return nil
			case unheard(e):
				return s.unconnected(e)
			}
		case <-s.ctx.Done():
			return context.Cause(s.ctx)
		case <-limit.C:
			return rendezvous.Errorf(rendezvous.ErrLost, "%v has not answered for %v: %s", s.id.PeerAddr(), s.t.Limit, s.nothing("a server runs there"))
		}
	}
}

// unconnected says why there is no connection.
func (s *session) unconnected(e cm.Event) error {
	peer := s.id.PeerAddr()
	switch {
	case unheard(e):
		return rendezvous.Errorf(errNobody, "nobody listens on port %d of %v: start the server first, with the same -p, and -a with that address", peer.Port(), peer.Addr())
	case e.Type == cm.Rejected && e.Reason == cm.ReasonConsumer:
		return rendezvous.Errorf(rendezvous.ErrPeer, "%v refuses: it serves another client, or is no rping server; start the server with -P for several clients", peer)
	case e.Type == cm.Rejected && e.Reason == cm.ReasonInvalidMTU:
		return rendezvous.Errorf(rendezvous.ErrPeer, "the network of %v carries smaller packets than that of %v, where the path MTU is %v: give both interfaces the same MTU",
			peer.Addr(), s.id.LocalAddr().Addr(), s.desk.ch.Device().Port().ActiveMTU)
	case e.Type == cm.Rejected:
		return rendezvous.Errorf(rendezvous.ErrPeer, "%v refuses the connection: %v", peer, e.Reason)
	case e.Type == cm.Unreachable:
		return rendezvous.Errorf(rendezvous.ErrLost, "%v does not answer: %s", peer, s.nothing("rping runs there"))
	case e.Type == cm.AddrError:
		return rendezvous.Errorf(rendezvous.ErrPeer, "%v cannot be reached from %v: choose an address of this machine with --addr from which it can (%w)",
			peer.Addr(), s.id.LocalAddr().Addr(), e.Err)
	}
	return rendezvous.Errorf(rendezvous.ErrPeer, "the connection to %v could not be made: %w", peer, e.Err)
}

// failed says what a completion in error means.
func (s *session) failed(c *verbs.WC) error {
	peer := s.id.PeerAddr()
	switch c.Status {
	case verbs.WCFlushErr:
		return s.flushed()
	case verbs.WCRetryExc:
		return rendezvous.Errorf(rendezvous.ErrLost, "%v acknowledges nothing any more, asked %d times: %s", peer, retryCount+1, s.nothing("it still runs"))
	case verbs.WCRemAccessErr:
		return rendezvous.Errorf(rendezvous.ErrPeer, "%v refuses access to the %d bytes at 0x%x that it has advertised, with key 0x%x", peer, s.last.size, s.last.addr, s.last.rkey)
	case verbs.WCLocLenErr:
		return rendezvous.Errorf(rendezvous.ErrPeer, "a message from %v is longer than those of rping: is rping at the other end", peer)
	}
	what := map[uint64]string{received: "receive", sent: "message", moved: "READ or WRITE"}[c.ID]
	return rendezvous.Errorf(rendezvous.ErrPeer, "%s: %v (%d): what %v printed may say why", what, c.Status.Description(), c.Status, peer)
}

// flushed says why the queue pair has failed: as a rule because the connection
// has ended, which the connection manager is about to tell.
func (s *session) flushed() error {
	select {
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	case <-time.After(time.Second):
	}
	return rendezvous.Errorf(rendezvous.ErrPeer, "the queue pair has failed at something that %v asked for: what that end printed may say why", s.id.PeerAddr())
}

// silent says that nothing happens any more.
func (s *session) silent(what string) error {
	return rendezvous.Errorf(rendezvous.ErrLost, "%v has said nothing for %v, and %s was to come: %s", s.id.PeerAddr(), s.t.Limit, what, s.nothing("it still runs"))
}

// nothing says what the counters tell about packets that do not arrive.
func (s *session) nothing(hope string) string {
	d := s.desk.ch.Device()
	return rendezvous.Silence(d.Counter, d.Addr(), s.id.PeerAddr().Addr(), hope)
}
