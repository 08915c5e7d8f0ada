package comch

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/mem"
)

// A fastRig is a server and a client that are connected, in one process: each
// has its device, its engine and its end of the connection. The server is
// number 0.
type fastRig struct {
	*rig
	engine  [2]*core.Engine
	device  [2]*device.Device
	conn    [2]*Connection
	told    [2][]uint16 // consumers of the peer that each was told of
	expired [2][]uint16
	server  *Server
	client  *Client
	ended   int // connections that the server saw end
}

func newFastRig(t testing.TB) *fastRig {
	t.Helper()
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	r := &fastRig{rig: newRig(t)}
	r.device = [2]*device.Device{r.dpu, r.host}
	for i := range r.engine {
		r.engine[i] = r.rig.engine()
	}
	var err error
	r.server, err = NewServer(r.dpu, r.rep, "fast path")
	r.want("server", err, nil)
	r.client, err = NewClient(r.host, "fast path")
	r.want("client", err, nil)
	r.want("connection functions", r.server.SetConnectionFuncs(
		func(c *Connection, _ bool) { r.conn[0] = c }, func(*Connection, bool) { r.ended++ }), nil)
	r.prepare(0, &r.server.control)
	r.prepare(1, &r.client.control)
	r.want("start the server", r.server.Start(), nil)
	r.want("start the client", r.client.Start(), core.ErrInProgress)
	r.until("connected", func() bool { return r.conn[0] != nil && r.client.State() == core.Running })
	r.conn[1], err = r.client.Connection()
	r.want("connection", err, nil)
	t.Cleanup(func() {
		_ = r.client.Stop()
		r.until("the client is idle", func() bool { return r.client.State() == core.Idle })
		_ = r.server.Stop()
		r.until("the server is idle", func() bool { return r.server.State() == core.Idle })
		r.want("destroy the client", r.client.Destroy(), nil)
		r.want("destroy the server", r.server.Destroy(), nil)
	})
	return r
}

func (r *fastRig) prepare(i int, k *control) {
	r.want("connect", r.engine[i].Connect(&k.Context), nil)
	r.want("configure", k.ConfigureSend(func(t *Send) { _ = t.Free() }, func(t *Send) { _ = t.Free() }, 16), nil)
	r.want("message function", k.SetMessageFunc(func(*Connection, []byte) {}), nil)
	r.want("consumer functions", k.SetConsumerFuncs(
		func(_ *Connection, id uint16) { r.told[i] = append(r.told[i], id) },
		func(_ *Connection, id uint16) { r.expired[i] = append(r.expired[i], id) }), nil)
}

// newEngine makes an engine that until progresses only when it is told to.
func (r *fastRig) newEngine() *core.Engine {
	e, err := core.NewEngine()
	r.want("engine", err, nil)
	r.Cleanup(func() { r.want("destroy the engine", e.Destroy(), nil) })
	return e
}

// A shelf is memory of one side, with bufs of it.
type shelf struct {
	*fastRig
	area *mem.Map
	bufs *mem.Inventory
	mem  []byte
}

// newShelf takes n bytes of memory that the peer may write.
func (r *fastRig) newShelf(side, n int) *shelf {
	r.Helper()
	m, err := mem.NewMap()
	r.want("map", err, nil)
	r.want("allocate", m.Allocate(n, mem.AllocOptions{Shareable: true}), nil)
	r.want("access", m.SetAccess(mem.LocalReadWrite|mem.PCIReadWrite), nil)
	r.want("device", m.AddDevice(r.device[side]), nil)
	r.want("start the map", m.Start(), nil)
	s := &shelf{fastRig: r, area: m, mem: m.Bytes()}
	s.bufs, err = mem.NewInventory(1024)
	r.want("inventory", err, nil)
	r.want("start the inventory", s.bufs.Start(), nil)
	r.Cleanup(func() {
		r.want("destroy the inventory", s.bufs.Destroy(), nil)
		r.want("destroy the map", m.Destroy(), nil)
	})
	return s
}

// data returns a buf full of data, and room one without.
func (s *shelf) data(off, n int) *mem.Buf {
	s.Helper()
	b, err := s.bufs.ByData(s.area, mem.AddrOf(s.mem)+mem.Addr(off), n)
	s.want("buf", err, nil)
	return b
}

func (s *shelf) room(off, n int) *mem.Buf {
	s.Helper()
	b, err := s.bufs.ByAddr(s.area, mem.AddrOf(s.mem)+mem.Addr(off), n)
	s.want("buf", err, nil)
	return b
}

// A sink is a consumer with the memory that it receives into.
type sink struct {
	*shelf
	*Consumer
	engine *core.Engine
	onRecv func(*PostRecv) // must give the task back
	failed []core.Status
}

