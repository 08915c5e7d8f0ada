package conn

import (
	"net/netip"
	"testing"

	"github.com/gantry-rdma/gantry/internal/mad"
)

// FuzzReceive: whatever comes from whomever in whatever state, the agent does
// not panic, keeps its limits, and forgets everything in the end.
func FuzzReceive(f *testing.F) {
	for s := ReqSent; s < states; s++ {
		for a := mad.REQ; a <= mad.APR; a++ {
			m := mad.New(a, 1)
			mad.RepLocalID.Set(m, 0xb1)
			mad.RepRemoteID.Set(m, 0xa1)
			f.Add(byte(s), byte(0), m[:])
		}
	}
	f.Fuzz(func(t *testing.T, s, from byte, b []byte) {
		g := newStage(t)
		g.play(waysTo[State(s)%(states-1)+1])
		h := g.hosts["A"]
		h.agent.config.Conns, h.agent.config.HalfOpen = 6, 3
		h.auto = from&4 != 0
		for i := 0; len(b) > 0; i++ {
			m := mad.New(mad.REQ, 1)
			b = b[copy(m[:], b):]
			if from&2 != 0 { // make it one that is looked into
				copy(m[:4], mad.New(mad.REQ, 1)[:4])
				m[16], m[17] = 0, byte(mad.REQ)+m[17]%byte(mad.Attrs)
			}
			h.agent.Receive(addrs[[]string{"B", "X"}[from&1]], m, g.now)
			g.settle()
			if h.agent.Conns() > 6 || h.agent.HalfOpen() > 3 {
				t.Fatalf("got %d connections, %d half open, want 6 and 3 at most", h.agent.Conns(), h.agent.HalfOpen())
			}
		}
		for _, c := range h.conns {
			c.Close(g.now)
		}
		g.hosts["B"].agent.env = deaf{}
		g.pass(0)
		if a := h.agent; a.Conns() != 0 || len(a.remote)+len(a.queues)+len(a.requests) != 0 || a.HalfOpen() != 0 {
			t.Errorf("%d connections are left, %d half open", a.Conns(), a.HalfOpen())
		}
	})
}

// deaf is the Env of a host that says nothing.
type deaf struct{}

func (deaf) Send(_ netip.Addr, _ *mad.MAD) {}
func (deaf) Event(Event)                   {}
