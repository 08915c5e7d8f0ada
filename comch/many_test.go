package comch

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/gantry-rdma/gantry/core"
)

func TestManyClientsAtOnce(t *testing.T) {
	const clients = 64
	r := newRig(t)
	s := r.server(r.engine(), t.Name(), 256)
	s.onGot = func(n *Connection, m []byte) {
		task, err := s.AllocSend(n, append([]byte("re: "), m...))
		r.want("alloc", err, nil)
		r.want("answer", task.Submit(), nil)
	}
	r.want("start", s.Start(), nil)
	e := r.engine()
	var all []*clientEnd
	for range clients {
		c := r.client(e, t.Name(), 4)
		c.begin()
		all = append(all, c)
	}
	r.until("all connected", func() bool {
		for _, c := range all {
			if c.State() != core.Running {
				return false
			}
		}
		return len(s.events) == clients
	})
	for i, c := range all {
		r.want("send", c.send(fmt.Sprint(i)), nil)
	}
	for i, c := range all {
		r.until("answer", func() bool { return len(c.got) == 1 })
		if want := fmt.Sprint("re: ", i); c.got[0] != want {
			t.Errorf("client %d got %q, want %q", i, c.got[0], want)
		}
	}
	for _, c := range all[:clients/2] {
		c.shut()
	}
	s.shut() // with half of the clients still there
	for _, c := range all[clients/2:] {
		r.until("idle", func() bool { return c.State() == core.Idle })
		r.want("why", c.Err(), core.ErrConnectionReset)
		r.want("destroy", c.Destroy(), nil)
	}
}

// mappings counts the shared memory that the process has mapped.
func mappings(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(b, []byte("memfd:gantry"))
}

func TestNothingIsLeftOfConnections(t *testing.T) {
	rounds := 1000
	if testing.Short() {
		rounds = 100
	}
	r := newRig(t)
	r.engine()
	s, c := r.server(r.engines[0], t.Name(), 4), r.client(r.engines[0], t.Name(), 4)
	r.want("start", s.Start(), nil)
	round := func() {
		s.events, s.got, c.states = nil, nil, nil
		c.begin()
		block(t, c.engine, func() bool { return c.State() == core.Running && s.link != nil })
		r.want("send", c.send("hello"), nil)
		r.want("stop", c.Stop(), core.ErrInProgress)
		block(t, c.engine, func() bool { return c.State() == core.Idle && len(s.events) == 2 })
		if len(s.got) != 1 || s.events[1] != "disconnected" {
			t.Fatalf("the server got %q and was told %v", s.got, s.events)
		}
	}
	if _, err := c.engine.FD(); err != nil { // which else the first wait opens, whenever that is
		t.Fatal(err)
	}
	round() // after which everything is there that stays
	fds, maps, routines := descriptors(t), mappings(t), runtime.NumGoroutine()
	for range rounds {
		round()
	}
	r.until("all given back", func() bool {
		runtime.Gosched()
		return descriptors(t) <= fds && mappings(t) <= maps && runtime.NumGoroutine() <= routines
	})
	c.shut()
	s.shut()
}
