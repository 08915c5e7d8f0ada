package conn

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/roce"
)

var (
	simSeeds = flag.Int("sim.seeds", 500, "how many seeds TestSimulation runs")
	simSeed  = flag.Uint64("sim.seed", 0, "the one seed that TestSimulation runs; 0: as many as sim.seeds says")
)

// TestSimulation lets two agents and their programs connect and disconnect over
// a network that loses, doubles and reorders messages, in virtual time. The
// programs accept, refuse, wait and close as they like. Both sides must agree on
// every connection, or both must have given it up, and in the end nothing is
// left.
func TestSimulation(t *testing.T) {
	first, n := uint64(1), *simSeeds
	if *simSeed != 0 {
		first, n = *simSeed, 1
	}
	if testing.Short() {
		n = min(n, 100)
	}
	for seed := first; seed < first+uint64(n); seed++ {
		if err := newWorld(seed).run(); err != nil {
			t.Fatalf("%v\nreplay: go test ./internal/conn -run TestSimulation -sim.seed=%d", err, seed)
		}
	}
}

// A happening is what happens at a time.
type happening struct {
	at    Instant
	order int
	do    func()
}

type queue []happening

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(happening)) }
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

// A world is one simulation.
type world struct {
	rng    *rand.Rand
	now    Instant
	queue  queue
	count  int
	sides  [2]*side
	lose   float64
	double float64
	late   Instant // of a message, at most
	fickle float64 // how often a program does something odd
	err    error
}

// A side is one agent and its program.
type side struct {
	w     *world
	addr  netip.Addr
	peer  *side
	agent *Agent
	alarm Instant
	conns map[*Conn]*tale
	order []*Conn // as they began, so that a seed always tells the same story
	calls int     // left
	qpn   uint32
}

// A tale is what a program was told of a connection, and did.
type tale struct {
	heard    []Kind
	accepted bool // Accept or Confirm
	closed   bool
	over     bool // Rejected, Unreachable, Disconnected
}

func newWorld(seed uint64) *world {
	w := &world{rng: rand.New(rand.NewPCG(seed, 5)), now: 1000}
	pick := func(p ...float64) float64 { return p[w.rng.IntN(len(p))] }
	w.lose, w.double = pick(0, 0.01, 0.1, 0.3), pick(0, 0.1, 0.5)
	w.late = Instant(pick(1e5, 1e7, 5e8, 5e9))
	w.fickle = pick(0, 0.05, 0.3)
	for i := range w.sides {
		s := &side{w: w, addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), conns: map[*Conn]*tale{}, qpn: uint32(i*0x1000 + 16)}
		s.calls = 1 + w.rng.IntN(12)
		s.agent = New(Config{Addr: s.addr, GUID: uint64(i + 7), MTU: roce.MTU4096, Random: w.rng.Uint64,
			HalfOpen: 1 + w.rng.IntN(20)}, s)
		w.sides[i] = s
	}
	w.sides[0].peer, w.sides[1].peer = w.sides[1], w.sides[0]
	return w
}

func (w *world) after(d Instant, do func()) {
	w.count++
	heap.Push(&w.queue, happening{w.now + d, w.count, do})
}

func (w *world) fail(format string, a ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %v, losing %v, doubling %v, %v late, %v odd: "+format,
			append([]any{time.Duration(w.now), w.lose, w.double, time.Duration(w.late), w.fickle}, a...)...)
	}
}

