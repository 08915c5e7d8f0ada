package pingpong

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

// opponents opens and connects both ends. The server believes that the client's
// first PSN is so much greater than it is.
func opponents(t *testing.T, test Test, ahead int) (server, client *end) {
	t.Helper()
	open := func(client bool) *end {
		at := ours
		if client {
			at = theirs
		}
		e, err := openEnd(test, at, client)
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := e.close(); err != nil {
				t.Error(err)
			}
		})
		return e
	}
	server, client = open(false), open(true)
	named := client.local
	named.PSN = named.PSN.Add(ahead)
	if err := errors.Join(server.connect(named), client.connect(server.local)); err != nil {
		t.Fatal(err)
	}
	return server, client
}

// sends has an end send its first message.
func sends(t *testing.T, e *end) {
	t.Helper()
	g := &game{e: e, pending: recvID, receives: e.test.Depth, progress: time.Now()}
	if err := g.post(); err != nil {
		t.Error(err)
		return
	}
	for end := time.Now().Add(10 * time.Second); e.dev.Counter("sent_pkts") == 0; e.dev.Drive(0) {
		if time.Now().After(end) {
			t.Error("the message has not left")
			return
		}
	}
}

// A meanwhile does something when it is asked for the first time whether it is
// done: between a look at the device and a look at the time.
type meanwhile struct {
	context.Context
	do func()
}

func (m *meanwhile) Err() error {
	if m.do != nil {
		m.do()
		m.do = nil
	}
	return m.Context.Err()
}

// Whoever had no CPU for as long as the limit has a message, and does not look
// at the time only.
func TestAMessageThatIsThereIsNotLostWhenTheLimitIsOver(t *testing.T) {
	for _, service := range []verbs.QPType{verbs.UC, verbs.UD} {
		for _, events := range []bool{false, true} {
			t.Run(name(service), func(t *testing.T) {
				test := NewTest(service)
				test.Size, test.Events = 64, events
				server, client := opponents(t, test, 0)
				g := &game{e: server, pending: recvID, receives: test.Depth, progress: time.Now().Add(-time.Hour), empty: looks - 1}
				ctx := &meanwhile{t.Context(), func() { sends(t, client) }}
				if events {
					server.cq.Arm(false)
					_ = ctx.Err()
				}
				for g.received == 0 {
					if err := g.turn(ctx); err != nil {
						t.Fatalf("events %v: %v", events, err)
					}
				}
			})
		}
	}
}

// What both ends count says whether a packet has left, has come, and what became
// of it.
func TestAnEndSaysWhatBecameOfPackets(t *testing.T) {
	test := NewTest(verbs.UC)
	test.Size, test.Limit = 64, 50*time.Millisecond
	server, client := opponents(t, test, 10)
	sends(t, client)
	g := &game{e: server, pending: recvID, receives: test.Depth, progress: time.Now()}
	var err error
	for err == nil {
		err = g.turn(t.Context())
	}
	if !errors.Is(err, rendezvous.ErrLost) || !strings.Contains(err.Error(), "PSNs from before the one that it named (drop_late 1)") ||
		!strings.HasSuffix(err.Error(), "; counted here: sent_pkts 0, rcvd_pkts 1, drop_late 1") {
		t.Errorf("the server: %v", err)
	}
	if got, want := client.tally(), "sent_pkts 1, rcvd_pkts 0"; got != want {
		t.Errorf("the client counted %s, want %s", got, want)
	}
}

// A client that has all answers needs no acknowledgement of its last message. A
// server does, and so does a client that misses an answer.
func TestTheLastAcknowledgementIsNotMissedWhereTheAnswerIsThere(t *testing.T) {
	server, client := opponents(t, NewTest(verbs.RC), 0)
	n := client.test.Iters
	for _, c := range []struct {
		what     string
		e        *end
		received int
		fails    bool
	}{
		{"client with all answers", client, n, false},
		{"client without the last", client, n - 1, true},
		{"server", server, n, true},
	} {
		g := &game{e: c.e, posted: n, sent: n - 1, received: c.received, pending: sendID}
		err := g.complete(&verbs.WC{ID: sendID, Status: verbs.WCRetryExc})
		if (err != nil) != c.fails || err == nil && g.sent != n {
			t.Errorf("%s: got error %v, %d of %d messages sent", c.what, err, g.sent, n)
		}
		flushed := g.complete(&verbs.WC{ID: recvID, Status: verbs.WCFlushErr})
		if (flushed != nil) != c.fails {
			t.Errorf("%s: a receive that is flushed behind it: got error %v", c.what, flushed)
		}
	}
}
