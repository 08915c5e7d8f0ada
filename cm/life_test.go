package cm_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// hasty is for tests in which somebody does not answer: for half a second,
// because machines that run tests stand still at times.
var hasty = Times{Response: 13, Retries: 12, AckTimeout: 10}

// A gate is a link whose owner can vanish: nothing leaves any more.
type gate struct {
	link.Link
	dead *link.Faulty
	shut atomic.Bool
}

func (g *gate) Send(frames []*frame.Frame) int {
	if g.shut.Load() {
		return g.dead.Send(frames)
	}
	return g.Link.Send(frames)
}

func (g *gate) Close() error { return g.dead.Close() }

// gated opens a pair whose second device can vanish.
func gated(t *testing.T, x work.Executor) (world, *gate) {
	t.Helper()
	var g *gate
	a, b, err := verbs.OpenPair(verbs.Config{Executor: x}, verbs.Config{Executor: x,
		Wrap: func(l link.Link) (link.Link, error) {
			g = &gate{Link: l, dead: link.NewFaults(l, link.Faults{Loss: 1})}
			return g, nil
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, err := range []error{a.Close(), b.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
		x.Close()
	})
	return world{newParty(t, a), newParty(t, b)}, g
}

// TestPeerVanishes: whenever the other side falls silent, the program is told,
// and can give up everything.
func TestPeerVanishes(t *testing.T) {
	for _, e := range executors {
		t.Run(e.name, func(t *testing.T) {
			quick := usual("")
			quick.Times = hasty

			t.Run("before it answers", func(t *testing.T) {
				w, g := gated(t, e.make())
				w[1].listen(7, 4)
				c := w.call(w[0], w[1], 7)
				g.shut.Store(true)
				// The server waits for its program about as long as the client
				// waits for the server, and 17 seconds once it is asked again. To
				// hear of the end it must run now and then in these two seconds.
				patient := usual("")
				patient.Times = Times{Response: 15, Retries: 14, AckTimeout: 10}
				w[0].ok(c.Connect(patient))
				w.next(w[1], ConnectRequest)
				if e := w.next(w[0], Unreachable); !errors.Is(e.Err, ETIMEDOUT) {
					t.Errorf("got %v, want ETIMEDOUT", e.Err)
				}
				w.next(w[1], Rejected) // it hears that the client has given up
				w[0].ok(c.Connect(quick))
				w.next(w[0], Unreachable)
			})
			t.Run("after it accepted", func(t *testing.T) {
				w, g := gated(t, e.make())
				w[0].listen(7, 4) // now the one that stays is the server
				c := w.call(w[1], w[0], 7)
				w[1].ok(c.Connect(quick))
				s := w.next(w[0], ConnectRequest).ID
				must(s.CreateQP(w[0].pd, w[0].rc()))(t)
				g.shut.Store(true)
				w[0].ok(s.Accept(usual("")))
				w.next(w[0], Unreachable)
				if st := s.QP().State(); st != verbs.StateErr {
					t.Errorf("got queue pair in %v, want ERR", st)
				}
				w[0].ok(s.Disconnect()) // it is over already
			})
			t.Run("when connected", func(t *testing.T) {
				w, g := gated(t, e.make())
				w[1].listen(7, 4)
				c := w.call(w[0], w[1], 7)
				w[0].ok(c.Connect(quick))
				s := w.next(w[1], ConnectRequest).ID
				must(s.CreateQP(w[1].pd, w[1].rc()))(t)
				w[1].ok(s.Accept(usual("")))
				w.next(w[0], Established)
				w.next(w[1], Established)
				g.shut.Store(true)
				w[0].ok(c.Disconnect())
				w.next(w[0], Disconnected)
				w.next(w[0], TimewaitExit)
				w[0].ok(c.Close())
			})
		})
	}
}

// TestWhatHasComeGoesBeforeWhatIsLate: a server stands still until it is too late
// to answer. Meanwhile the client has given up and said so, and that is what the
// program hears.
func TestWhatHasComeGoesBeforeWhatIsLate(t *testing.T) {
	w, g := gated(t, work.NewInline()) // nobody moves but who is driven
	client, server := w[0], w[1]
	server.listen(7, 4)
	c := w.call(client, server, 7)
	g.shut.Store(true)
	quick := usual("")
	quick.Times = Times{Response: 15, Retries: 1, AckTimeout: 10}
	client.ok(c.Connect(quick))
	w.next(server, ConnectRequest)
	asked := time.Now()
	w[:1].next(client, Unreachable)
	took := time.Since(asked)
	until(t, "the time to answer to be over", func() bool { return time.Since(asked) > 3*took })
	w.next(server, Rejected)
}

var cycles = flag.Int("cm.cycles", 1000, "how often TestConnectAgainAndAgain connects")

// TestConnectAgainAndAgain connects and disconnects many times. Nothing grows,
// nothing is stale, and nothing has to be sent twice.
func TestConnectAgainAndAgain(t *testing.T) {
	for _, e := range executors {
		t.Run(e.name, func(t *testing.T) {
			n := *cycles
			if testing.Short() {
				n = min(n, 100)
			}
			a, b := pair(t, e.make())
			w := world{newParty(t, a), newParty(t, b)}
			client, server := w[0], w[1]
			server.listen(7, 4)
			quick := usual("")
			quick.Times.AckTimeout = 10 // and so is the time-wait
			var before, after runtime.MemStats
			for i := range n {
				if i == n/2 {
					runtime.GC()
					runtime.ReadMemStats(&before)
				}
				w.cycle(client, server, quick, i%2 == 0)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 4<<20 {
				t.Errorf("%d cycles have grown the heap by %d bytes", n/2, grown)
			}
			for _, p := range w {
				for _, c := range p.ch.Counters() {
					if c.Value != 0 && (c.Name == "rejects_10" || c.Name == "retried_DREQ" && e.name == "inline") {
						t.Errorf("got %d %s, want none", c.Value, c.Name)
					}
				}
			}
		})
	}
}

// cycle connects once and disconnects from either side.
func (w world) cycle(client, server *party, p ConnParam, byClient bool) {
	client.t.Helper()
	c := w.call(client, server, 7)
	client.ok(c.Connect(p))
	s := w.next(server, ConnectRequest).ID
	must(s.CreateQP(server.pd, server.rc()))(server.t)
	server.ok(s.Accept(usual("")))
	w.next(client, Established)
	w.next(server, Established)
	if byClient {
		client.ok(c.Disconnect())
	} else {
		server.ok(s.Disconnect())
	}
	w.next(client, Disconnected)
	w.next(server, Disconnected)
	client.ok(c.Close())
	server.ok(s.Close())
}

// welcome accepts everybody until ctx is done, and closes who leaves.
func welcome(ctx context.Context, p *party) (served int, err error) {
	for {
		e, err := p.ch.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return served, nil
		case err != nil:
			return served, err
		}
		switch e.Type {
		case ConnectRequest:
			if _, err = e.ID.CreateQP(p.pd, p.rc()); err == nil {
				err = e.ID.Accept(usual(""))
			}
		case Disconnected:
			served++
			err = e.ID.Close()
		case Established, TimewaitExit:
		default:
			err = fmt.Errorf("got %v: %v", e.Type, e.Err)
		}
		if err != nil {
			return served, err
		}
	}
}

// visit connects and disconnects n times, on a channel of its own.
func visit(ctx context.Context, p *party, to netip.AddrPort, n int) error {
	ch, err := Open(p.dev)
	if err != nil {
		return err
	}
	for range n {
		id, err := ch.NewID(TCP, nil)
		if err != nil {
			return err
		}
		for what := (Event{Type: 255}); err == nil && what.Type != Disconnected; {
			switch what.Type {
			case 255:
				err = id.ResolveAddr(to)
			case AddrResolved:
				err = id.ResolveRoute()
			case RouteResolved:
				if _, err = id.CreateQP(p.pd, p.rc()); err == nil {
					err = id.Connect(usual(""))
				}
			case Established:
				err = id.Disconnect()
			case TimewaitExit:
			default:
				err = fmt.Errorf("got %v: %v", what.Type, what.Err)
			}
			if err == nil {
				what, err = ch.Next(ctx)
			}
		}
		if err = errors.Join(err, id.Close()); err != nil {
			return err
		}
	}
	return ch.Close()
}

// TestTwoClientsAtOnce: the programs block in Next, each on a goroutine of its
// own; two clients share a device and its queue pair 1.
func TestTwoClientsAtOnce(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		const visits = 20
		l := w[1].listen(7, 16)
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		serving, stop := context.WithCancel(ctx)
		defer stop()
		var served int
		var serveErr error
		var server, clients sync.WaitGroup
		server.Go(func() { served, serveErr = welcome(serving, w[1]) })
		errs := make([]error, 2)
		for i := range errs {
			clients.Go(func() { errs[i] = visit(ctx, w[0], l.LocalAddr(), visits) })
		}
		clients.Wait()
		stop()
		server.Wait()
		for _, err := range append(errs, serveErr) {
			if err != nil {
				t.Error(err)
			}
		}
		if served == 0 || served > 2*visits {
			t.Errorf("served %d, want up to %d", served, 2*visits)
		}
	})
}

