package cm

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"hash/fnv"
	"net/netip"
	"sync"
	"time"

	"github.com/gantry-rdma/gantry/internal/conn"
	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// agents are those of the devices that have a channel.
var agents struct {
	mu  sync.Mutex
	all map[*verbs.Device]*agent
}

// An agent is the connection manager of a device: the machines of package conn,
// queue pair 1, and who drives both. Channels share it.
type agent struct {
	dev    *verbs.Device
	qp1    *gsi
	users  int           // channels; agents.mu guards it
	driver chan struct{} // on an inline executor: whoever drives has put a token in
	loops  sync.WaitGroup
	stop   context.CancelFunc

	mu       sync.Mutex
	machine  *conn.Agent
	channels map[*Channel]bool
	timer    *time.Timer // calls tick; not on an inline executor
	driving  *Channel    // whose Next drives
	rouse    func()      // ends its wait
	pending  []conn.Event
	private  [][]byte // of the pending events
	err      error    // the device is gone
	lost     struct{ noMAD, full uint64 }
}

// start is the beginning of the clock of this package.
var start = time.Now()

func instant() conn.Instant { return conn.Instant(time.Since(start)) + 1 }

// agentOf returns the agent of a device, for one more channel.
func agentOf(d *verbs.Device) (*agent, error) {
	agents.mu.Lock()
	defer agents.mu.Unlock()
	if a := agents.all[d]; a != nil {
		a.users++
		return a, nil
	}
	a := &agent{dev: d, users: 1, channels: map[*Channel]bool{}}
	a.machine = conn.New(conn.Config{Addr: d.Addr(), GUID: guid(d.Addr()), MTU: d.Port().ActiveMTU, Random: random}, a)
	q, err := openGSI(d)
	if err != nil {
		return nil, err
	}
	a.qp1 = q
	if _, inline := d.Executor().(*work.Inline); inline {
		a.driver = make(chan struct{}, 1)
	} else {
		ctx, cancel := context.WithCancel(context.Background())
		a.stop = cancel
		a.timer = time.AfterFunc(time.Hour, a.tick)
		a.timer.Stop()
		a.loops.Go(func() { a.loop(ctx) })
	}
	if agents.all == nil {
		agents.all = map[*verbs.Device]*agent{}
	}
	agents.all[d] = a
	return a, nil
}

// release gives the agent up for one channel.
func (a *agent) release() error {
	agents.mu.Lock()
	defer agents.mu.Unlock()
	if a.users--; a.users > 0 {
		return nil
	}
	delete(agents.all, a.dev)
	a.mu.Lock()
	a.qp1.drain() // what was said last is to be heard
	a.mu.Unlock()
	if a.stop != nil {
		a.stop()
		a.loops.Wait()
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = EBADF
	if a.timer != nil {
		a.timer.Stop()
	}
	return a.qp1.close()
}

// guid returns the identity of the device with an address. It is the same after
// a restart, so that peers know which of their connections are from before.
func guid(addr netip.Addr) uint64 {
	h := fnv.New64a()
	b := addr.As16()
	_, _ = h.Write(b[:]) // a hash takes everything
	const local = 1 << 57
	return h.Sum64() | local
}

// random returns what no peer can guess.
func random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:])
}

// loop reads queue pair 1.
func (a *agent) loop(ctx context.Context) {
	for {
		err := a.qp1.wait(ctx)
		if ctx.Err() != nil {
			return
		}
		a.mu.Lock()
		if err != nil {
			a.fail(err)
			a.mu.Unlock()
			return
		}
		a.work()
		a.mu.Unlock()
	}
}

// tick is called by the timer.
func (a *agent) tick() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err == nil {
		a.work()
	}
}

// work takes what has come, and then does what is due: when this program stood
// still past a deadline, an answer that came in time still counts. The caller
// holds mu.
func (a *agent) work() {
	now := instant()
	a.receive(now)
	a.machine.Tick(now)
	a.settle()
}

// poll does what there is to do on an inline executor. The caller is the driver.
func (a *agent) poll() {
	err := a.qp1.try()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err != nil {
		return
	}
	if err != nil {
		a.fail(err)
		return
	}
	a.work()
}

// drive polls until c has an event, or ctx is done. The caller is the driver.
func (a *agent) drive(ctx context.Context, c *Channel) error {
	for failed := 0; ; {
		a.poll()
		wait, cancel := a.begin(ctx, c)
		if wait == nil {
			return nil
		}
		err := a.qp1.wait(wait)
		if err == nil || wait.Err() != nil {
			failed = 0
		} else {
			failed++ // it may be the echo of a wait before that was ended
		}
		cancel()
		a.mu.Lock()
		a.rouse, a.driving = nil, nil
		if failed > 2 {
			a.fail(err)
		}
		a.mu.Unlock()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

// begin prepares a wait of the driver: until the deadline of the machines, or
// until something is pushed for c. It returns nil if there is something.
func (a *agent) begin(ctx context.Context, c *Channel) (context.Context, context.CancelFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(c.events) > 0 || c.closed || a.err != nil {
		return nil, nil
	}
	var wait context.Context
	var cancel context.CancelFunc
	if at := a.machine.Deadline(); at != 0 {
		wait, cancel = context.WithTimeout(ctx, time.Duration(at-instant()))
	} else {
		wait, cancel = context.WithCancel(ctx)
	}
	a.rouse, a.driving = cancel, c
	return wait, cancel
}

// fail ends everything because the device is gone. The caller holds mu.
func (a *agent) fail(err error) {
	a.err = err
	for c := range a.channels {
		c.call()
	}
}

// receive hands what has come to the machines. The caller holds mu.
func (a *agent) receive(now conn.Instant) {
	bad := a.qp1.receive(func(from netip.Addr, m *mad.MAD) { a.machine.Receive(from, m, now); a.settle() })
	a.lost.noMAD += uint64(bad)
}

// settle carries out what the machines want: it tells the channels, moves queue
// pairs, and sets the timer. The caller holds mu, and calls it after each call
// of a machine.
func (a *agent) settle() {
	for len(a.pending) > 0 {
		e, private := a.pending[0], a.private[0]
		a.pending, a.private = a.pending[1:], a.private[1:]
		a.handle(e, private)
	}
	a.pending, a.private = nil, nil
	switch at := a.machine.Deadline(); {
	case a.timer != nil && at != 0:
		a.timer.Reset(time.Duration(at - instant()))
	case a.driving != nil && a.rouse != nil:
		a.rouse() // it may wait for a later deadline
	}
}

// Send is part of conn.Env. The caller holds mu.
func (a *agent) Send(to netip.Addr, m *mad.MAD) {
	if !a.qp1.send(to, m) {
		a.lost.full++ // as if the network had lost it
	}
}

// Event is part of conn.Env: it notes the event, for settle. The caller holds mu.
func (a *agent) Event(e conn.Event) {
	a.private = append(a.private, append([]byte(nil), e.Private()...))
	e.Message = nil
	a.pending = append(a.pending, e)
}
