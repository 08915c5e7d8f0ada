package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

// A Server answers pings.
type Server struct {
	t    Test
	desk *desk
	id   *cm.ID
	stop context.CancelFunc // of Serve

	clients sync.WaitGroup
	mu      sync.Mutex
	busy    int // clients that are there
	tally   Tally
	err     error // of the only client
}

// A Tally is what a server has done.
type Tally struct {
	Result
	Clients int `json:"clients"` // that were there
	Failed  int `json:"failed"`  // of these, that did not leave as they should
}

// maxClients is how many a server takes at a time. The rest is refused.
const maxClients = 256

// Listen makes a server on a device. Port 0 stands for one that is free.
func Listen(t Test, dev *verbs.Device, port uint16) (*Server, error) {
	if err := t.Verify(); err != nil {
		return nil, err
	}
	d, err := newDesk(dev)
	if err != nil {
		return nil, err
	}
	s := &Server{t: t, desk: d, tally: Tally{Result: Result{Verified: t.Check}}}
	if s.id, err = d.ch.NewID(cm.TCP, nil); err == nil {
		err = s.id.Listen(netip.AddrPortFrom(dev.Addr(), port), maxClients)
	}
	if err != nil {
		_ = d.ch.Close() // the first error says why
		return nil, fmt.Errorf("listen on port %d: %w", port, err)
	}
	return s, nil
}

// Addr returns where the server listens.
func (s *Server) Addr() netip.AddrPort { return s.id.LocalAddr() }

// Close gives the server up. The device stays.
func (s *Server) Close() error { return s.desk.ch.Close() }

// Serve answers the pings of one client, and returns what was wrong with it; or
// of many clients, until the context is done: then it returns why that is. The
// tally counts in any case.
func (s *Server) Serve(ctx context.Context) (Tally, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	s.stop = stop
	err := s.desk.run(ctx, func(id *cm.ID) { s.asked(ctx, id) })
	stop()
	s.clients.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tally.Verified = s.tally.Verified && s.tally.Count > 0
	if !s.t.Many && s.tally.Clients > 0 {
		err = s.err
	}
	return s.tally, err
}

// asked takes a client, or refuses it.
func (s *Server) asked(ctx context.Context, id *cm.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy == maxClients || !s.t.Many && s.tally.Clients+s.busy > 0 {
		_ = id.Reject(nil) // one that has given up meanwhile need not know
		_ = id.Close()
		return
	}
	s.busy++
	one := newSession(ctx, &s.t, s.desk, id)
	s.clients.Go(func() { s.attend(ctx, one) })
}

// attend is one client from its request to its end.
func (s *Server) attend(ctx context.Context, one *session) {
	peer := one.id.PeerAddr()
	err := one.answer()
	if errors.Is(err, errLeft) {
		err = rendezvous.Errorf(rendezvous.ErrPeer, "the client has left in the middle of ping %d", one.result.Count)
	} else if err != nil && one.ctx.Err() == nil {
		err = errors.Join(err, one.leave())
	}
	if closing := one.close(); err == nil && closing != nil {
		err = fmt.Errorf("close the connection: %w", closing)
	}
	s.ended(peer, one.result, err, ctx.Err() != nil)
}

// ended counts a client. One that the end of the server has cut off is no
// failure of the client's.
func (s *Server) ended(peer netip.AddrPort, r Result, err error, cut bool) {
	if s.t.Ended != nil && !cut {
		s.t.Ended(peer, r, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy--
	t := &s.tally
	t.Clients++
	t.Count += r.Count
	t.Size = max(t.Size, r.Size)
	t.Seconds += r.Seconds
	if err != nil && !cut {
		t.Failed++
		t.Verified = t.Verified && !errors.Is(err, rendezvous.ErrContents)
	}
	if s.t.Many {
		return
	}
	s.err = err
	s.stop()
}

// answer accepts a client and answers its pings, until it leaves.
func (s *session) answer() error {
	s.t.step(fmt.Sprintf("accept %v", s.id.PeerAddr()))
	if err := s.equip(MaxSize); err != nil {
		return err
	}
	if err := s.id.Accept(cm.ConnParam{ResponderResources: 1, InitiatorDepth: 1, RNRRetry: rnrRetry}); err != nil {
		return err
	}
	want := received
	for s.begin = time.Now(); ; want = received | sent {
		err := s.wait(want, fmt.Sprintf("ping %d", s.result.Count))
		if errors.Is(err, errLeft) && s.result.Count > 0 && s.done&received == 0 {
			return nil // between two pings
		}
		if err == nil && s.result.Count == 0 {
			// The last message of the set-up may be lost: this one says as much.
			err = s.id.NotifyEstablished()
		}
		if err == nil {
			err = s.pong(s.result.Count)
		}
		if err != nil {
			return err
		}
	}
}

// pong answers ping n, whose source has been advertised.
func (s *session) pong(n int) error {
	size := int(s.last.size)
	if size == 0 || size > MaxSize {
		return rendezvous.Errorf(rendezvous.ErrPeer, "the client has a text of %d bytes, and this server takes 1 to %d", s.last.size, MaxSize)
	}
	s.t.step(fmt.Sprintf("ping %d: READ %d bytes", n, size))
	if err := s.move(verbs.WRRDMARead, s.last, size); err != nil {
		return err
	}
	if err := s.wait(moved, "the answer to a READ"); err != nil {
		return err
	}
	text := s.text(size)
	if s.t.Check {
		want := make([]byte, size)
		fill(want, n)
		if err := compare(text, want, n); err != nil {
			return err
		}
	}
	if end := bytes.IndexByte(text, 0); end >= 0 {
		text = text[:end+1] // the original sends back what C calls the string
	}
	if s.t.Ping != nil {
		s.t.Ping(bytes.TrimSuffix(text, []byte{0}))
	}
	if err := s.send(advert{}); err != nil {
		return err
	}
	if err := s.wait(sent|received, "where the client wants its text back"); err != nil {
		return err
	}
	if int(s.last.size) < len(text) {
		return rendezvous.Errorf(rendezvous.ErrPeer, "the client has room for %d bytes, and its text has %d", s.last.size, len(text))
	}
	s.t.step(fmt.Sprintf("ping %d: WRITE %d bytes", n, len(text)))
	if err := s.move(verbs.WRRDMAWrite, s.last, len(text)); err != nil {
		return err
	}
	if err := s.wait(moved, "the acknowledgement of a WRITE"); err != nil {
		return err
	}
	if err := s.send(advert{}); err != nil {
		return err
	}
	s.note(size)
	return nil
}
