package comch

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/core"
)

func TestMessagesGoBothWays(t *testing.T) {
	onOneAndTwo(t, func(t *testing.T, engines int) {
		r := newRig(t)
		s, c := r.pair(engines, 8)
		defer func() { c.shut(); s.shut() }()
		for _, m := range []string{"first", "", strings.Repeat("x", defaultMessage), "last"} {
			r.want("send to the server", c.send(m), nil)
			r.want("send to the client", s.send(m+"!"[:min(1, defaultMessage-len(m))]), nil)
		}
		r.until("all came", func() bool { return len(s.got) == 4 && len(c.got) == 4 && s.sent == 4 && c.sent == 4 })
		if s.got[1] != "" || s.got[3] != "last" || c.got[0] != "first!" || len(s.got[2]) != defaultMessage {
			t.Errorf("the server got %.10q, the client %.10q", s.got, c.got)
		}
		r.want("update", s.link.UpdateInfo(), nil)
		want := Counters{4, defaultMessage + 9 + 3, 4, defaultMessage + 9}
		if n := s.link.Counters(); n != want {
			t.Errorf("counters: got %+v, want %+v", n, want)
		}
	})
}

func TestStopDeliversWhatWasSubmittedBefore(t *testing.T) {
	onOneAndTwo(t, func(t *testing.T, engines int) {
		for _, who := range []string{"server", "client"} {
			t.Run(who, func(t *testing.T) { stopInCallback(t, engines, who == "server") })
		}
	})
}

// stopInCallback answers a message with another and a stop, in one callback,
// with a queue at the peer that has no room for it yet.
func stopInCallback(t *testing.T, engines int, server bool) {
	r := newRig(t)
	for range engines {
		r.engine()
	}
	s, c := r.server(r.engines[0], t.Name(), 8), r.client(r.engines[engines-1], t.Name(), 8)
	for _, k := range []*control{&s.control, &c.control} {
		r.want("queue", k.SetRecvQueue(2), nil)
	}
	r.join(s, c)
	stopper, peer := &c.end, &s.end
	if server {
		stopper, peer = &s.end, &c.end
	}
	var atPeer []string
	peer.onGot = func(_ *Connection, m []byte) {
		if peer.k.State() != core.Running {
			t.Errorf("the peer is %v when %q comes", peer.k.State(), m)
		}
		atPeer = append(atPeer, string(m))
	}
	stopper.onGot = func(*Connection, []byte) {
		for _, m := range []string{"a", "b", "c", "d", "e"} {
			r.want("send", stopper.send(m), nil)
		}
		r.want("stop", stopper.k.Stop(), core.ErrInProgress)
		r.want("send later", stopper.send("f"), core.ErrBadState)
	}
	r.want("ask", peer.send("go"), nil)
	r.until("the stopper is idle", func() bool { return stopper.k.State() == core.Idle })
	if stopper.sent != 5 || len(stopper.failed) > 0 {
		t.Errorf("%d were sent, %v failed, want 5 and none", stopper.sent, stopper.failed)
	}
	if got := strings.Join(atPeer, ""); got != "abcde" {
		r.until("all came", func() bool { return strings.Join(atPeer, "") == "abcde" })
	}
	if server {
		r.until("the client stops by itself", func() bool { return c.State() == core.Idle })
		r.want("why", c.Err(), core.ErrConnectionReset)
		if want := []core.State{core.Starting, core.Running, core.Stopping, core.Idle}; !slices.Equal(c.states, want) {
			t.Errorf("the client was %v, want %v", c.states, want)
		}
		r.want("destroy", s.Destroy(), nil)
		r.want("destroy", c.Destroy(), nil)
		return
	}
	r.until("the server hears of it", func() bool { return len(s.events) == 2 })
	if s.events[1] != "disconnected" {
		t.Errorf("the server was told %v", s.events)
	}
	r.want("why, for the one who stopped", c.Err(), nil)
	r.want("destroy", c.Destroy(), nil)
	s.shut()
}

