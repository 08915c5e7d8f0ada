package perf

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/side"
)

// A comchMeter is the measuring end: the server, with one peer. It belongs to
// one goroutine.
type comchMeter struct {
	*comchEnd
	server *comch.Server
	rep    *device.Representor
	peer   *comchProcess
	copyTo []byte
	trips  *hdrhistogram.Histogram
	unix   *hdrhistogram.Histogram
	idle   float64 // of one call of Progress
	counts bool    // the slice counts allocations
	allocs uint64  // of the last slice that did
}

// newComchMeter starts a peer and connects to it. Meters of one process have
// different numbers.
func newComchMeter(ctx context.Context, command comchCommand, number int) (m *comchMeter, err error) {
	e, err := newComchEnd(ctx)
	if err != nil {
		return nil, err
	}
	m = &comchMeter{comchEnd: e, trips: newLatencies(), unix: newLatencies()}
	if err = m.start(command, fmt.Sprintf("gantry bench comch %d/%d", os.Getpid(), number)); err != nil {
		return nil, m.close(err)
	}
	return m, nil
}

func (m *comchMeter) start(command comchCommand, name string) (err error) {
	if m.device, m.rep, err = side.OpenDPU("", ""); err != nil {
		return err
	}
	if m.server, err = comch.NewServer(m.device, m.rep, name); err != nil {
		return err
	}
	m.send = m.server.AllocSend
	connected := func(c *comch.Connection, ok bool) {
		if m.conn == nil && ok {
			m.conn = c
		}
	}
	disconnected := func(c *comch.Connection, _ bool) { m.lost = m.lost || c == m.conn }
	err = m.listen(m.server)
	core.KeepFirst(&err, m.server.SetConnectionFuncs(connected, disconnected))
	core.KeepFirst(&err, m.control.Connect(&m.server.Context))
	if err == nil {
		err = m.server.Start()
	}
	if err != nil {
		return err
	}
	if m.peer, err = startComchProcess(m.ctx, command, name); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(m.ctx) // ends when the peer does
	defer cancel()
	stop := context.AfterFunc(m.peer.ended, cancel)
	defer stop()
	whole := m.ctx
	m.ctx = ctx
	m.peer.guard.wait()
	defer m.peer.guard.over()
	err = m.wait(func() bool { return m.conn != nil })
	m.ctx = whole
	return err
}

// close ends the meter and its peer, however far it came, and returns err, or
// what goes wrong now.
func (m *comchMeter) close(err error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	core.KeepFirst(&err, m.shut())
	if m.server != nil {
		core.KeepFirst(&err, m.server.Shutdown(ctx))
		core.KeepFirst(&err, m.server.Destroy())
	}
	if m.peer != nil {
		err = m.peer.close(err)
	}
	if m.rep != nil {
		core.KeepFirst(&err, m.rep.Close())
	}
	core.KeepFirst(&err, m.destroy())
	if m.device != nil {
		core.KeepFirst(&err, m.device.Close())
	}
	return err
}

// order gives an order and waits for the answer.
func (m *comchMeter) order(o order) (answer order, err error) {
	if err = m.say(o); err != nil {
		return answer, err
	}
	return m.answer()
}

func (m *comchMeter) answer() (o order, err error) {
	if o, err = m.hear(); err == nil && o.Wrong != "" {
		err = errors.New("the other process: " + o.Wrong)
	}
	return o, err
}

// prepare makes the pipe of a point at both ends.
func (m *comchMeter) prepare(p ComchPoint) error {
	m.peer.guard.wait()
	defer m.peer.guard.over()
	if err := m.say(order{What: orderOpen, Point: p}); err != nil {
		return err
	}
	if err := m.open(p); err != nil {
		return err
	}
	_, err := m.answer()
	return err
}

// finish ends the pipe at both ends, and returns how many messages both ends have checked.
func (m *comchMeter) finish() (checked uint64, err error) {
	m.peer.guard.wait()
	defer m.peer.guard.over()
	o, err := m.order(order{What: orderClose})
	checked = m.pipe.checked + o.Checked
	core.KeepFirst(&err, m.shut())
	return checked, err
}