// run runs both programs to their end.
func (w *world) run() error {
	for _, s := range w.sides {
		if _, err := s.agent.Listen(mad.Service(mad.SpaceTCP, 7), s.addr, 1+w.rng.IntN(20)); err != nil {
			return err
		}
		s.program()
	}
	w.play()
	for _, s := range w.sides {
		w.agree(s)
	}
	for _, s := range w.sides { // and now everything ends
		for _, c := range s.order {
			if t := s.conns[c]; !t.closed {
				t.closed = true
				c.Close(w.now)
			}
		}
		s.ring()
	}
	w.lose = 0
	w.play()
	for i, s := range w.sides {
		a := s.agent
		if n := a.Conns(); n != 0 || a.HalfOpen() != 0 || len(a.remote)+len(a.queues)+len(a.requests)+len(a.timers.all) != 0 {
			w.fail("side %d: %d connections are left, %d half open, %d, %d, %d in tables, %d timers", i, n, a.HalfOpen(),
				len(a.remote), len(a.queues), len(a.requests), len(a.timers.all))
		}
		for _, l := range a.listeners {
			if l[0].waiting != 0 {
				w.fail("side %d: %d places of the backlog are taken for ever", i, l[0].waiting)
			}
		}
	}
	return w.err
}

// play lets everything happen that is to happen.
func (w *world) play() {
	for steps := 0; len(w.queue) > 0 && w.err == nil; steps++ {
		e := heap.Pop(&w.queue).(happening)
		w.now = max(w.now, e.at)
		e.do()
		if steps == 1_000_000 {
			w.fail("no end after %d steps", steps)
		}
	}
}

// agree checks that what stands on one side stands on the other.
func (w *world) agree(s *side) {
	for _, c := range s.order {
		t := s.conns[c]
		if t.closed || c.State() != Established {
			if !t.closed && !t.over && c.State() != Established {
				w.fail("%v: connection %x is in %v, and its program was told %v", s.addr, c.localID, c.State(), t.heard)
			}
			continue
		}
		o := s.peer.find(c)
		if o == nil {
			w.fail("%v: connection %x stands, and its peer never heard of it", s.addr, c.localID)
			continue
		}
		other := s.peer.conns[o]
		if w.lose > 0 && (other.closed || w.fickle > 0 && slices.Contains(other.heard, EventUnreachable)) {
			continue // a REJ has no answer: when it is lost, only data will tell
		}
		if o.State() != Established {
			w.fail("%v: connection %x stands, and its peer is in %v and was told %v", s.addr, c.localID, o.State(), other.heard)
			continue
		}
		if o.remote != c.local || c.remote != o.local {
			w.fail("connection %x: %+v is known as %+v, and %+v as %+v", c.localID, c.local, o.remote, o.local, c.remote)
		}
	}
}

// find returns the connection that is the other end of c.
func (s *side) find(c *Conn) *Conn {
	for _, o := range s.order {
		if o.localID == c.remoteID && o.remoteID == c.localID {
			return o
		}
	}
	return nil
}

// Send is part of Env.
func (s *side) Send(to netip.Addr, m *mad.MAD) {
	w := s.w
	if to != s.peer.addr {
		w.fail("%v sends to %v", s.addr, to)
		return
	}
	copies := 1
	if w.rng.Float64() < w.double {
		copies = 2
	}
	before := *m
	for range copies {
		if w.rng.Float64() < w.lose {
			continue
		}
		w.after(Instant(w.rng.Int64N(int64(w.late))), func() {
			if *m != before {
				w.fail("a message was changed after it was sent: %v", m)
			}
			s.peer.agent.Receive(s.addr, m, w.now)
			s.peer.ring()
		})
	}
}

// ring sets the alarm of the agent.
func (s *side) ring() {
	at := s.agent.Deadline()
	if at == 0 || at == s.alarm {
		return
	}
	s.alarm = at
	s.w.after(max(at-s.w.now, 0), func() {
		if s.alarm == at {
			s.alarm = 0
		}
		s.agent.Tick(s.w.now)
		s.ring()
	})
}

