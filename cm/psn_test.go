package cm_test

import (
	"sync"
	"testing"

	. "github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// A spy keeps the last message of each kind that a device sends to a queue pair
// 1.
type spy struct {
	link.Link
	mu   sync.Mutex
	said map[mad.Attr]*mad.MAD
}

func (s *spy) Send(frames []*frame.Frame) int {
	s.mu.Lock()
	for _, f := range frames {
		if (*roce.BTH)(f.Head[:]).DestQP() == 1 {
			var b []byte
			for _, p := range f.Payload {
				b = append(b, p...)
			}
			if m, ok := mad.Parse(b); ok {
				told := *m
				s.said[m.Attr()] = &told
			}
		}
	}
	s.mu.Unlock()
	return s.Link.Send(frames)
}

// field returns a field of the last message of a kind.
func (s *spy) field(attr mad.Attr, f mad.Field) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.said[attr] == nil {
		return 1 << 63 // never said
	}
	return f.In(s.said[attr])
}

// TestStartingPSNIsThatOfTheReceiver: the PSN in a REQ or a REP is the one with
// which its sender expects the peer to begin, and not the one with which it
// begins itself. Two devices that have it the other way round would understand
// each other, and nobody else.
func TestStartingPSNIsThatOfTheReceiver(t *testing.T) {
	for _, kind := range []verbs.QPType{verbs.RC, verbs.UC} {
		x := work.NewInline()
		t.Cleanup(x.Close)
		var spies [2]*spy
		wrapped := func(n int) verbs.Config {
			return verbs.Config{Executor: x, Wrap: func(l link.Link) (link.Link, error) {
				spies[n] = &spy{Link: l, said: map[mad.Attr]*mad.MAD{}}
				return spies[n], nil
			}}
		}
		a, b, err := verbs.OpenPair(wrapped(0), wrapped(1))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			for _, d := range []*verbs.Device{a, b} {
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			}
		})
		w := world{newParty(t, a), newParty(t, b)}
		c, s := w.connected(t, kind)
		call, _, _ := c.QP().Query()
		answer, _, _ := s.QP().Query()
		if call.RQPSN == call.SQPSN || call.RQPSN == 0 || call.SQPSN == 0 {
			t.Fatalf("the queue pair has the PSNs %v and %v, which tell nothing", call.RQPSN, call.SQPSN)
		}
		if got := roce.PSN(spies[0].field(mad.REQ, mad.ReqPSN)); got != call.RQPSN {
			t.Errorf("the REQ has the starting PSN %v, want %v, which is expected; %v is sent", got, call.RQPSN, call.SQPSN)
		}
		if got := roce.PSN(spies[1].field(mad.REP, mad.RepPSN)); got != answer.RQPSN {
			t.Errorf("the REP has the starting PSN %v, want %v, which is expected; %v is sent", got, answer.RQPSN, answer.SQPSN)
		}
	}
}

// connected connects two queue pairs of a kind.
func (w world) connected(t *testing.T, kind verbs.QPType) (c, s *ID) {
	t.Helper()
	client, server := w[0], w[1]
	server.listen(7, 4)
	c = w.unequipped(client, server, 7)
	init := client.rc()
	init.Type = kind
	must(c.CreateQP(client.pd, init))(t)
	client.ok(c.Connect(usual("")))
	s = w.next(server, ConnectRequest).ID
	init = server.rc()
	init.Type = kind
	must(s.CreateQP(server.pd, init))(t)
	server.ok(s.Accept(usual("")))
	w.next(client, Established)
	w.next(server, Established)
	return c, s
}
