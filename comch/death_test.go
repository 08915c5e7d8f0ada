package comch

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/core"
)

// TestAClientIsKilled with messages from it that were not received, and with
// messages to it in flight.
func TestAClientIsKilled(t *testing.T) {
	for _, mode := range []string{"polling", "blocking"} {
		t.Run(mode, func(t *testing.T) {
			r := newRig(t)
			s := r.server(r.engine(), "killed", 8)
			r.want("start", s.Start(), nil)
			_, err := s.engine.FD() // opens what blocking needs
			r.want("descriptor", err, nil)
			before := descriptors(t)
			p := r.process("client", "killed")
			r.until("connected", func() bool { return s.link != nil })
			p.says("ready")
			s.got = nil
			for range 8 { // the client's queue takes two
				r.want("send", s.send("never read"), nil)
			}
			over := func() bool { return len(s.events) == 2 }
			p.kill()
			if mode == "polling" {
				r.until("the end", over)
			} else {
				block(t, s.engine, over)
			}
			if s.sent != 2 || len(s.failed) != 6 || slices.Max(s.failed) != core.ErrConnectionReset || slices.Min(s.failed) != core.ErrConnectionReset {
				t.Errorf("%d were sent, the others are %v", s.sent, s.failed)
			}
			if s.events[1] != "lost" {
				t.Errorf("the server was told %v", s.events)
			}
			r.until("descriptors closed", func() bool { return descriptors(t) <= before })
			s.shut()
		})
	}
}

func TestWhatTheDeadHaveSentIsDelivered(t *testing.T) {
	r := newRig(t)
	s := r.server(r.engine(), "will", 8)
	r.want("start", s.Start(), nil)
	p := r.process("client", "will")
	p.says("ready")
	p.kill()
	r.until("the end", func() bool { return len(s.events) == 2 })
	if got := strings.Join(s.got, ""); got != "01234" {
		t.Errorf("got %q", got)
	}
	s.shut()
}

// TestAServerIsKilled and its name is free at once.
func TestAServerIsKilled(t *testing.T) {
	r := newRig(t)
	p := r.process("server", "killed")
	p.says("started")
	c := r.client(r.engine(), "killed", 8)
	r.want("a server for a name that is taken", r.probe("killed"), core.ErrAlreadyExists)
	c.begin()
	r.until("running", func() bool { return c.State() == core.Running })
	p.says("ready")
	p.kill()
	block(t, c.engine, func() bool { return c.State() == core.Idle })
	r.want("why", c.Err(), core.ErrConnectionReset)
	if got := strings.Join(c.got, ""); got != "01234" {
		t.Errorf("got %q", got)
	}
	r.want("a server for the name", r.probe("killed"), nil)
	r.want("destroy", c.Destroy(), nil)
}

// TestKilledAtAnyMoment kills the peer 200 times, in both roles by turns, after
// a random number of steps: before it is connected, or in the middle of a flood.
func TestKilledAtAnyMoment(t *testing.T) {
	rounds := 200
	if testing.Short() {
		rounds = 20
	}
	r := newRig(t)
	s, c := r.server(r.engine(), "any", 16), r.client(r.engine(), "any", 16)
	random := rand.New(rand.NewPCG(3, 4))
	fds, maps := descriptors(t), mappings(t)
	for round := range rounds {
		steps := 0
		if round%4 > 1 {
			steps = random.IntN(5000)
		}
		if round%2 == 0 {
			clientKilled(r, s, steps)
		} else {
			serverKilled(r, c, steps)
		}
	}
	r.until("all given back", func() bool { return descriptors(t) <= fds && mappings(t) <= maps })
	c.shut()
	s.shut()
}

func clientKilled(r *rig, s *serverEnd, steps int) {
	s.events = nil
	s.joined = func(*Connection) { s.flood() }
	r.want("start", s.Start(), nil) // the name is free
	p := r.process("client of a flood", "any")
	r.advance(p, steps, func() bool { return s.seen > 0 })
	r.until("no connection", func() bool { return s.link == nil })
	_ = s.Stop()
	r.until("idle", func() bool { return s.State() == core.Idle })
	r.flooded(&s.end)
}

func serverKilled(r *rig, c *clientEnd, steps int) {
	p := r.process("server of a flood", "any")
	p.says("started")
	c.begin()
	r.advance(p, steps, func() bool {
		if c.State() == core.Running && c.seen == 0 && c.k.Inflight() == 0 {
			c.flood()
		}
		return c.seen > 0
	})
	r.until("idle", func() bool { return c.State() == core.Idle })
	r.flooded(&c.end)
}

// advance progresses until a process has connected and some steps are done, or
// only a few steps if there are none to do, and kills it.
func (r *rig) advance(p *process, steps int, connected func() bool) {
	r.Helper()
	if steps > 0 {
		r.until("connected", connected)
	}
	r.until("steps", func() bool { connected(); steps--; return steps < 0 })
	p.kill()
}

// flooded checks what became of the tasks of an end that has stopped.
func (r *rig) flooded(e *end) {
	r.Helper()
	for _, s := range e.failed {
		r.want("a send", s, core.ErrConnectionReset)
	}
	e.seen, e.failed = 0, nil
}

// probe starts a server and stops it again.
func (r *rig) probe(name string) error {
	r.Helper()
	s := r.server(r.engine(), name, 1)
	err := s.Start()
	s.shut()
	return err
}

// TestAProcessEndsWithItsTest: what it reads from ends when a test is killed.
func TestAProcessEndsWithItsTest(t *testing.T) {
	r := newRig(t)
	p := r.process("server", "left")
	p.says("started")
	c := r.client(r.engine(), "left", 8)
	c.begin()
	r.until("running", func() bool { return c.State() == core.Running })
	p.says("ready")
	r.want("close", p.in.Close(), nil)
	r.until("idle", func() bool { return c.State() == core.Idle })
	r.want("why", c.Err(), core.ErrConnectionReset)
	r.want("destroy", c.Destroy(), nil)
}