// program makes the calls of a side, one after another.
func (s *side) program() {
	w := s.w
	if s.calls == 0 {
		return
	}
	s.calls--
	var cma mad.CMA
	cma.Set(netip.AddrPortFrom(s.addr, 99), s.peer.addr)
	s.qpn++
	c, err := s.agent.Connect(&Call{To: s.peer.addr, Service: mad.Service(mad.SpaceTCP, 7), Private: cma[:],
		Local: Side{QPN: s.qpn, PSN: roce.NewPSN(w.rng.Uint32()), Resources: 4, Depth: 2, RNRRetry: 3},
		Terms: Terms{MTU: roce.MTU1024, AckTimeout: 16}, Timeout: uint8(17 + w.rng.IntN(3)), Retries: 15}, w.now)
	if err != nil {
		w.fail("connect: %v", err)
		return
	}
	s.meet(c)
	s.ring()
	s.oddity(c)
	w.after(Instant(w.rng.Int64N(3e9)), s.program)
}

// meet begins the tale of a connection.
func (s *side) meet(c *Conn) *tale {
	t := &tale{}
	s.conns[c] = t
	s.order = append(s.order, c)
	return t
}

// oddity closes or disconnects a connection some time, in whatever state it is.
func (s *side) oddity(c *Conn) {
	w := s.w
	if w.rng.Float64() >= w.fickle {
		return
	}
	w.after(Instant(w.rng.Int64N(5e9)), func() {
		t := s.conns[c]
		switch {
		case t.closed:
		case w.rng.IntN(2) == 0:
			t.closed = true
			c.Close(w.now)
		default:
			_ = c.Disconnect(nil, w.now) // the state may not allow it
		}
		s.ring()
	})
}

// Event is part of Env.
func (s *side) Event(e Event) {
	w, c := s.w, e.Conn
	t := s.conns[c]
	if t == nil {
		t = s.meet(c)
	}
	if t.closed {
		w.fail("%v was told %v after it closed", s.addr, e.Kind)
	}
	if slices.Contains(t.heard, e.Kind) {
		w.fail("%v was told %v twice", s.addr, e.Kind)
	}
	t.heard = append(t.heard, e.Kind)
	if t.over && e.Kind != EventExpired {
		w.fail("%v was told %v after the end", s.addr, e.Kind)
	}
	switch e.Kind {
	case EventRequest:
		s.think(func() { s.answer(c, t) })
		s.oddity(c)
	case EventReply:
		s.think(func() { s.confirm(c, t) })
	case EventRejected, EventUnreachable, EventDisconnected:
		t.over = true
		if e.Kind == EventUnreachable && w.lose < 0.3 && w.late < 1e9 && t.accepted && w.fickle == 0 {
			w.fail("%v: the peer of %x is unreachable over a network that is not that bad: %v", s.addr, c.localID, t.heard)
		}
	}
}

// think does something soon, or after a while.
func (s *side) think(do func()) {
	d := Instant(s.w.rng.Int64N(1e6))
	if s.w.rng.Float64() < s.w.fickle {
		d = Instant(s.w.rng.Int64N(2e10))
	}
	s.w.after(d, func() { do(); s.ring() })
}

func (s *side) answer(c *Conn, t *tale) {
	if t.closed || t.over {
		return
	}
	if s.w.rng.IntN(8) == 0 {
		t.over = c.Reject(mad.RejConsumer, nil, []byte("no"), s.w.now) == nil
		return
	}
	s.qpn++
	err := c.Accept(&Answer{Local: Side{QPN: s.qpn, PSN: roce.NewPSN(s.w.rng.Uint32()), Resources: 2, Depth: 4}}, s.w.now)
	if err != nil {
		s.w.fail("accept in %v: %v", c.State(), err)
	}
	t.accepted = true
}

func (s *side) confirm(c *Conn, t *tale) {
	if t.closed || t.over {
		return
	}
	if s.w.rng.IntN(8) == 0 {
		t.over = c.Reject(mad.RejConsumer, nil, nil, s.w.now) == nil
		return
	}
	if err := c.Confirm(nil, s.w.now); err != nil {
		s.w.fail("confirm in %v: %v", c.State(), err)
	}
	t.accepted = true
}
