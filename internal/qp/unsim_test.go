package qp

import (
	"container/heap"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// TestSimulationOfUnreliableTransports lets two talkers talk over a network
// that loses, doubles, reorders, delays and damages packets, in virtual time.
// They run only when they are woken, have few frames, and overwrite what they
// sent as soon as it is completed. What is delivered is whole, right, and on a
// connection in order; when the weather clears, the next message arrives.
func TestSimulationOfUnreliableTransports(t *testing.T) {
	first, n := uint64(1), *simSeeds/2
	if *simSeed != 0 {
		first, n = *simSeed, 1
	}
	heard, whole := 0, 0
	for seed := first; seed < first+uint64(n); seed++ {
		a := newAir(t, seed)
		if err := a.run(); err != nil {
			t.Fatalf("%v\nreplay: go test ./internal/qp -run TestSimulationOfU -sim.seed=%d", err, seed)
		}
		heard += a.ends[0].heard + a.ends[1].heard
		whole += a.ends[0].handed + a.ends[1].handed
	}
	if *simSeed == 0 && whole < n {
		t.Errorf("%d messages went whole in %d runs, want more", whole, n)
	}
	if heard < 10*n {
		t.Errorf("only %d messages were delivered in %d runs", heard, n)
	}
}

// The memory of a talker.
const (
	keyOut    = 1 // what it sends: a slot for each request that may be queued
	keyBoard  = 2 // what its peer writes: words, each the number of a message
	keyIn     = 3 // its receives
	outSlots  = 16
	inSlots   = 8
	slotSize  = 8 << 10
	boardSize = 4 << 10
)

// air is one simulation.
type air struct {
	t       *testing.T
	rng     *rand.Rand
	now     Instant
	queue   events
	count   int
	of      roce.Transport
	sky     weather
	damage  float64
	ends    [2]*talker
	err     error
	perfect bool
}

// A talker is one end. Its messages are numbered from 1, and say so.
type talker struct {
	*host
	air    *air
	peer   *talker
	fifo   []*frame.Frame
	queued bool
	plans  []utterance // by number
	left   int
	done   int
	wanted int // receives posted
	heard  int
	last   uint32 // the newest message heard
	seen   [boardSize / 4]uint32
}

// An utterance is a message.
type utterance struct {
	op    Op
	n, at int
}

// newAir draws one from a seed.
func newAir(t *testing.T, seed uint64) *air {
	a := &air{t: t, rng: rand.New(rand.NewPCG(seed, 99)), now: 1000}
	pick := func(p ...float64) float64 { return p[a.rng.IntN(len(p))] }
	a.of = []roce.Transport{roce.UC, roce.UC, roce.UD}[a.rng.IntN(3)]
	a.sky = weather{
		lose: pick(0, 0, 0.01, 0.1, 0.3), double: pick(0, 0, 0.01, 0.2), delay: pick(0, 0, 0.02, 0.3),
		latency: Instant(pick(100, 2000, 50_000)), late: Instant(pick(5000, 100_000, 2_000_000)),
		holdFrames: pick(0, 0, 0.1, 0.9),
	}
	a.damage = pick(0, 0, 0.05, 0.2)
	mtu := roce.MTU(1 + a.rng.IntN(3))
	psn := [2]roce.PSN{roce.NewPSN(a.rng.Uint32()), roce.NewPSN(-uint32(a.rng.IntN(60)))}
	for i := range a.ends {
		h := newHost(t, string(rune('A'+i)), 1+a.rng.IntN(outSlots))
		h.limit = a.rng.IntN(8) // 0: any number
		h.cap = 1 << a.rng.IntN(7)
		h.refs = map[uint64]int{}
		h.addr = addrOf(h.name, []int{4, 6}[seed%2])
		h.register(make([]byte, outSlots*slotSize), 0)
		h.register(make([]byte, boardSize), RemoteWrite)
		h.register(make([]byte, inSlots*slotSize), LocalWrite)
		e := &talker{host: h, air: a, left: 20 + a.rng.IntN(60), plans: make([]utterance, 1)}
		h.onSend, h.onRecv, h.onBack = e.completed, e.arrived, e.back
		if a.rng.IntN(2) == 0 { // nothing is between the two, now and then
			h.near = func() *Responder {
				if a.rng.IntN(4) == 0 {
					return nil
				}
				return &e.peer.r
			}
		}
		h.s.Start(SenderConfig{Transport: a.of, QPN: qpnA + uint32(i), DestQPN: qpnA + uint32(1-i), MTU: mtu, PSN: psn[i],
			SignalAll: true, QKey: 7})
		h.r.Start(ResponderConfig{Transport: a.of, QPN: qpnA + uint32(i), DestQPN: qpnA + uint32(1-i), MTU: mtu, PSN: psn[1-i],
			Access: RemoteWrite, QKey: uint32(7 + i)})
		a.ends[i] = e
	}
	a.ends[0].peer, a.ends[1].peer = a.ends[1], a.ends[0]
	return a
}

func (a *air) after(d Instant, do func()) {
	a.count++
	heap.Push(&a.queue, event{a.now + d, a.count, do})
}

func (a *air) fail(format string, x ...any) {
	if a.err == nil {
		a.err = fmt.Errorf("at %v: "+format, append([]any{time.Duration(a.now)}, x...)...)
	}
}

// run lets the talkers talk, and then once more in good weather.
func (a *air) run() error {
	for _, e := range a.ends {
		e.talk()
	}
	a.settle()
	a.sky, a.damage, a.perfect = weather{latency: 100}, 0, true
	for _, e := range a.ends {
		before := e.peer.heard
		e.peer.postReceive()
		e.left = 1
		e.talk()
		a.settle()
		if e.peer.heard != before+1 || e.peer.last != uint32(len(e.plans)-1) {
			a.fail("%s: the last message of %d was not heard: %v", e.name, len(e.plans)-1, e.peer.counts)
		}
	}
	return a.err
}

// settle runs until nothing happens any more, and everything is completed.
func (a *air) settle() {
	for len(a.queue) > 0 && a.err == nil {
		e := heap.Pop(&a.queue).(event)
		a.now = max(a.now, e.at)
		e.do()
	}
	for _, e := range a.ends {
		if e.q.Len() != 0 || e.left != 0 || len(e.fatal) != 0 || e.s.Deadline() != 0 {
			a.fail("%s: %d requests are left, waits for %v; %v", e.name, e.q.Len(), e.s.Waiting(), e.fatal)
		}
	}
}

// carry lets a packet meet its fate. The frame is out until its last copy has
// arrived: whoever overwrites its memory before that is found out.
func (a *air) carry(from *talker, f *frame.Frame) {
	copies := 1
	if a.rng.Float64() < a.sky.double {
		copies = 2
	}
	var longest Instant
	for range copies {
		if a.rng.Float64() < a.sky.lose {
			continue
		}
		d := a.sky.latency
		if a.rng.Float64() < a.sky.delay {
			d += Instant(a.rng.Int64N(int64(a.sky.late)))
		}
		longest = max(longest, d)
		a.after(d, func() {
			c := clone(f)
			c.Peer, c.Local = from.addr, from.peer.addr
			if a.rng.Float64() < a.damage {
				a.mangle(c)
			}
			from.peer.arrive(c)
		})
	}
	if a.rng.Float64() < a.sky.holdFrames {
		longest += Instant(a.rng.IntN(100_000))
	}
	a.after(longest+1, f.Back)
}

// mangle damages a packet in a way that its ICRC would show and that nobody can
// take for another packet.
func (a *air) mangle(f *frame.Frame) {
	b := (*roce.BTH)(f.Head[:])
	switch a.rng.IntN(4) {
	case 0:
		f.HeadLen = uint8(a.rng.IntN(roce.BTHLen))
	case 1:
		b.SetPad(int(f.Pad) + 1 + a.rng.IntN(3))
	case 2:
		f.Head[0] ^= 0x80
	case 3:
		f.Head[0] |= 0x1e
	}
}

// arrive queues a packet, or drops it when the FIFO is full.
func (e *talker) arrive(f *frame.Frame) {
	if len(e.fifo) < 32 {
		e.fifo = append(e.fifo, f)
	}
	e.wake()
}

// back takes note of a frame that is back. Who waits for one is woken.
func (e *talker) back(wake bool) {
	if wake || e.s.Waiting() == WaitFrame {
		e.wake()
	}
}

// wake arranges for a run.
func (e *talker) wake() {
	if !e.queued {
		e.queued = true
		e.air.after(Instant(e.air.rng.IntN(300)), func() {
			e.queued = false
			e.turn()
		})
	}
}

// turn is a run of both halves.
func (e *talker) turn() {
	for _, f := range e.fifo {
		if !e.r.Receive(f, e.air.now) {
			e.air.fail("%s: a packet was not taken", e.name)
		}
		if e.air.of == roce.UC {
			e.look()
		}
		e.sound(e.air.t)
	}
	e.fifo = e.fifo[:0]
	more := e.r.Step(e.air.now, 8)
	more = e.s.Step(e.air.now, 1+e.air.rng.IntN(8)) || more
	e.sound(e.air.t)
	for _, f := range e.takeOut() {
		e.air.carry(e, f)
	}
	if more {
		e.wake()
	}
}

// look looks at the board: on a connection no older word may replace a newer.
func (e *talker) look() {
	mem := e.regions[keyBoard-1].mem
	for i, was := range e.seen {
		is := binary.NativeEndian.Uint32(mem[4*i:])
		if is < was {
			e.air.fail("%s: word %d of the board is %d, and was %d", e.name, i, is, was)
		}
		e.seen[i] = is
	}
}

// talk posts receives and messages now and then.
func (e *talker) talk() {
	rng := e.air.rng
	for range 1 + rng.IntN(3) {
		if !e.air.perfect && rng.IntN(2) == 0 && len(e.posted) < inSlots-1 {
			e.postReceive()
		}
		if e.left > 0 && e.say() {
			e.left--
		}
	}
	if e.left > 0 {
		e.air.after(Instant(rng.IntN(20_000)), e.talk)
	}
	e.wake()
}

// postReceive posts a receive of several entries that holds every message.
func (e *talker) postReceive() {
	at := e.wanted % inSlots * slotSize
	cut := e.air.rng.IntN(100)
	if cut%2 == 0 {
		e.receive(uint64(e.wanted), SGE{addr(keyIn, at), slotSize, keyIn})
	} else {
		e.receive(uint64(e.wanted), SGE{addr(keyIn, at), uint32(cut), keyIn},
			SGE{addr(keyIn, at+cut), uint32(slotSize - cut), keyIn})
	}
	e.wanted++
}

// say posts one message.
func (e *talker) say() bool {
	rng, number := e.air.rng, uint32(len(e.plans))
	u := utterance{op: []Op{OpSend, OpSendImm, OpWrite, OpWriteImm}[rng.IntN(4)], n: 4 * rng.IntN(boardSize/4)}
	if e.air.of == roce.UD || e.air.perfect {
		u.op = []Op{OpSend, OpSendImm}[rng.IntN(2)]
		u.n = 4 * rng.IntN(e.s.mtu/4+1)
	}
	if u.op == OpSend {
		u.n = max(u.n, 4)
	}
	u.at = 4 * rng.IntN((boardSize-u.n)/4+1)
	return e.post(func(w *WQE) {
		at := int(number) % outSlots * slotSize
		mem := e.regions[keyOut-1].mem[at : at+u.n]
		for i := 0; i < u.n; i += 4 {
			binary.NativeEndian.PutUint32(mem[i:], number)
		}
		w.ID, w.Op, w.Imm, w.RKey, w.RemoteAddr = uint64(number), u.op, number, keyBoard, addr(keyBoard, u.at)
		w.Peer, w.DestQPN, w.QKey = e.peer.addr, e.s.cfg.DestQPN, e.peer.r.cfg.QKey
		if u.n <= cap(w.Data) && rng.IntN(4) == 0 {
			w.Flags |= Inline
			w.Data = append(w.Data, mem...)
		} else if u.n > 0 {
			cut := rng.IntN(u.n)
			if cut%2 == 0 {
				cut = 0
			} else {
				w.SG = append(w.SG, SGE{addr(keyOut, at), uint32(cut), keyOut})
			}
			w.SG = append(w.SG, SGE{addr(keyOut, at+cut), uint32(u.n - cut), keyOut})
		}
		e.plans = append(e.plans, u)
	})
}

// completed overwrites what was sent: the program may do so now.
func (e *talker) completed(c *CQE) {
	e.done++
	if c.ID != uint64(e.done) || c.Status != StatusSuccess || e.refs[c.ID-1] != 0 {
		e.air.fail("%s: got completion %d %v with %d frames out, want %d", e.name, c.ID, c.Status, e.refs[c.ID-1], e.done)
	}
	mem := e.regions[keyOut-1].mem[e.done%outSlots*slotSize:][:slotSize]
	for i := range mem {
		mem[i] = 0xff
	}
}

// arrived checks a message that was delivered.
func (e *talker) arrived(c *CQE) {
	at := int(c.ID) % inSlots * slotSize
	got := e.regions[keyIn-1].mem[at : at+int(c.ByteLen)]
	if e.air.of == roce.UD {
		if src := (*roce.GRH)(got).Src(); src != e.peer.addr.AddrPort().Addr() || c.SrcQP != e.peer.s.cfg.QPN || !c.WithGRH {
			e.air.fail("%s: a datagram is from %v queue pair %d", e.name, src, c.SrcQP)
		}
		got = got[roce.GRHLen:]
	}
	number := c.Imm
	if !c.WithImm {
		number = binary.NativeEndian.Uint32(got)
	}
	if int(number) >= len(e.peer.plans) || e.air.of == roce.UC && number <= e.last {
		e.air.fail("%s: heard message %d after %d of %d", e.name, number, e.last, len(e.peer.plans))
		return
	}
	u := e.peer.plans[number]
	if c.Op == OpRecvWriteImm {
		got = e.regions[keyBoard-1].mem[u.at : u.at+u.n]
	}
	if kind(*c) != u.op || len(got) != u.n {
		e.air.fail("%s: message %d is %d of %d bytes, want %d of %d", e.name, number, c.Op, len(got), u.op, u.n)
	}
	for i := 0; i < len(got); i += 4 {
		if is := binary.NativeEndian.Uint32(got[i:]); is != number {
			e.air.fail("%s: byte %d of message %d is of message %#x", e.name, i, number, is)
			return
		}
	}
	e.last = number
	e.heard++
}
