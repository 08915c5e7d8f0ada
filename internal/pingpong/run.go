package pingpong

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

// A Result is what one end has to tell. Rates are those of both directions
// together, as in the originals.
type Result struct {
	Bytes         int64   `json:"bytes"`
	Iters         int     `json:"iters"`
	Seconds       float64 `json:"seconds"`
	MbitPerSecond float64 `json:"mbit_per_s"`
	MicrosPerIter float64 `json:"usec_per_iter"`
	Validated     bool    `json:"validated"`       // each message was compared
	Checked       int     `json:"checked"`         // messages that were compared
	Times         *Times  `json:"times,omitempty"` // if asked for

	// Counters are those of the device that are not 0.
	Counters map[string]uint64 `json:"counters"`
}

// Times are nanoseconds from one receive to the next, as this program saw them.
type Times struct {
	Min     int64   `json:"min_ns"`
	Max     int64   `json:"max_ns"`
	Average float64 `json:"avg_ns"`
}

// intervals collects Times.
type intervals struct {
	last        time.Time
	n           int
	least, most time.Duration
	sum         time.Duration
}

func (i *intervals) add(now time.Time) {
	if !i.last.IsZero() {
		d := now.Sub(i.last)
		if i.n == 0 || d < i.least {
			i.least = d
		}
		i.most = max(i.most, d)
		i.sum += d
		i.n++
	}
	i.last = now
}

func (i *intervals) times() *Times {
	if i.n == 0 {
		return nil
	}
	return &Times{int64(i.least), int64(i.most), float64(i.sum) / float64(i.n)}
}

// Told is called with what an end knows as soon as it does; either may be nil.
type Told struct {
	Local, Remote func(Dest)
}

// Client plays with the server that listens at host:port.
func Client(ctx context.Context, t Test, at string, told Told) (r Result, err error) {
	if err := t.Verify(); err != nil {
		return r, err
	}
	conn, err := rendezvous.Dial(ctx, at, "start the server there first, with the same TCP port")
	if err != nil {
		return r, err
	}
	w := newWire(ctx, conn, t.Limit)
	defer w.close()
	if !t.Addr.IsValid() {
		if t.Addr, err = clientPlace(conn); err != nil {
			return r, err
		}
	}
	e, err := openEnd(t, t.Addr, true)
	if err != nil {
		return r, err
	}
	told.local(e.local)
	x := NewClientExchange(e.local)
	if err = w.shake(x); err != nil {
		_ = e.close() // the first error says why
		return r, err
	}
	peer, _ := x.Peer()
	return e.finish(ctx, peer, told, w)
}

// A Server waits for one client.
type Server struct {
	test Test
	end  *end // open already, or nil
	told Told
}

// NewServer makes a server. If the test names an address, the device is opened
// at once: a client need not come to find out that it cannot be.
func NewServer(t Test, told Told) (*Server, error) {
	s := &Server{test: t, told: told}
	if err := t.Verify(); err != nil {
		return nil, err
	}
	if t.Addr.IsValid() {
		return s, s.open(t.Addr)
	}
	return s, nil
}

func (s *Server) open(at netip.Addr) (err error) {
	if s.end, err = openEnd(s.test, at, false); err == nil {
		s.told.local(s.end.local)
	}
	return err
}

// Close gives up a server that has not served.
func (s *Server) Close() error {
	if s.end == nil {
		return nil
	}
	e := s.end
	s.end = nil
	return e.close()
}

// Serve plays with the client at the other end of conn, which it owns. It also
// closes the server.
func (s *Server) Serve(ctx context.Context, conn net.Conn) (r Result, err error) {
	w := newWire(ctx, conn, s.test.Limit)
	defer w.close()
	x := NewServerExchange()
	if err = s.meet(ctx, w, x); err != nil {
		_ = s.Close() // the first error says why
		return r, err
	}
	e := s.end
	s.end = nil
	peer, _ := x.Peer()
	return e.finish(ctx, peer, s.told, w)
}

// meet is the exchange. The originals' order: the queue pair can receive before
// the client hears of it.
func (s *Server) meet(ctx context.Context, w *wire, x *Exchange) error {
	if err := w.shake(x); err != nil {
		return err
	}
	peer, _ := x.Peer()
	if s.end == nil {
		at, err := s.place(ctx, peer)
		if err != nil {
			return err
		}
		if err = s.open(at); err != nil {
			return err
		}
	}
	if err := s.end.connect(peer); err != nil {
		return err
	}
	x.Answer(s.end.local)
	return w.shake(x)
}

// place chooses the address of the device for a client.
func (s *Server) place(ctx context.Context, peer Dest) (netip.Addr, error) {
	there := peer.GID.Addr()
	if there.IsUnspecified() || there.IsMulticast() {
		return there, checkPeer(netip.Addr{}, peer)
	}
	return serverPlace(ctx, there)
}

// finish plays and closes the end.
func (e *end) finish(ctx context.Context, peer Dest, told Told, w *wire) (r Result, err error) {
	defer func() {
		if closing := e.close(); err == nil && closing != nil {
			err = fmt.Errorf("close the device: %w", closing)
		}
	}()
	if told.Remote != nil {
		told.Remote(peer)
	}
	if e.client {
		if err = e.connect(peer); err != nil {
			return r, err
		}
	}
	w.close() // as the originals do: nothing more is said
	g, took, err := e.play(ctx)
	if e.test.Type == verbs.RC {
		e.linger(ctx)
	}
	if err != nil {
		return r, err
	}
	r = g.result(took)
	r.Counters = e.counters()
	return r, nil
}

func (t Told) local(d Dest) {
	if t.Local != nil {
		t.Local(d)
	}
}

// result computes what the originals print.
func (g *game) result(took time.Duration) Result {
	n := g.e.test.Iters
	r := Result{Bytes: 2 * int64(g.e.test.Size) * int64(n), Iters: n, Seconds: took.Seconds(), Times: g.intervals.times()}
	if micros := float64(took.Nanoseconds()) / 1000; micros > 0 {
		r.MbitPerSecond, r.MicrosPerIter = float64(r.Bytes)*8/micros, micros/float64(n)
	}
	if g.e.checker != nil {
		r.Checked = g.e.checker.done
		r.Validated = r.Checked == n
	}
	return r
}

// counters returns those that are not 0.
func (e *end) counters() map[string]uint64 {
	found := map[string]uint64{}
	for _, c := range e.dev.Counters() {
		if c.Value > 0 {
			found[c.Name] = c.Value
		}
	}
	return found
}
