package comch

import (
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/shmq"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// consumerBackend is Consumer with the methods that core calls.
type consumerBackend Consumer

var _ core.Backend = (*consumerBackend)(nil)

// Start makes the queue and offers it to the peer, together with the memory of
// the map.
func (b *consumerBackend) Start() error {
	n := b.tasks.Size()
	switch {
	case n == 0:
		return fmt.Errorf("no receive tasks are configured: %w", core.ErrInitialization)
	case b.conn.gone():
		return fmt.Errorf("the connection is %v: %w", b.conn.phase(), core.ErrConnectionReset)
	}
	fd, base, size, err := b.mmap.Descriptor()
	if err != nil {
		return err
	}
	if err := b.makeQueue(n); err != nil {
		return err
	}
	b.base, b.flushing, b.closed = base, 0, false
	b.posted, b.wrong = make([]*PostRecv, n), make([]*PostRecv, 0, n)
	b.phase.Store(uint32(offered))
	b.seat.begin()
	o := offer{id: b.seat.id, queue: uint64(shmq.QueueSize(n)), memory: uint64(size), receives: uint32(n), imm: uint32(b.imm)}
	if err := b.conn.offer(o, b.queue.FD(), fd, (*Consumer)(b)); err != nil {
		b.settle()
		return err
	}
	return core.ErrInProgress
}

// makeQueue makes the queue for n receives, in memory that the peer can map.
func (b *consumerBackend) makeQueue(n int) error {
	pages, err := sys.AllocPages(shmq.QueueSize(n), sys.PagesOptions{Shareable: true})
	if err == nil {
		if err = pages.Seal(false); err == nil {
			b.receiver, err = shmq.NewReceiver(pages.Bytes(), n, b.imm)
		}
		if err != nil {
			_ = pages.Free()
		}
	}
	switch {
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("no memory can be shared on this system: %w", core.ErrNotSupported)
	case err != nil:
		return fmt.Errorf("make the queue: %w: %w", core.ErrNoMemory, err)
	}
	b.queue = pages
	return nil
}

// settle gives back what Start has taken.
func (b *consumerBackend) settle() {
	b.seat.end()
	b.phase.Store(uint32(unknown))
	_ = b.queue.Free() // nothing can be done about it, and nobody uses it
	b.queue, b.receiver = nil, nil
}

// Stop tells the peer; what it has not filled is flushed when it has answered.
func (b *consumerBackend) Stop() error {
	b.withdraw()
	return core.ErrInProgress
}

// withdraw tells the peer that the consumer stops, if the peer has said what it
// made of it: else that comes first.
func (b *consumerBackend) withdraw() (told bool) {
	switch (*Consumer)(b).known() {
	case accepted:
		b.phase.Store(uint32(withdrawn))
		_ = b.conn.withdraw(b.seat.id) // if it fails the connection is over soon
		return true
	case refused:
		b.phase.Store(uint32(forgotten))
		return true
	}
	return false
}

// Check is the full check of TrySubmit.
func (b *consumerBackend) Check(t *core.Task) error { return b.tasks.Of(t).check((*Consumer)(b)) }

// Submit posts a receive.
func (b *consumerBackend) Submit(t *core.Task) error {
	if b.conn.gone() {
		return core.ErrConnectionReset
	}
	p := b.tasks.Of(t)
	p.got = shmq.Arrival{}
	if p.measure((*Consumer)(b)) != usable || !p.lend() {
		b.wrong = append(b.wrong, p) // there is room for every task
		return nil
	}
	b.posted[t.Slot()] = p
	b.post(p)
	return nil
}

// post offers the room of p to the peer.
func (b *consumerBackend) post(p *PostRecv) {
	off, n := uint64(0), 0
	if p.buf != nil {
		off, n = uint64(p.buf.DataAddr()-b.base)+uint64(p.buf.DataLen()), p.buf.Tail()
	}
	b.receiver.Post(p.Slot(), off, n)
	if b.receiver.Credit().Take() {
		b.conn.ring()
	}
}

// Flush does nothing: a receive is known to the peer as soon as it is
// submitted.
func (b *consumerBackend) Flush() {}

// Poll reports the next message, or moves the start or the stop on.
func (b *consumerBackend) Poll(int) bool {
	if b.seat.armed {
		b.seat.settle(b.rung)
	}
	if b.receiver == nil {
		return false
	}
	if n := len(b.wrong); n > 0 {
		p := b.wrong[0]
		b.wrong = append(b.wrong[:0], b.wrong[1:]...)
		b.finish(p, core.ErrInvalidValue)
		return true
	}
	if !b.closed && b.receiver.Ready() && b.arrive() {
		return true
	}
	switch b.State() {
	case core.Starting:
		return b.starting()
	case core.Running:
		return b.conn.over() && b.flush(core.ErrConnectionReset)
	case core.Stopping:
		return b.stopping()
	}
	return false
}

// rung reports whether the peer has taken the arm word that Arm has set.
func (b *consumerBackend) rung() bool { return b.receiver != nil && b.receiver.Wait().Taken() }

// arrive takes what has arrived. It reports false, and has dropped the
// connection, if that cannot be.
func (b *consumerBackend) arrive() bool {
	a := &b.arrival
	ok, err := b.receiver.Next(a)
	if !ok {
		if err != nil {
			b.conn.drop(fmt.Errorf("comch: the producers of consumer %d: %w", b.seat.id, err))
		}
		return false
	}
	p := b.posted[a.Slot]
	if a.Void { // no producer could use it: it is posted again
		if b.State() == core.Running {
			b.post(p)
		}
		return true
	}
	b.posted[a.Slot] = nil
	p.got = *a
	if p.buf != nil {
		_ = p.buf.Grow(a.Length) // it fits: the queue has compared it with the room
	}
	b.finish(p, core.Success)
	return true
}

// finish gives a receive back to the application.
func (b *consumerBackend) finish(p *PostRecv, s core.Status) {
	p.giveBack()
	b.Complete(&p.Task, s)
}

// starting looks for the answer of the peer.
func (b *consumerBackend) starting() bool {
	switch known := (*Consumer)(b).known(); {
	case known == accepted:
		b.Started()
	case known == refused || b.conn.over():
		b.settle()
		b.Stopped()
	default:
		return false
	}
	return true
}

// stopping flushes what is posted once nobody else fills it.
func (b *consumerBackend) stopping() bool {
	if b.withdraw() {
		return true
	}
	status := core.ErrFlushed
	if (*Consumer)(b).known() != forgotten {
		if !b.conn.over() {
			return false
		}
		status = core.ErrConnectionReset
	}
	if b.flush(status) {
		return true
	}
	b.settle()
	b.Stopped()
	return true
}

// flush ends one receive with status s, and reports whether there was one. From
// then on nothing arrives any more, whatever a peer still writes that was given
// up before it could know.
func (b *consumerBackend) flush(s core.Status) bool {
	b.closed = true
	for ; b.flushing < len(b.posted); b.flushing++ {
		if p := b.posted[b.flushing]; p != nil {
			b.posted[b.flushing] = nil
			b.finish(p, s)
			return true
		}
	}
	return false
}

// Arm asks to be woken by the next arrival; the answers of the peer come
// through Notify.
func (b *consumerBackend) Arm() bool {
	if b.receiver == nil {
		return false
	}
	ready := !b.seat.arm()
	b.receiver.Wait().Set()
	ready = ready || len(b.wrong) > 0 || !b.closed && b.receiver.Ready() && b.receiver.Broken() == nil
	known, over := (*Consumer)(b).known(), b.conn.over()
	switch b.State() {
	case core.Starting:
		return ready || over || known != offered
	case core.Running:
		return ready || over && b.flushing < len(b.posted)
	}
	return ready || over || known != offered && known != withdrawn
}