// newSink makes a consumer that is not started, on engine e, with so many
// tasks.
func (r *fastRig) newSink(side int, e *core.Engine, tasks, memory int) *sink {
	r.Helper()
	s := &sink{shelf: r.newShelf(side, memory), engine: e}
	var err error
	s.Consumer, err = NewConsumer(r.conn[side], s.area)
	r.want("consumer", err, nil)
	r.want("connect", e.Connect(&s.Context), nil)
	r.want("configure", s.ConfigurePostRecv(func(t *PostRecv) { s.onRecv(t) }, func(t *PostRecv) {
		s.failed = append(s.failed, t.Status())
		s.drop(t)
	}, tasks), nil)
	s.onRecv = s.drop
	r.Cleanup(func() {
		_ = s.Stop()
		r.until("the consumer is idle", func() bool { return s.State() == core.Idle }, e)
		r.want("destroy the consumer", s.Destroy(), nil)
	})
	return s
}

// start starts the consumer and waits until the peer can reach it.
func (s *sink) start() {
	s.shelf.Helper()
	s.want("start the consumer", s.Start(), core.ErrInProgress)
	peer := 0
	if s.conn == s.fastRig.conn[0] {
		peer = 1
	}
	s.until("the consumer runs", func() bool {
		return s.State() == core.Running && slices.Contains(s.told[peer], s.ID())
	}, s.engine)
}

// post posts n bytes of room at an offset; n = 0 is for immediate data only.
func (s *sink) post(off, n int) *PostRecv {
	s.shelf.Helper()
	var b *mem.Buf
	if n > 0 {
		b = s.room(off, n)
	}
	t, err := s.AllocPostRecv(b)
	s.want("alloc a receive", err, nil)
	s.want("post", t.TrySubmit(), nil)
	return t
}

// drop gives a receive and its buf back.
func (s *sink) drop(t *PostRecv) {
	if b := t.Buf(); b != nil && b.Refs() > 0 {
		_, err := b.Unref()
		s.want("unref", err, nil)
	}
	_ = t.Free() // it may be freed already
}

// again posts a receive anew.
func (s *sink) again(t *PostRecv) {
	if b := t.Buf(); b != nil {
		s.want("reset", b.ResetDataLen(), nil)
	}
	s.want("post again", t.Submit(), nil)
}

// A source is a producer with the memory that it sends.
type source struct {
	*shelf
	*Producer
	engine *core.Engine
	onSent func(*ProducerSend) // must give the task back
	sent   int
	failed []core.Status
}

// newSource makes a producer that runs on engine e, with so many tasks.
func (r *fastRig) newSource(side int, e *core.Engine, tasks, memory int) *source {
	r.Helper()
	s := &source{shelf: r.newShelf(side, memory), engine: e}
	var err error
	s.Producer, err = NewProducer(r.conn[side])
	r.want("producer", err, nil)
	r.want("connect", e.Connect(&s.Context), nil)
	r.want("configure", s.ConfigureSend(func(t *ProducerSend) { s.sent++; s.onSent(t) }, func(t *ProducerSend) {
		s.failed = append(s.failed, t.Status())
		s.drop(t)
	}, tasks), nil)
	s.onSent = s.drop
	r.want("start", s.Start(), nil)
	r.Cleanup(func() {
		_ = s.Stop()
		r.until("the producer is idle", func() bool { return s.State() == core.Idle }, e)
		r.want("destroy the producer", s.Destroy(), nil)
	})
	return s
}

func (s *source) drop(t *ProducerSend) {
	if b := t.Buf(); b != nil && b.Refs() > 0 {
		_, err := b.Unref()
		s.want("unref", err, nil)
	}
	_ = t.Free()
}

// list returns n bytes of data, cut into pieces; nil for no bytes.
func (s *source) list(n, pieces int) *mem.Buf {
	s.shelf.Helper()
	if n == 0 {
		return nil
	}
	var head *mem.Buf
	for i := range pieces {
		from, to := n*i/pieces, n*(i+1)/pieces
		b := s.data(from, to-from)
		if head == nil {
			head = b
		} else {
			s.want("chain", head.Chain(b), nil)
		}
	}
	return head
}

// task returns a task that sends n bytes at an offset and immediate data.
func (s *source) task(off, n int, imm string, to uint16) *ProducerSend {
	s.shelf.Helper()
	var b *mem.Buf
	if n > 0 {
		b = s.data(off, n)
	}
	t, err := s.AllocSend(b, []byte(imm), to)
	s.want("alloc a send", err, nil)
	return t
}

// background is a context for what ends in the rules' time.
func (r *fastRig) background() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patient)
	r.Cleanup(cancel)
	return ctx
}
