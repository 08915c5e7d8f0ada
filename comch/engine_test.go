package comch

import (
	"context"
	"encoding/binary"
	"sync"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/work"
)

// slotSize is how many bytes a message of a relay has, and where the second half
// of its memory is: messages come in the first half, and their copies are in the
// second.
const (
	slotSize  = 64
	relayHalf = 4096
)

// A relay is the server's side of a fastRig with everything on one engine: a
// message comes through the consumer, a DMA task copies it on, and the copy goes
// back through the producer. A control message is answered.
type relay struct {
	*fastRig
	in      *sink
	out     *source
	dma     *dma.Context
	copies  []*dma.Memcpy
	replies []*ProducerSend
	refused []*ProducerSend // for want of a receive
	early   []bool          // messages that came before the reply of the last was reported
	back    int             // replies that were sent
}

// newRelay makes one with so many slots, whose consumer runs. The map of its
// consumer is also what is sent from.
func newRelay(r *fastRig, slots int, x work.Executor) *relay {
	r.Helper()
	e := r.engine[0]
	y := &relay{fastRig: r, in: r.newSink(0, e, slots, 2*relayHalf), out: r.newSource(0, e, slots, 8)}
	y.in.onRecv, y.out.onSent = y.received, y.replied
	r.server.onMessage = func(c *Connection, m []byte) { y.answer(c, m) }
	var err error
	y.dma, err = dma.New(r.device[0])
	r.want("dma", err, nil)
	r.want("connect", e.Connect(&y.dma.Context), nil)
	r.want("executor", y.dma.SetExecutor(x), nil)
	r.want("configure", y.dma.ConfigureMemcpy(y.copied, func(t *dma.Memcpy) { r.Errorf("copy: %v", t.Status()) }, slots), nil)
	r.want("start", y.dma.Start(), nil)
	y.in.start()
	return y
}

// open posts the receives and makes the tasks of all slots, with replies to a
// consumer of the client's side.
func (y *relay) open(slots int, to uint16) {
	for i := range slots {
		recv := y.in.post(i*slotSize, slotSize)
		recv.User = uint64(i)
		to := y.reply(i, to)
		c, err := y.dma.AllocMemcpy(recv.Buf(), to)
		y.want("alloc a copy", err, nil)
		c.User, c.Value = uint64(i), recv
		y.copies, y.early = append(y.copies, c), append(y.early, false)
	}
}

// received copies a message on, as soon as the reply from its slot is over.
func (y *relay) received(t *PostRecv) {
	if y.early[t.User] = !y.replies[t.User].Owned(); !y.early[t.User] {
		y.want("copy", y.copies[t.User].Submit(), nil)
	}
}

func (y *relay) replied(t *ProducerSend) {
	y.back++
	y.want("reset", t.Buf().ResetDataLen(), nil)
	if y.early[t.User] {
		y.early[t.User] = false
		y.want("copy", y.copies[t.User].Submit(), nil)
	}
}

// reply makes the task that answers from slot i, and returns its buf.
func (y *relay) reply(i int, to uint16) *mem.Buf {
	b := y.in.room(relayHalf+i*slotSize, slotSize)
	t, err := y.out.AllocSend(b, nil, to)
	y.want("alloc a reply", err, nil)
	t.User = uint64(i)
	y.replies = append(y.replies, t)
	return b
}

// copied posts the receive of the slot again, and answers.
func (y *relay) copied(t *dma.Memcpy) {
	y.in.again(t.Value.(*PostRecv))
	y.refused = append(y.refused, y.replies[t.User])
}

// flush submits what can be submitted: it is asked whenever something happened.
func (y *relay) flush() {
	for len(y.refused) > 0 {
		err := y.refused[0].Submit()
		if err == core.ErrAgain {
			return
		}
		y.want("reply", err, nil)
		y.refused = append(y.refused[:0], y.refused[1:]...)
	}
}

// answer sends a control message back.
func (y *relay) answer(c *Connection, m []byte) {
	t, err := y.server.AllocSend(c, append([]byte(nil), m...))
	y.want("answer", err, nil)
	y.want("answer", t.Submit(), nil)
}

// close gives everything back.
func (y *relay) close() {
	for i, c := range y.copies {
		y.want("free a copy", c.Free(), nil)
		y.in.drop(c.Value.(*PostRecv)) // its task comes back with the stop
		y.out.drop(y.replies[i])
	}
	y.want("shut down", y.dma.Shutdown(context.Background()), nil)
	y.want("destroy", y.dma.Destroy(), nil)
}

// An asker is the client's side: it keeps a message in each slot on its way, and
// checks what comes back.
type asker struct {
	*fastRig
	in    *sink
	out   *source
	tasks []*ProducerSend
	recvs []*PostRecv
	last  int // messages in all
	sent  int
	known []bool // answers, by the number of the message
	seen  int    // answers
	bad   int    // of these
	heard int    // control messages
}