// TestConnectsOverABadNetwork: messages are lost, doubled and overtaken.
func TestConnectsOverABadNetwork(t *testing.T) {
	for _, e := range executors {
		t.Run(e.name, func(t *testing.T) {
			x, seed := e.make(), uint64(3)
			wrap := func(l link.Link) (link.Link, error) {
				seed++
				return link.NewFaults(l, link.Faults{Loss: 0.2, Dup: 0.2, Reorder: 0.1, Seed: seed}), nil
			}
			a, b, err := verbs.OpenPair(verbs.Config{Executor: x, Wrap: wrap}, verbs.Config{Executor: x, Wrap: wrap})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_, _ = a.Close(), b.Close() // packets may be kept by the network
				x.Close()
			})
			w := world{newParty(t, a), newParty(t, b)}
			w[1].listen(7, 4)
			quick := usual("")
			quick.Times = Times{Response: 14, Retries: 15, AckTimeout: 10}
			for i := range 10 {
				w.cycle(w[0], w[1], quick, i%2 == 0)
			}
			if counter(w[0].ch, "retried_REQ")+counter(w[1].ch, "retried_REP")+counter(w[0].ch, "retried_DREQ") == 0 {
				t.Error("nothing was sent again")
			}
		})
	}
}

// TestRequestsThatAreTakenBackLeaveNothing: a peer that asks and takes it back,
// again and again, does not fill the queue of a program that is slow.
func TestRequestsThatAreTakenBackLeaveNothing(t *testing.T) {
	a, b := pair(t, nil)
	w := world{newParty(t, a)} // the server does not look
	client, server := w[0], newParty(t, b)
	server.listen(7, 4)
	const times = 50
	for i := range times {
		c := w.call(client, server, 7)
		client.ok(c.Connect(usual("")))
		until(t, "a request", func() bool { return counter(server.ch, "received_REQ") == uint64(i+1) })
		client.ok(c.Close())
		until(t, "the end of it", func() bool { return counter(server.ch, "received_REJ") == uint64(i+1) })
	}
	c := w.call(client, server, 7)
	client.ok(c.Connect(usual("last")))
	until(t, "the last request", func() bool { return counter(server.ch, "received_REQ") == times+1 })
	e, ok := server.ch.TryNext()
	if !ok || e.Type != ConnectRequest || string(e.Param.PrivateData[:4]) != "last" {
		t.Errorf("got %v %v, want the last request", e.Type, ok)
	}
	if e, ok := server.ch.TryNext(); ok {
		t.Errorf("got %v, want nothing more", e.Type)
	}
}

// TestNextEndsWithItsContextAndItsChannel holds what a waiting program counts on.
func TestNextEndsWithItsContextAndItsChannel(t *testing.T) {
	everywhere(t, func(t *testing.T, w world) {
		ch := must(Open(w[0].dev))(t)
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		if _, err := ch.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
		}
		got := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := ch.Next(context.Background())
				got <- err
			}()
		}
		runtime.Gosched()
		w[0].ok(ch.Close())
		for range 2 {
			if err := <-got; !errors.Is(err, EBADF) {
				t.Errorf("got %v, want EBADF", err)
			}
		}
		if err := ch.Close(); !errors.Is(err, EBADF) {
			t.Errorf("closed twice: got %v, want EBADF", err)
		}
		if _, err := ch.NewID(TCP, nil); !errors.Is(err, EBADF) {
			t.Errorf("got %v, want EBADF", err)
		}
	})
}
