package comch

import (
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

// probe starts a server and stops it again.
func (r *rig) probe(name string) error {
	r.Helper()
	s := r.server(r.engine(), name, 1)
	err := s.Start()
	s.shut()
	return err
}