// TestStopWaitsForRoom has a server that does nothing for a while.
func TestStopWaitsForRoom(t *testing.T) {
	r := newRig(t)
	s, c := r.server(r.engine(), t.Name(), 1), r.client(r.engine(), t.Name(), 8)
	r.want("queue", s.SetRecvQueue(2), nil)
	r.join(s, c)
	for _, m := range []string{"a", "b", "c", "d", "e"} {
		r.want("send", c.send(m), nil)
	}
	r.want("stop", c.Stop(), core.ErrInProgress)
	both := r.engines
	r.engines = both[1:]
	r.settle()
	r.engines = both
	if c.State() != core.Stopping || c.sent != 2 || c.link.phase() != phaseOpen {
		t.Errorf("the client is %v with %d sent, the connection %v", c.State(), c.sent, c.link.phase())
	}
	r.until("idle", func() bool { return c.State() == core.Idle && len(s.events) == 2 })
	if got := strings.Join(s.got, ""); got != "abcde" || c.sent != 5 {
		t.Errorf("the server got %q, %d were sent", got, c.sent)
	}
	c.shut()
	s.shut()
}

// TestTheEndWaitsForTheLastMessage, however it comes about that one is seen
// only after the end.
func TestTheEndWaitsForTheLastMessage(t *testing.T) {
	r := newRig(t)
	s, c := r.pair(2, 1)
	n := s.link
	r.want("send", c.send("last"), nil)
	both := r.engines
	r.engines = both[1:]
	c.shut()
	r.until("the attendant has left", n.left.Load)
	r.engines = both
	if n.end() {
		t.Fatal("the connection has ended with a message in it")
	}
	r.until("over", func() bool { return len(s.events) == 2 })
	if len(s.got) != 1 {
		t.Errorf("the server got %q", s.got)
	}
	s.shut()
}

// TestAStopReceivesWhatWasThere has a client that does nothing while the server
// stops: of five messages, two are in the server's queue by then.
func TestAStopReceivesWhatWasThere(t *testing.T) {
	r := newRig(t)
	s, c := r.server(r.engine(), t.Name(), 1), r.client(r.engine(), t.Name(), 8)
	r.want("queue", s.SetRecvQueue(2), nil)
	r.join(s, c)
	for _, m := range []string{"a", "b", "c", "d", "e"} {
		r.want("send", c.send(m), nil)
	}
	both := r.engines
	r.engines = both[:1]
	r.want("stop", s.Stop(), core.ErrInProgress)
	r.until("idle", func() bool { return s.State() == core.Idle })
	if got := strings.Join(s.got, ""); got != "ab" || s.events[1] != "disconnected" {
		t.Errorf("the server got %q and was told %v", got, s.events)
	}
	r.engines = both
	r.until("the client stops", func() bool { return c.State() == core.Idle })
	if c.sent != 2 || len(c.failed) != 3 || c.failed[0] != core.ErrConnectionReset {
		t.Errorf("%d were sent, and %v failed", c.sent, c.failed)
	}
	c.shut()
	s.shut()
}

func TestClientWithoutServer(t *testing.T) {
	r := newRig(t)
	c := r.client(r.engine(), t.Name(), 1)
	for range 2 {
		c.states = nil
		_, err := c.Connection()
		r.want("connection of an idle client", err, core.ErrBadState)
		c.begin()
		n, err := c.Connection()
		r.want("connection while it is made", err, nil)
		if err := n.UpdateInfo(); err != core.ErrConnectionProgress && err != core.ErrConnectionAborted {
			t.Errorf("update: %v", err)
		}
		_, err = c.AllocSend(n, nil)
		r.want("send while starting", err, core.ErrBadState)
		r.until("idle", func() bool { return c.State() == core.Idle })
		if want := []core.State{core.Starting, core.Stopping, core.Idle}; !slices.Equal(c.states, want) {
			t.Errorf("states: got %v, want %v", c.states, want)
		}
		r.want("why", c.Err(), core.ErrNotFound)
		r.want("update", n.UpdateInfo(), core.ErrConnectionAborted)
	}
	r.want("destroy", c.Destroy(), nil)
}

func TestClientStoppedWhileItConnects(t *testing.T) {
	r := newRig(t)
	s, c := r.server(r.engine(), t.Name(), 1), r.client(r.engine(), t.Name(), 1)
	r.want("start", s.Start(), nil)
	for range 100 {
		c.begin()
		if err := c.Stop(); err != nil {
			r.want("stop", err, core.ErrInProgress)
		}
		r.until("idle", func() bool { return c.State() == core.Idle })
	}
	c.begin() // and once when it is connected, but does not know it yet
	for c.link.phase() != phaseOpen {
		runtime.Gosched()
	}
	r.want("stop", c.Stop(), core.ErrInProgress)
	r.until("idle", func() bool { return c.State() == core.Idle && s.link == nil })
	if s.events[len(s.events)-1] != "disconnected" {
		t.Errorf("the server was told %v", s.events)
	}
	c.begin()
	r.until("running", func() bool { return c.State() == core.Running })
	c.shut()
	s.shut()
}