func newAsker(r *fastRig, slots, messages int) *asker {
	r.Helper()
	e := r.engine[1]
	a := &asker{fastRig: r, in: r.newSink(1, e, slots, relayHalf), out: r.newSource(1, e, slots, relayHalf)}
	a.last, a.known = messages, make([]bool, messages)
	r.client.onMessage = func(*Connection, []byte) { a.heard++ }
	a.in.onRecv = a.answered
	// The receive is posted behind the message that is answered into it: so the
	// answer may be there first, and is refused.
	a.out.onSent = func(t *ProducerSend) { a.in.again(a.recvs[t.User]) }
	a.in.start()
	return a
}

// open makes the tasks of all slots and sends the first messages.
func (a *asker) open(slots int, to uint16) {
	for i := range slots {
		recv, err := a.in.AllocPostRecv(a.in.room(i*slotSize, slotSize))
		a.want("alloc a receive", err, nil)
		t := a.out.task(i*slotSize, slotSize, "", to)
		recv.User, t.User = uint64(i), uint64(i)
		a.recvs, a.tasks = append(a.recvs, recv), append(a.tasks, t)
	}
	for i := range slots {
		a.send(i)
	}
}

// send sends the next message from slot i, which has a receive: the relay posts
// before it answers. Now and then there is a control message too.
func (a *asker) send(i int) {
	if a.sent == a.last {
		return
	}
	binary.LittleEndian.PutUint64(a.out.mem[i*slotSize:], uint64(a.sent))
	binary.LittleEndian.PutUint64(a.out.mem[(i+1)*slotSize-8:], ^uint64(a.sent))
	a.want("send", a.tasks[i].Submit(), nil)
	if a.sent%controlEvery == 0 {
		t, err := a.client.AllocSend(a.conn[1], []byte("ping"))
		a.want("ping", err, nil)
		a.want("ping", t.Submit(), nil)
	}
	a.sent++
}

const controlEvery = 50

// answered checks an answer, and sends the next message from the slot that it
// came into. Copies may overtake each other, so there is no order.
func (a *asker) answered(t *PostRecv) {
	d := t.Buf().Data()
	n, not := binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[slotSize-8:])
	if t.Len() != slotSize || n != ^not || n >= uint64(a.sent) || a.known[n] {
		a.bad++
	} else {
		a.known[n] = true
	}
	a.seen++
	a.send(int(t.User))
}

func (a *asker) done() bool {
	return a.seen == a.last && a.heard == (a.last+controlEvery-1)/controlEvery && a.client.Inflight() == 0
}

func (a *asker) close() {
	for i, t := range a.tasks {
		a.out.drop(t)
		a.in.drop(a.recvs[i])
	}
}

// TestOneEngineForComchAndDMASleeps has a server, a consumer, a producer and a
// memcpy context on one engine, and their counterparts on another one. Neither
// engine is ever polled while there is nothing to do: it blocks on its descriptor
// without a limit, so one wake-up that is lost is the end of the test.
func TestOneEngineForComchAndDMASleeps(t *testing.T) {
	for name, c := range map[string]struct {
		slots int
		mode  core.EventMode
		make  func() work.Executor
	}{
		"one by one, inline":    {1, core.ProgressSelective, func() work.Executor { return work.NewInline() }},
		"one by one, workqueue": {1, core.ProgressSelective, func() work.Executor { return work.NewWorkqueue(1) }},
		"many, inline":          {7, core.ProgressAll, func() work.Executor { return work.NewInline() }},
		"many, workqueue":       {7, core.ProgressSelective, func() work.Executor { return work.NewWorkqueue(2) }},
		"all contexts":          {3, core.ProgressAll, func() work.Executor { return work.NewTasklet() }},
	} {
		t.Run(name, func(t *testing.T) {
			total := messages(10_000)
			x := c.make()
			defer x.Close()
			r := newFastRig(t)
			for _, e := range r.engine {
				r.want("mode", e.SetEventMode(c.mode), nil)
			}
			y, a := newRelay(r, c.slots, x), newAsker(r, c.slots, total)
			y.open(c.slots, a.in.ID())
			var relaying sync.WaitGroup
			relaying.Go(func() {
				block(t, r.engine[0], func() bool {
					y.flush()
					return y.back == total && r.server.Inflight() == 0 && len(y.refused) == 0
				})
			})
			a.open(c.slots, y.in.ID())
			block(t, r.engine[1], a.done)
			relaying.Wait()
			if a.bad > 0 || a.seen != total || y.back != total {
				t.Errorf("%d answers of %d messages, %d of them wrong, %d sent", a.seen, total, a.bad, y.back)
			}
			y.close()
			a.close()
		})
	}
}
