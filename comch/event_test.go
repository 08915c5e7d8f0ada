package comch

import (
	"context"
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
)

// TestAnEngineSleepsUntilAMessageComes bounces a message between two goroutines
// that block on their descriptors and never poll.
func TestAnEngineSleepsUntilAMessageComes(t *testing.T) {
	const rounds = 2000
	r := newRig(t)
	s, c := r.pair(2, 4)
	s.onGot = func(n *Connection, m []byte) { r.want("back", s.send(string(m)), nil) }
	c.onGot = func(n *Connection, m []byte) {
		if len(c.got) < rounds {
			r.want("again", c.send(string(m)), nil)
		}
	}
	var server sync.WaitGroup
	server.Go(func() { block(t, s.engine, func() bool { return s.link == nil }) })
	r.want("first", c.send("ball"), nil)
	block(t, c.engine, func() bool { return len(c.got) == rounds })
	_ = c.Stop()
	block(t, c.engine, func() bool { return c.State() == core.Idle })
	server.Wait()
	c.shut()
	s.shut()
}

// TestBothBlockedOnOneEngine is the same with both ends on one engine, which
// is woken through the doorbells of both.
func TestBothBlockedOnOneEngine(t *testing.T) {
	r := newRig(t)
	s, c := r.pair(1, 4)
	s.onGot = func(_ *Connection, m []byte) { r.want("back", s.send(string(m)), nil) }
	for n := range 100 {
		r.want("send", c.send("ball"), nil)
		block(t, c.engine, func() bool { return len(c.got) == n+1 })
	}
	c.shut()
	s.shut()
}

// TestConnectingWakesTheEngines never polls: not for the start, nor for the
// events, nor for the end.
func TestConnectingWakesTheEngines(t *testing.T) {
	r := newRig(t)
	s, c := r.server(r.engine(), t.Name(), 1), r.client(r.engine(), t.Name(), 1)
	r.want("start", s.Start(), nil)
	var server sync.WaitGroup
	server.Go(func() { block(t, s.engine, func() bool { return len(s.events) == 20 }) })
	for range 10 {
		c.begin()
		block(t, c.engine, func() bool { return c.State() == core.Running })
		_ = c.Stop()
		block(t, c.engine, func() bool { return c.State() == core.Idle })
	}
	server.Wait()
	c.shut()
	s.shut()
}

// flood is what one end sends and expects: messages of random length, whose
// contents follow from their number and who sent them.
type flood struct {
	*end
	random *rand.Rand
	sent   int
	bytes  []byte
	seen   int
	bad    int
}

const floodMessages = 10_000

func newFlood(e *end, seed uint64) *flood {
	f := &flood{end: e, random: rand.New(rand.NewPCG(seed, 1)), bytes: make([]byte, defaultMessage)}
	for i := range f.bytes {
		f.bytes[i] = byte(f.random.Uint32())
	}
	e.onGot = func(_ *Connection, m []byte) { e.got = nil; f.check(m) }
	e.onSent = func(*Send) { f.more() }
	return f
}

// check wants the next message: its number, the sum of the rest, and the rest.
func (f *flood) check(m []byte) {
	h := fnv.New64a()
	if len(m) >= 16 {
		_, _ = h.Write(m[16:])
	}
	if len(m) < 16 || binary.LittleEndian.Uint64(m) != uint64(f.seen) || binary.LittleEndian.Uint64(m[8:]) != h.Sum64() {
		f.bad++
	}
	f.seen++
}

// more sends as long as there are tasks.
func (f *flood) more() {
	for f.sent < floodMessages {
		m := append([]byte(nil), f.bytes[:16+f.random.IntN(defaultMessage-15)]...)
		h := fnv.New64a()
		_, _ = h.Write(m[16:])
		binary.LittleEndian.PutUint64(m, uint64(f.sent))
		binary.LittleEndian.PutUint64(m[8:], h.Sum64())
		if f.send(string(m)) != nil {
			return
		}
		f.sent++
	}
}

// TestNothingIsLostOnASlowReceiver floods both ways through short queues, each
// engine on a goroutine of its own that blocks when there is nothing to do.
func TestNothingIsLostOnASlowReceiver(t *testing.T) {
	r := newRig(t)
	for range 2 {
		r.engine()
	}
	s, c := r.server(r.engines[0], t.Name(), 64), r.client(r.engines[1], t.Name(), 64)
	r.want("queue", s.SetRecvQueue(3), nil)
	r.want("queue", c.SetRecvQueue(700), nil)
	r.join(s, c)
	a, b := newFlood(&s.end, 1), newFlood(&c.end, 2)
	var server sync.WaitGroup
	server.Go(func() {
		a.more()
		block(t, s.engine, func() bool { return a.seen == floodMessages && s.sent == floodMessages })
	})
	b.more()
	block(t, c.engine, func() bool { return b.seen == floodMessages && c.sent == floodMessages })
	server.Wait()
	if a.bad+b.bad > 0 || len(s.failed)+len(c.failed) > 0 {
		t.Errorf("%d and %d messages were damaged, %v and %v failed", a.bad, b.bad, s.failed, c.failed)
	}
	r.want("update", c.link.UpdateInfo(), nil)
	if n := c.link.Counters(); n.SentMessages != floodMessages || n.RecvMessages != floodMessages {
		t.Errorf("counters: %+v", n)
	}
	c.shut()
	s.shut()
}

func TestSendAndReceiveAllocateNothing(t *testing.T) {
	r := newRig(t)
	s, c := r.pair(1, 4)
	defer func() { c.shut(); s.shut() }()
	for _, k := range []*control{&s.control, &c.control} {
		k.onMessage = func(*Connection, []byte) {}
	}
	m := make([]byte, 100)
	e := r.engines[0]
	allocs.None(t, func() {
		for _, x := range [...]*end{&s.end, &c.end} {
			task, err := x.k.AllocSend(x.link, m)
			if err != nil || task.Submit() != nil {
				t.Fatal("cannot send")
			}
		}
		for e.Progress() {
		}
	})
}

func TestBlockingAllocatesNothing(t *testing.T) {
	r := newRig(t)
	s, c := r.pair(2, 4)
	defer func() { c.shut(); s.shut() }()
	for _, k := range []*control{&s.control, &c.control} {
		k.onMessage = func(*Connection, []byte) {}
	}
	m := make([]byte, 100)
	allocs.None(t, func() {
		if s.engine.RequestNotification() != nil {
			t.Fatal("cannot arm")
		}
		task, err := c.k.AllocSend(c.link, m)
		if err != nil || task.Submit() != nil {
			t.Fatal("cannot send")
		}
		for c.engine.Progress() {
		}
		if s.engine.Wait(context.Background()) != nil || s.engine.ClearNotification() != nil || !s.engine.Progress() {
			t.Fatal("nothing came")
		}
	})
}
