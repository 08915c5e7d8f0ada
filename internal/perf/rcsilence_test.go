package perf

import (
	"bufio"
	"bytes"
	"errors"
	"net"
	"strings"
	"testing"
	"time"
)

// mutedAt stands between a client and a server, and passes on what they say until
// the client says a word.
func mutedAt(t *testing.T, server, word string) (addr string) {
	t.Helper()
	l := listen(t)
	go func() {
		client, err := l.Accept()
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = client.Close() })
		far, err := net.Dial("tcp", server)
		if err != nil {
			return
		}
		t.Cleanup(func() { _ = far.Close() })
		go func() {
			for s := bufio.NewScanner(far); s.Scan(); {
				_, _ = client.Write(append(bytes.Clone(s.Bytes()), '\n'))
			}
		}()
		for s := bufio.NewScanner(client); s.Scan() && !bytes.Contains(s.Bytes(), []byte(word)); {
			_, _ = far.Write(append(bytes.Clone(s.Bytes()), '\n'))
		}
	}()
	return l.Addr().String()
}

// Nobody waits for ever for a server that stands still when all that was sent is
// acknowledged: not for its last word, and not for an answer that it owes.
func TestRCServerSaysNothingMore(t *testing.T) {
	lastWord := func(r *rcRun) { r.slice(20, false) }
	answer := func(r *rcRun) {
		r.a.left++ // what never comes
		r.fail(r.drive(r.a.moved))
	}
	for _, c := range []struct {
		what, op string
		events   bool
		waits    func(*rcRun)
	}{
		{"the last word, polling", "write_bw", false, lastWord},
		{"the last word, events", "send_bw", true, lastWord},
		{"an answer, polling", "send_lat", false, answer},
		{"an answer, events", "send_lat", true, answer},
	} {
		t.Run(c.what, func(t *testing.T) {
			addr, ended := served(t)
			t.Cleanup(func() { // the next server has the same address
				select {
				case <-ended:
				case <-time.After(10 * time.Second):
					t.Error("the server does not end")
				}
			})
			client := dialed(t, mutedAt(t, addr, `"finish"`))
			test := testOf(c.op, func(t *RCTest) {
				if t.Events = c.events; c.events {
					t.Executor = "tasklet"
				}
			})
			err := client.connected(t.Context(), test, func(r *rcRun) error {
				go r.watch(50 * time.Millisecond)
				c.waits(r)
				return r.failed
			})
			skipWithout(t, err)
			if !errors.Is(err, ErrRCPeer) || !strings.Contains(err.Error(), loopback(3).String()+" does not answer any more: nothing has happened for 50ms: ") ||
				!strings.Contains(err.Error(), "look whether gantry perf still runs there, on "+loopback(3).String()) {
				t.Errorf("got error %v, want one that says that nothing happens", err)
			}
		})
	}
}
