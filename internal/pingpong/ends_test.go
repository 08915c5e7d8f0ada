package pingpong

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/verbs"
)

// patient is a local ACK timeout with which an end gives up after a second: where
// more threads poll than there are CPUs, one of them may not run for half of that.
const patient = 15

// together plays with both ends in this process.
func together(t *testing.T, server, client Test) (s, c Result) {
	t.Helper()
	server.Addr, client.Addr = ours, theirs
	w, err := NewServer(server, Told{})
	if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	l := tcp(t)
	ended := make(chan error, 1)
	go func() {
		var conn net.Conn
		conn, err := l.Accept()
		if err == nil {
			s, err = w.Serve(t.Context(), conn)
		}
		ended <- err
	}()
	c, err = Client(t.Context(), client, l.Addr().String(), Told{})
	if failed := <-ended; failed != nil {
		t.Errorf("the server: %v", failed)
	}
	if err != nil {
		t.Errorf("the client: %v", err)
	}
	return s, c
}

// Whoever is done first answers until the other one is, too: its last
// acknowledgement may be lost.
func TestBothEndsEndWellWhenAcknowledgementsAreLost(t *testing.T) {
	for seed := range uint64(16) {
		test := NewTest(verbs.RC)
		test.Size, test.Iters, test.AckTimeout, test.Check = 64, 4, patient, true
		test.Faults.Loss, test.Faults.Seed = 0.15, seed
		if s, c := together(t, test, test); !t.Failed() && (s.Checked != 4 || c.Checked != 4) {
			t.Errorf("seed %d: %d and %d messages were compared, want 4", seed, s.Checked, c.Checked)
		}
	}
}

func TestAnIterationHasNoWaitInIt(t *testing.T) {
	for _, service := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		test := NewTest(service)
		test.Iters, test.Size = 50, 64
		s, c := together(t, test, test)
		if each := time.Duration(1000 * c.MicrosPerIter); each > 50*time.Millisecond {
			t.Errorf("%s: %v for a message and its answer", name(service), each)
		}
		if n := s.Counters["rdma_recvs"]; !t.Failed() && n != 50 {
			t.Errorf("%s: the server's device received %d messages, want 50", name(service), n)
		}
	}
}

// The last message has a completion, too, however many there are.
func TestOneCompletionStandsForManyMessages(t *testing.T) {
	for _, service := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		for _, c := range []struct {
			iters, moderation int
			want              uint64
		}{{50, 16, 4}, {48, 16, 3}, {5, 16, 1}, {50, 1, 50}, {3, MaxModeration, 1}} {
			client := NewTest(service)
			client.Iters, client.Size, client.Check, client.Events = c.iters, 3000, true, c.iters == 48
			server := client
			client.Moderation = c.moderation
			s, r := together(t, server, client)
			if n := r.Counters["rdma_sends"]; n != c.want || !r.Validated {
				t.Errorf("%s, %+v: %d completions, validated %v", name(service), c, n, r.Validated)
			}
			if n := s.Counters["rdma_sends"]; n != uint64(c.iters) || !s.Validated {
				t.Errorf("%s, %+v: the server has %d completions, validated %v", name(service), c, n, s.Validated)
			}
		}
	}
}

// With few completions much is outstanding, and sent again, while its memory has
// the next message already.
func TestMessagesWithoutCompletionsAreRepaired(t *testing.T) {
	for seed := range uint64(8) {
		test := NewTest(verbs.RC)
		test.Size, test.Iters, test.AckTimeout, test.Check, test.Moderation = 3000, 100, patient, true, 16
		test.Faults.Loss, test.Faults.Dup, test.Faults.Reorder, test.Faults.Seed = 0.03, 0.03, 0.03, seed
		if s, c := together(t, test, test); !t.Failed() && (!s.Validated || !c.Validated) {
			t.Errorf("seed %d: %d and %d messages were compared, want 100", seed, s.Checked, c.Checked)
		}
	}
}

// A canceller calls itself when it has been written to so many times.
type canceller struct {
	left   int
	cancel func()
}

func (c *canceller) Write(b []byte) (int, error) {
	if c.left--; c.left == 0 {
		c.cancel()
	}
	return len(b), nil
}

// Messages that come fast, one after another, keep nobody from being interrupted:
// the device is never idle for long.
func TestAnInterruptIsHeardWhileMessagesFlow(t *testing.T) {
	for _, service := range []verbs.QPType{verbs.RC, verbs.UC, verbs.UD} {
		for _, events := range []bool{false, true} {
			ctx, cancel := context.WithCancel(t.Context())
			test := NewTest(service)
			test.Iters, test.Size, test.Events = 20_000, 64, events
			server, client := test, test
			server.Addr, client.Addr = ours, theirs
			client.Capture = &canceller{100, cancel}
			w, err := NewServer(server, Told{})
			if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, errors.ErrUnsupported) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			l := tcp(t)
			ended := make(chan error, 1)
			go func() {
				conn, err := l.Accept()
				if err == nil {
					_, err = w.Serve(ctx, conn)
				}
				ended <- err
			}()
			if _, err = Client(ctx, client, l.Addr().String(), Told{}); !errors.Is(err, context.Canceled) {
				t.Errorf("%s, events %v: the client has %v, want %v", name(service), events, err, context.Canceled)
			}
			if err = <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("%s, events %v: the server has %v, want %v", name(service), events, err, context.Canceled)
			}
			cancel()
		}
	}
}
