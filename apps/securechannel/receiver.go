package securechannel

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/side"
	"github.com/gantry-rdma/gantry/mem"
)

// A receiver takes the messages of the other side: each task has a buf of its
// own, and is submitted again until all messages have one.
type receiver struct {
	engine   *core.Engine
	memory   *mem.Map
	bufs     *mem.Inventory
	consumer *comch.Consumer
	size     int
	total    int64
	posted   int64
	done     atomic.Int64 // messages that came
	began    time.Time    // with the first one
	took     time.Duration
	failed   error
	stopping bool
	lent     []*mem.Buf
}

// run receives everything, on the goroutine of the consumer.
func (r *receiver) run(ctx context.Context, s *session) (err error) {
	r.total, r.size = s.peer.messages, s.peer.size
	tasks := int(min(r.total, window))
	if r.engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, r.engine.Destroy()) }()
	if r.memory, err = newMemory(s, tasks*r.size, mem.PCIReadWrite|mem.LocalReadWrite); err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, r.memory.Destroy()) }()
	if r.bufs, err = newBufs(tasks); err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, r.bufs.Destroy()) }()
	defer r.unref()
	if r.consumer, err = comch.NewConsumer(s.conn, r.memory); err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, r.consumer.Destroy()) }()

	core.KeepFirst(&err, r.engine.Connect(&r.consumer.Context))
	core.KeepFirst(&err, r.consumer.ConfigurePostRecv(r.received, r.notReceived, tasks))
	if err != nil {
		return err
	}
	if err = r.consumer.Start(); err != core.ErrInProgress {
		return err
	}
	defer func() { core.KeepFirst(&err, r.stop(s.conn)) }()
	return r.receive(ctx, tasks)
}

// receive posts the receives once the other side knows of the consumer, and
// takes what comes.
func (r *receiver) receive(ctx context.Context, tasks int) error {
	started := func() bool { return r.consumer.State() != core.Starting }
	if err := r.engine.Run(ctx, started); err != nil {
		return err
	}
	if r.consumer.State() != core.Running {
		return fmt.Errorf("the consumer could not start: %w", core.ErrConnectionReset)
	}
	for i := range tasks {
		b, err := r.bufs.ByAddr(r.memory, mem.AddrOf(r.memory.Bytes())+mem.Addr(i*r.size), r.size)
		if err != nil {
			return err
		}
		r.lent = append(r.lent, b)
		t, err := r.consumer.AllocPostRecv(b)
		if err != nil {
			return err
		}
		if err = r.post(t); err != nil {
			_ = t.Free()
			return err
		}
	}
	through := func() bool { return r.failed != nil || r.done.Load() == r.total }
	if err := r.engine.Run(ctx, through); err != nil {
		return err
	}
	return r.failed
}

// post submits a receive, unless there is one for every message already.
func (r *receiver) post(t *comch.PostRecv) error {
	if r.posted == r.total || r.stopping {
		return t.Free()
	}
	if err := t.Submit(); err != nil {
		return err
	}
	r.posted++
	return nil
}

// received is the callback of a message.
func (r *receiver) received(t *comch.PostRecv) {
	n := r.done.Add(1)
	if n == 1 {
		r.began = time.Now()
	}
	if n == r.total {
		r.took = time.Since(r.began)
	}
	core.KeepFirst(&r.failed, r.check(t, n))
	_ = t.Buf().ResetDataLen()
	if err := r.post(t); err != nil {
		core.KeepFirst(&r.failed, err)
		_ = t.Free()
	}
}

// sample is how many messages there are to one whose bytes are compared. The
// length of every one is.
const sample = 64

// check compares message number n with what the other side sends.
func (r *receiver) check(t *comch.PostRecv, n int64) error {
	data := t.Buf().Data()
	if len(data) != r.size {
		return fmt.Errorf("message %d has %d bytes, %d were announced: %w", n, len(data), r.size, core.ErrUnexpected)
	}
	if n%sample != 1 {
		return nil
	}
	for i, b := range data {
		if b != pattern(i) {
			return fmt.Errorf("byte %d of message %d is %#x, %#x was sent: %w", i, n, b, pattern(i), core.ErrUnexpected)
		}
	}
	return nil
}

// notReceived is the callback of a receive that was not filled.
func (r *receiver) notReceived(t *comch.PostRecv) {
	if !r.stopping {
		core.KeepFirst(&r.failed, fmt.Errorf("a receive was not filled: %w", t.Status()))
	}
	_ = t.Free()
}

// stop ends the consumer: what is posted comes back.
func (r *receiver) stop(conn *comch.Connection) error {
	r.stopping = true
	return side.Leave(r.consumer.Shutdown, conn)
}

// unref gives the bufs back.
func (r *receiver) unref() {
	for _, b := range r.lent {
		_, _ = b.Unref()
	}
}