// measure measures one point.
func (m *comchMeter) measure(p ComchPoint, d time.Duration, w Watch) (res ComchResult, err error) {
	res.ComchPoint = p
	if err = m.prepare(p); err != nil {
		return res, err
	}
	m.idle = m.measureIdle()
	m.copyTo = make([]byte, len(m.pipe.out.Bytes()))
	ctx, giveUp := context.WithCancelCause(m.ctx)
	defer giveUp(nil)
	slices := func(run func(n int) (int, time.Duration), least int) *contender {
		return &contender{least: least, run: func(n int) (did int, took time.Duration) {
			if did, took = run(n); m.failed != nil {
				giveUp(m.failed)
			}
			return did, took
		}}
	}
	ping, stream, copies := slices(m.ping, 4), slices(m.stream, p.Window), slices(m.copies, p.Window)
	unixPing, unixStream := slices(m.unixPing, 4), slices(m.unixStream, 4)
	ping.warm = func() { m.trips.Reset(); m.unix.Reset() }
	if err = takeTurns(ctx, d, comchSlice, w, ping, unixPing, stream, unixStream, copies); err != nil {
		return res, err
	}
	if res.Alloc = m.leastAllocs(stream.n); m.failed != nil {
		return res, m.failed
	}
	if res.Checked, err = m.finish(); err != nil {
		return res, err
	}
	us := func(h *hdrhistogram.Histogram, q float64) float64 { return float64(h.ValueAtQuantile(q)) / 2e3 }
	res.P50, res.P99, res.P999 = us(m.trips, 50), us(m.trips, 99), us(m.trips, 99.9)
	res.UnixP50 = us(m.unix, 50)
	res.Rate = 1e9 / median(stream.ns)
	res.Bytes = float64(p.Size) / median(stream.ns)
	res.UnixBytes = float64(p.Size) / median(unixStream.ns)
	res.Copy = float64(p.Size) / median(copies.ns)
	res.ToUnix = ratio(ping.ns, unixPing.ns)
	res.ToCopy = ratio(copies.ns, stream.ns)
	return res, nil
}

// serve tells the peer that a slice begins; then the pipe is its only business
// until lastOne. The guard watches both.
func (m *comchMeter) serve() {
	m.peer.guard.wait()
	_, err := m.order(order{What: orderServe})
	core.KeepFirst(&m.failed, err)
	m.pipe.begin()
}

// lastOne ends a slice.
func (m *comchMeter) lastOne() {
	defer m.peer.guard.over()
	m.pipe.put(messageLast)
	core.KeepFirst(&m.pipe.failed, m.pipe.settle())
	core.KeepFirst(&m.failed, m.pipe.failed)
	if m.failed != nil {
		return
	}
	o, err := m.answer()
	core.KeepFirst(&m.failed, err)
	m.allocs += o.Mallocs
}

// ok reports whether nothing has failed, within a slice.
func (m *comchMeter) ok() bool { return m.failed == nil && m.pipe.failed == nil }

// ping sends n messages to and fro, one at a time.
func (m *comchMeter) ping(n int) (int, time.Duration) {
	m.serve()
	start := time.Now()
	for last := start; n > 0 && m.ok(); n-- {
		m.trip()
		m.peer.guard.moved(n)
		now := time.Now()
		_ = m.trips.RecordValue(int64(now.Sub(last)))
		last = now
	}
	took := time.Since(start)
	did := int(m.pipe.numbered)
	m.lastOne()
	return max(did, 1), took
}

// trip sends one message and waits for its echo.
func (m *comchMeter) trip() {
	p := m.pipe
	p.echoed = false
	for p.put(messagePing); !p.echoed && p.failed == nil; {
		p.turn()
	}
}

// stream sends n messages, the last of which is answered.
func (m *comchMeter) stream(n int) (int, time.Duration) {
	m.serve()
	m.allocs = 0
	var before uint64
	if m.counts {
		before = mallocs()
	}
	start := time.Now()
	for i := 1; i < n && m.ok(); i++ {
		m.pipe.put(messageStream)
		m.peer.guard.moved(i)
	}
	if m.ok() {
		m.trip()
	}
	took := time.Since(start)
	if m.counts {
		m.allocs = mallocs() - before
	}
	m.lastOne()
	return n, took
}

