package qp

import (
	"container/heap"
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

var (
	simSeeds = flag.Int("sim.seeds", 500, "how many seeds TestSimulation runs")
	simSeed  = flag.Uint64("sim.seed", 0, "the one seed that TestSimulation runs; 0: as many as sim.seeds says")
)

// TestSimulation lets two endpoints talk over a network that loses, doubles,
// reorders and delays packets, in virtual time: a random mix of all operations
// in both directions, with few frames, small budgets and late receives. In some
// of them the two are near each other at times, while what the network has doubled
// is still on its way, and messages go whole. Every
// byte, every completion and its order is checked against a model that executes
// the requests one by one.
func TestSimulation(t *testing.T) {
	first, n := uint64(1), *simSeeds
	if *simSeed != 0 {
		first, n = *simSeed, 1
	}
	if testing.Short() {
		n = min(n, 100)
	}
	whole := 0
	for seed := first; seed < first+uint64(n); seed++ {
		w := newWorld(t, seed)
		if err := w.run(); err != nil {
			t.Fatalf("%v\nreplay: go test ./internal/qp -run TestSimulation -sim.seed=%d", err, seed)
		}
		whole += w.ends[0].handed + w.ends[1].handed
	}
	if n >= 100 && whole < n {
		t.Errorf("%d messages in %d simulations went whole, want more", whole, n)
	}
}

// TestSimulationOfOldSeeds runs the seeds that failed once.
func TestSimulationOfOldSeeds(t *testing.T) {
	for _, seed := range []uint64{} {
		if err := newWorld(t, seed).run(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}

// weather is how bad a network is.
type weather struct {
	lose, double, delay float64 // probabilities
	latency, late       Instant // of a packet; of a delayed one, at most
	blackout            Instant // how long nothing passes, now and then; 0: never
	holdFrames          float64 // probability that a frame is given back late
}

// An event is what happens at a time.
type event struct {
	at    Instant
	order int
	do    func()
}

type events []event

func (q events) Len() int { return len(q) }
func (q events) Less(i, j int) bool {
	return q[i].at < q[j].at || q[i].at == q[j].at && q[i].order < q[j].order
}
func (q events) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *events) Push(x any)   { *q = append(*q, x.(event)) }
func (q *events) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

// A world is one simulation.
type world struct {
	t     *testing.T
	rng   *rand.Rand
	now   Instant
	queue events
	count int
	sky   weather
	dark  Instant // a blackout ends
	ends  [2]*end
	err   error
}

// newWorld draws one from a seed.
func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rng: rand.New(rand.NewPCG(seed, 77)), now: 1000}
	pick := func(p ...float64) float64 { return p[w.rng.IntN(len(p))] }
	w.sky = weather{
		lose: pick(0, 0, 0.001, 0.01, 0.1, 0.3), double: pick(0, 0, 0.01, 0.2), delay: pick(0, 0, 0.02, 0.3),
		latency: Instant(pick(100, 2000, 50_000)), late: Instant(pick(5000, 100_000, 2_000_000)),
		holdFrames: pick(0, 0, 0.1, 0.9),
	}
	if w.rng.IntN(4) == 0 {
		w.sky.blackout = Instant(w.rng.IntN(50_000_000))
	}
	mtu := roce.MTU(1 + w.rng.IntN(5))
	psn := [2]roce.PSN{roce.NewPSN(w.rng.Uint32()), roce.NewPSN(w.rng.Uint32())}
	for i := range psn {
		if w.rng.IntN(3) == 0 {
			psn[i] = roce.NewPSN(-uint32(w.rng.IntN(60))) // about to wrap
		}
	}
	rd := [2]uint8{uint8(1 + w.rng.IntN(8)), uint8(1 + w.rng.IntN(8))}
	for i := range w.ends {
		w.ends[i] = newEnd(w, i, mtu, psn, rd)
	}
	w.ends[0].peer, w.ends[1].peer = w.ends[1], w.ends[0]
	return w
}

// after arranges for something to happen.
func (w *world) after(d Instant, do func()) {
	w.count++
	heap.Push(&w.queue, event{w.now + d, w.count, do})
}

// fail notes the first thing that is wrong.
func (w *world) fail(format string, a ...any) {
	if w.err == nil {
		w.err = fmt.Errorf("at %v: "+format, append([]any{time.Duration(w.now)}, a...)...)
	}
}

// run runs to the end, or to the first thing that is wrong.
func (w *world) run() error {
	for _, e := range w.ends {
		e.wake()
		e.program()
	}
	const most = 3_000_000
	for steps := 0; len(w.queue) > 0; steps++ {
		e := heap.Pop(&w.queue).(event)
		w.now = max(w.now, e.at)
		e.do()
		if w.err != nil {
			return w.err
		}
		if w.done() {
			break
		}
		if steps == most {
			return fmt.Errorf("no end after %d steps: %s; %s", most, w.ends[0], w.ends[1])
		}
	}
	for _, e := range w.ends {
		e.check()
	}
	return w.err
}

// done reports whether both programs have all their completions.
func (w *world) done() bool {
	return w.ends[0].finished() && w.ends[1].finished()
}

// carry lets a packet meet its fate.
func (w *world) carry(from *end, f *frame.Frame) {
	if w.sky.blackout > 0 && w.now > w.dark && w.rng.IntN(2000) == 0 {
		w.dark = w.now + w.sky.blackout
	}
	copies := 1
	if w.rng.Float64() < w.sky.double {
		copies = 2
	}
	for range copies {
		if w.now < w.dark || w.rng.Float64() < w.sky.lose {
			continue
		}
		d := w.sky.latency
		if w.rng.Float64() < w.sky.delay {
			d += Instant(w.rng.Int64N(int64(w.sky.late)))
		}
		c := clone(f)
		w.after(d, func() { from.peer.arrive(c) })
	}
	if w.rng.Float64() < w.sky.holdFrames {
		w.after(Instant(w.rng.IntN(100_000)), func() { from.back(f) })
	} else {
		from.back(f)
	}
}

// The memory of an end, one region of each.
const (
	keySource  = 1 // what it sends; never changes
	keyTarget  = 2 // what its peer writes, reads and counts in
	keyLanding = 3 // where its READs and atomics put what they get
	keyReceive = 4 // where its receives put what they get
	keyFirst   = 5 // regions that are there to be invalidated
	targetSize = 64 << 10
	longest    = 20_000
)

// An end is one endpoint with its program.
type end struct {
	*host
	w      *world
	peer   *end
	fifo   []*frame.Frame
	rng    *rand.Rand
	queued bool
	alarm  Instant

	left    int    // requests to post
	plain   int    // of four messages, how many are in one piece of memory
	count   uint64 // requests posted
	done    uint64
	plans   []plan // of requests, by number
	fence   bool   // the next request that changes the target has to wait for READs
	target  []byte // the model of the peer's target region
	expect  []arrival
	wanted  int // receives posted
	got     int
	landed  int // bytes of the landing region in use
	invNext uint32
	local   uint32
	window  uint32 // the next to bind

	flushPlans [][]byte // the target as each FLUSH is to find it
}

// A plan is what a request is to leave behind.
type plan struct {
	op   Op
	at   int    // in the landing region
	data []byte // what is to be there
	loud bool
}

// An arrival is what a receive of the peer is to get.
type arrival struct {
	data []byte
	n    uint32
	imm  uint32
	kind Op
	with bool
	inv  uint32
}