func TestAServerOfTheSameName(t *testing.T) {
	r := newRig(t)
	a, b := r.server(r.engine(), t.Name(), 1), r.server(r.engine(), t.Name(), 1)
	other := r.server(r.engine(), t.Name()+"2", 1)
	r.want("the first", a.Start(), nil)
	r.want("the second", b.Start(), core.ErrAlreadyExists)
	r.want("another name", other.Start(), nil)
	r.want("stop", a.Stop(), nil)
	r.want("when the name is free", b.Start(), nil)
	for _, s := range []*serverEnd{a, b, other} {
		s.shut()
	}
}

func TestDisconnectTellsTheClient(t *testing.T) {
	onOneAndTwo(t, func(t *testing.T, engines int) {
		r := newRig(t)
		s, c := r.pair(engines, 4)
		n := s.link
		r.want("nil", s.Disconnect(nil), core.ErrInvalidValue)
		r.want("a client's", s.Disconnect(c.link), core.ErrInvalidValue)
		seat, err := n.join(&s.control.Context, seatProducer)
		r.want("a producer", err, nil)
		r.want("with a producer", s.Disconnect(n), core.ErrInUse)
		seat.leave()
		r.want("last words", s.send("bye"), nil)
		r.want("disconnect", s.Disconnect(n), nil)
		r.want("again", s.Disconnect(n), core.ErrInvalidValue)
		r.until("the client is idle", func() bool { return c.State() == core.Idle })
		r.until("the server knows", func() bool { return len(s.events) == 2 })
		if len(c.got) != 1 || s.events[1] != "disconnected" {
			t.Errorf("the client got %q, the server was told %v", c.got, s.events)
		}
		r.want("why", c.Err(), core.ErrConnectionReset)
		task, err := s.AllocSend(n, nil)
		r.want("a task for what is over", err, nil)
		r.want("try", task.TrySubmit(), core.ErrConnectionReset)
		r.want("submit", task.Submit(), nil)
		r.until("it fails", func() bool { return len(s.failed) == 1 })
		r.want("how", s.failed[0], core.ErrConnectionReset)
		c.begin()
		r.until("connected again", func() bool { return c.State() == core.Running && s.link != nil })
		c.shut()
		s.shut()
	})
}

func TestTheSecondClientIsServedToo(t *testing.T) {
	r := newRig(t)
	s, c := r.pair(2, 4)
	d := r.client(r.engines[1], t.Name(), 4)
	s.onGot = func(n *Connection, m []byte) {
		task, err := s.AllocSend(n, append([]byte("re: "), m...))
		r.want("alloc", err, nil)
		r.want("answer", task.Submit(), nil)
	}
	d.begin()
	r.until("connected", func() bool { return d.State() == core.Running })
	r.want("send", c.send("c"), nil)
	r.want("send", d.send("d"), nil)
	r.until("answers", func() bool { return len(c.got) == 1 && len(d.got) == 1 })
	if c.got[0] != "re: c" || d.got[0] != "re: d" {
		t.Errorf("got %q and %q", c.got, d.got)
	}
	r.want("destroy a running client", c.Destroy(), core.ErrInUse)
	r.want("destroy a running server", s.Destroy(), core.ErrInUse)
	c.shut()
	r.want("send", d.send("d"), nil)
	r.until("answer", func() bool { return len(d.got) == 2 })
	d.shut()
	s.shut()
}

func TestAnEmptyPoolPushesBack(t *testing.T) {
	r := newRig(t)
	s, c := r.pair(2, 2)
	n := 0
	for c.send("m") == nil {
		n++
	}
	if _, err := c.AllocSend(c.link, nil); n != 2 || err != core.ErrNoMemory || c.Misses() != 2 {
		t.Errorf("%d were sent, then %v, %d misses", n, err, c.Misses())
	}
	r.until("sent", func() bool { return c.sent == 2 })
	r.want("and now", c.send("m"), nil)
	c.shut()
	s.shut()
}