// leastAllocs returns the allocations of both processes for each message: the
// least of five tries, because strangers can only add to it.
func (m *comchMeter) leastAllocs(n int) float64 {
	m.counts = true
	defer func() { m.counts = false }()
	best := math.Inf(1)
	for range 5 {
		did, _ := m.stream(n)
		best = min(best, float64(m.allocs)/float64(did))
	}
	return best
}

// copies copies n messages with Go's copy.
func (m *comchMeter) copies(n int) (int, time.Duration) {
	from, size := m.pipe.out.Bytes(), m.pipe.Size
	start := time.Now()
	for i := 0; i < n; i++ {
		at := i % m.pipe.Window * size
		copy(m.copyTo[at:at+size], from[at:at+size])
	}
	took := time.Since(start)
	runtime.KeepAlive(m.copyTo)
	return n, took
}

// measureIdle returns what a call of Progress costs that finds nothing.
func (m *comchMeter) measureIdle() float64 {
	const calls = 1 << 14
	best := math.Inf(1)
	for range 5 {
		start := time.Now()
		for range calls {
			m.data.Progress()
		}
		best = min(best, float64(time.Since(start).Nanoseconds())/calls)
	}
	return best
}

// ComchPeer is the other process of [MeasureComch]: a client of the server with
// the given name, which does what that says until it goes. The other end of
// the Unix socket is the file.
func ComchPeer(ctx context.Context, name string, unix *os.File) (err error) {
	served := make(chan error, 1)
	go func() { served <- serveUnix(unix) }()
	e, err := newComchEnd(ctx)
	if err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, e.destroy()) }()
	if e.device, err = side.OpenHost(""); err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, e.device.Close()) }()
	client, err := comch.NewClient(e.device, name)
	if err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, client.Destroy()) }()
	e.send = client.AllocSend
	err = e.listen(client)
	client.SetStateFunc(func(_ *core.Context, _, next core.State) {
		if next == core.Running {
			e.conn, _ = client.Connection() // which a running client has
		}
		e.lost = next == core.Idle || next == core.Stopping
	})
	core.KeepFirst(&err, e.control.Connect(&client.Context))
	if err != nil {
		return err
	}
	if err = client.Start(); err != core.ErrInProgress {
		return err
	}
	if err = e.wait(func() bool { return e.conn != nil }); err != nil {
		return errors.Join(err, client.Err())
	}
	err = e.obey()
	if e.lost {
		err = nil // the server has what it wants
	}
	core.KeepFirst(&err, e.shut())
	core.KeepFirst(&err, client.Shutdown(ctx))
	core.KeepFirst(&err, <-served)
	return err
}

// obey carries out orders until the server has gone.
func (e *comchEnd) obey() error {
	for {
		o, err := e.hear()
		if err != nil {
			return err
		}
		if err = e.carryOut(&o); err != nil {
			o.Wrong = err.Error()
		}
		if said := e.say(o); said != nil {
			return said
		}
		if o.What == orderDone && err != nil {
			return err // the meter looks at the pipe alone, and sees that end
		}
	}
}

// carryOut does what an order says, and makes it the answer.
func (e *comchEnd) carryOut(o *order) error {
	switch o.What {
	case orderOpen:
		return e.open(o.Point)
	case orderServe:
		if err := e.say(*o); err != nil {
			return err
		}
		for e.control.Progress() { // the answer is on its way
		}
		o.What = orderDone
		before := mallocs()
		e.pipe.begin()
		err := e.pipe.serve()
		o.Mallocs = mallocs() - before
		core.KeepFirst(&err, e.pipe.settle())
		return err
	case orderClose:
		o.Checked = e.pipe.checked
		return e.shut()
	}
	return fmt.Errorf("unknown order %q: %w", o.What, core.ErrInvalidValue)
}
