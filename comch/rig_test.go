package comch

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
)

// A rig is a card: a DPU function with its representor, and the host function
// on the other side.
type rig struct {
	testing.TB
	dpu, host *device.Device
	rep       *device.Representor
	engines   []*core.Engine
	held      int // descriptors of memory that the test has made
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{TB: t}
	infos, err := device.Config{Virtual: 1}.List()
	r.want("list", err, nil)
	for _, i := range infos {
		if ServerSupported(i) == nil {
			r.dpu, err = device.Open(i)
			r.want("open the DPU function", err, nil)
		}
		if ClientSupported(i) == nil {
			r.host, err = device.Open(i)
			r.want("open the host function", err, nil)
		}
	}
	reps, err := r.dpu.Representors(device.FilterNet)
	r.want("representors", err, nil)
	r.rep, err = r.dpu.OpenRepresentor(reps[0])
	r.want("open the representor", err, nil)
	t.Cleanup(func() {
		for _, e := range r.engines {
			r.want("destroy an engine", e.Destroy(), nil)
		}
		r.want("close the representor", r.rep.Close(), nil)
		r.want("close the DPU function", r.dpu.Close(), nil)
		r.want("close the host function", r.host.Close(), nil)
	})
	return r
}

func (r *rig) want(what string, got, want error) {
	r.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		r.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// engine makes an engine that until progresses.
func (r *rig) engine() *core.Engine {
	r.Helper()
	e, err := core.NewEngine()
	r.want("engine", err, nil)
	r.engines = append(r.engines, e)
	return e
}

// patient is how long a test waits for what must happen.
const patient = 20 * time.Second

// until progresses all engines, and others, until cond holds.
func (r *rig) until(what string, cond func() bool, others ...*core.Engine) {
	r.Helper()
	end := time.Now().Add(patient)
	for n := 0; !cond(); n++ {
		did := false
		for _, e := range r.engines {
			did = e.Progress() || did
		}
		for _, e := range others {
			did = e.Progress() || did
		}
		if !did {
			runtime.Gosched()
		}
		if n%1024 == 0 && time.Now().After(end) {
			r.Fatalf("waited in vain: %s", what)
		}
	}
}

// settle progresses all engines until nothing has happened for a while.
func (r *rig) settle() {
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
		for _, e := range r.engines {
			if e.Progress() {
				end = time.Now().Add(20 * time.Millisecond)
			}
		}
		runtime.Gosched()
	}
}

// block progresses one engine until cond holds, and blocks on its descriptor
// whenever there is nothing to do.
func block(t testing.TB, e *core.Engine, cond func() bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for !cond() {
		if e.Progress() {
			continue
		}
		if err := e.RequestNotification(); err != nil {
			t.Error(err)
			return
		}
		if err := e.Wait(ctx); err != nil {
			t.Errorf("blocked in vain: %v", err)
			return
		}
		if err := e.ClearNotification(); err != nil {
			t.Error(err)
			return
		}
	}
}

// An end is a server or client, and what it was told.
type end struct {
	*rig
	k      *control
	engine *core.Engine
	link   *Connection // the last one; of a server nil again when it is over

	got     []string
	seen    int // messages that were not kept
	sent    int
	failed  []core.Status
	states  []core.State
	events  []string
	onGot   func(*Connection, []byte)
	onSent  func(*Send)
	joined  func(*Connection)
	keeping bool // of tasks that were sent
}

func (r *rig) equip(e *end, k *control, engine *core.Engine, tasks int) {
	r.Helper()
	e.rig, e.k, e.engine = r, k, engine
	k.SetStateFunc(func(_ *core.Context, _, next core.State) { e.states = append(e.states, next) })
	r.want("connect", engine.Connect(&k.Context), nil)
	r.want("configure", k.ConfigureSend(e.succeeded, e.fell, tasks), nil)
	r.want("message function", k.SetMessageFunc(e.received), nil)
	r.want("consumer functions", k.SetConsumerFuncs(func(*Connection, uint16) {}, func(*Connection, uint16) {}), nil)
}

func (e *end) succeeded(t *Send) {
	e.sent++
	if e.onSent != nil {
		e.onSent(t)
	}
	if !e.keeping {
		_ = t.Free()
	}
}

func (e *end) fell(t *Send) { e.failed = append(e.failed, t.Status()); _ = t.Free() }

func (e *end) received(c *Connection, m []byte) {
	e.got = append(e.got, string(m))
	if e.onGot != nil {
		e.onGot(c, m)
	}
}

// send submits a message on the connection of the end.
func (e *end) send(m string) error {
	t, err := e.k.AllocSend(e.link, []byte(m))
	if err == nil {
		err = t.Submit()
	}
	return err
}

// shut stops and destroys the context.
func (e *end) shut() {
	e.Helper()
	_ = e.k.Stop()
	e.until("idle", func() bool { return e.k.State() == core.Idle })
	if s, ok := e.k.side.(*serverSide); ok {
		e.want("destroy the server", (*Server)(s).Destroy(), nil)
	} else {
		e.want("destroy the client", (*Client)(e.k.side.(*clientSide)).Destroy(), nil)
	}
}

type serverEnd struct {
	end
	*Server
}

// server makes a server that is not started yet.
func (r *rig) server(e *core.Engine, name string, tasks int) *serverEnd {
	r.Helper()
	s, err := NewServer(r.dpu, r.rep, name)
	r.want("server", err, nil)
	x := &serverEnd{Server: s}
	r.equip(&x.end, &s.control, e, tasks)
	r.want("connection functions", s.SetConnectionFuncs(
		func(c *Connection, ok bool) {
			x.events = append(x.events, "connected")
			x.link = c
			if x.joined != nil {
				x.joined(c)
			}
		},
		func(c *Connection, ok bool) {
			what := "disconnected"
			if !ok {
				what = "lost"
			}
			x.events = append(x.events, what)
			if x.link == c {
				x.link = nil
			}
		}), nil)
	return x
}

type clientEnd struct {
	end
	*Client
}

// client makes a client that is not started yet.
func (r *rig) client(e *core.Engine, name string, tasks int) *clientEnd {
	r.Helper()
	c, err := NewClient(r.host, name)
	r.want("client", err, nil)
	x := &clientEnd{Client: c}
	r.equip(&x.end, &c.control, e, tasks)
	return x
}

// begin starts a client, without waiting until it is connected.
func (x *clientEnd) begin() {
	x.rig.Helper()
	x.want("start the client", x.Client.Start(), core.ErrInProgress)
	x.link = x.Client.conn
}

// pair makes a server and a client that are connected, on one engine or on two.
func (r *rig) pair(engines, tasks int) (*serverEnd, *clientEnd) {
	r.Helper()
	for range engines {
		r.engine()
	}
	s := r.server(r.engines[0], r.Name(), tasks)
	c := r.client(r.engines[engines-1], r.Name(), tasks)
	r.join(s, c)
	return s, c
}

// join starts both, and waits until they are connected.
func (r *rig) join(s *serverEnd, c *clientEnd) {
	r.Helper()
	r.want("start the server", s.Server.Start(), nil)
	c.begin()
	r.until("connected", func() bool { return c.State() == core.Running && s.link != nil })
}

// onOneAndTwo runs a test with both ends on one engine, and on two.
func onOneAndTwo(t *testing.T, f func(t *testing.T, engines int)) {
	t.Run("one engine", func(t *testing.T) { f(t, 1) })
	t.Run("two engines", func(t *testing.T) { f(t, 2) })
}
