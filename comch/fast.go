package comch

import (
	"fmt"
	"math"
	"slices"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/ipc"
	"github.com/gantry-rdma/gantry/internal/shmq"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// This file is what the control path does for producers and consumers.
//
// An own consumer is offered to the peer, whose attendant maps its memory and
// answers; a remote consumer is the same thing seen from the other side:
//
//	consumer starts   offer    ─── NEW, queue, memory ──▶   newRemote, event "new"
//	      acknowledged(ok)     ◀────────── ACK ──────────
//	consumer stops  withdraw   ────────── GONE ─────────▶   retire, event "expired"
//	      withdrawn()          ◀───────── LEFT ──────────
//
// When a connection is over nothing is answered any more: gone says so, and
// over that the memory is free.

// An offer describes a consumer to the peer. The two descriptors that go with
// it are imported at exactly the two sizes.
type offer struct {
	id       uint16
	queue    uint64 // bytes of the queue segment
	memory   uint64 // bytes of the receive memory
	receives uint32 // the most receives posted at once
	imm      uint32 // the most bytes of immediate data
}

// check says what is wrong with an offer of the peer.
func (o *offer) check() error {
	switch {
	case o.receives < 1 || o.receives > maxReceives:
		return fmt.Errorf("%d receives, 1 to %d are possible: %w", o.receives, maxReceives, core.ErrInvalidValue)
	case o.imm > maxImmData:
		return fmt.Errorf("%d bytes of immediate data, %d are possible: %w", o.imm, maxImmData, core.ErrInvalidValue)
	case o.queue != uint64(shmq.QueueSize(int(o.receives))):
		return fmt.Errorf("a queue of %d bytes for %d receives: %w", o.queue, o.receives, core.ErrInvalidValue)
	case o.memory > math.MaxInt:
		return fmt.Errorf("%d bytes of memory: %w", o.memory, core.ErrInvalidValue)
	}
	return nil
}

// offer tells the peer of a consumer. The descriptors stay the caller's. The
// answer comes as k.acknowledged, on another goroutine.
func (c *Connection) offer(o offer, queueFD, memoryFD int, k *Consumer) error {
	if c.gone() {
		return core.ErrConnectionReset
	}
	c.mu.Lock()
	c.offers[o.id] = k
	c.mu.Unlock()
	if err := c.tell(&notice{kind: noticeNew, offer: o}, queueFD, memoryFD); err != nil {
		c.forget(o.id)
		return err
	}
	return nil
}

// withdraw tells the peer that a consumer that was offered is gone. When the
// peer does not touch its memory any more k.withdrawn is called, on another
// goroutine. It fails when the connection is gone: then wait for over.
func (c *Connection) withdraw(id uint16) error {
	return c.tell(&notice{kind: noticeGone, offer: offer{id: id}})
}

// answered passes an answer on to the consumer that the peer answers about. It
// holds c.mu meanwhile, so that the consumer's seat may be notified. After any
// answer but an ACK the peer has no more to say about it.
func (c *Connection) answered(m notice, pass func(*Consumer)) (more bool) {
	c.mu.Lock()
	k := c.offers[m.id]
	if k != nil {
		if m.kind != noticeAck {
			delete(c.offers, m.id) // before pass: the consumer may start anew at once
		}
		pass(k)
	}
	c.mu.Unlock()
	if k == nil {
		c.broke("an answer about a consumer %d that it was not told of", m.id)
	}
	return k != nil
}

// forget undoes what offer has noted.
func (c *Connection) forget(id uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.offers, id)
}

// remote returns the peer's consumer with the identifier, or nil. One load and
// a few compares; any goroutine.
func (c *Connection) remote(id uint16) *remote {
	for _, r := range c.table() {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (c *Connection) table() []*remote {
	if t := c.remotes.Load(); t != nil {
		return *t
	}
	return nil
}

// admit maps a consumer of the peer, and answers.
func (c *Connection) admit(o offer, fds []int) (more bool) {
	if c.remote(o.id) != nil || len(c.table()) >= maxSeats {
		ipc.CloseAll(fds)
		c.broke("a consumer %d, which there is already, or is one too many", o.id)
		return false
	}
	r, err := c.mapRemote(o, fds)
	if err == nil && !c.enlist(r) {
		r.retire() // the connection is over; nobody waits for an answer
		return true
	}
	answer := noticeAck
	if err != nil {
		answer = noticeNak
	}
	_ = c.tell(&notice{kind: answer, offer: offer{id: o.id}}) // if it fails, the connection has ended
	return true
}

// mapRemote takes over two descriptors and maps what they stand for, if the
// offer is possible.
func (c *Connection) mapRemote(o offer, fds []int) (*remote, error) {
	if err := o.check(); err != nil {
		ipc.CloseAll(fds)
		return nil, err
	}
	queue, err := importWords(fds[0], int(o.queue))
	if err != nil {
		ipc.CloseAll(fds[1:])
		return nil, err
	}
	memory, err := sys.ImportPages(fds[1], int(o.memory), true)
	if err != nil {
		_ = queue.Free()
		return nil, err
	}
	return newRemote(c, o, queue, memory)
}

// importWords maps memory of the peer that holds words: they are not read under
// a guard as data is, so the peer must not be able to take them away. It cannot
// with ordinary pages, where a hole reads as zeros; of huge pages there may be
// none left to fill one. The descriptor is taken over.
func importWords(fd, n int) (*sys.Pages, error) {
	p, err := sys.ImportPages(fd, n, true)
	if err == nil && p.Huge() {
		_ = p.Free()
		return nil, fmt.Errorf("the peer's queues are in huge pages: %w", core.ErrNotPermitted)
	}
	return p, err
}

// enlist lets producers find a remote consumer, and reports false when the
// connection is over.
func (c *Connection) enlist(r *remote) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone() {
		return false
	}
	t := append(slices.Clone(c.table()), r)
	c.remotes.Store(&t)
	c.tellOwner(consumerNews{id: r.id})
	return true
}

// dismiss lets go of a consumer of the peer, and answers.
func (c *Connection) dismiss(id uint16) (more bool) {
	r := c.strike(func(r *remote) bool { return r.id == id })
	if r == nil {
		c.broke("the end of a consumer %d that it did not tell of", id)
		return false
	}
	r.retire()
	_ = c.tell(&notice{kind: noticeLeft, offer: offer{id: id}})
	return true
}

// retireAll lets go of all consumers of the peer.
func (c *Connection) retireAll() {
	for {
		r := c.strike(func(*remote) bool { return true })
		if r == nil {
			return
		}
		r.retire()
	}
}

// strike takes a remote consumer off the table and returns it, or nil.
func (c *Connection) strike(which func(*remote) bool) *remote {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.table(), which)
	if i < 0 {
		return nil
	}
	r := c.table()[i]
	t := slices.Delete(slices.Clone(c.table()), i, i+1)
	c.remotes.Store(&t)
	c.tellOwner(consumerNews{id: r.id, expired: true})
	return r
}

// consumerNews is what happened to a consumer of the peer.
type consumerNews struct {
	id      uint16
	expired bool
}

// tellOwner queues news for the owner's engine. A consumer that came and went
// before anyone looked is no news, which also bounds the queue. The caller
// holds c.mu.
func (c *Connection) tellOwner(n consumerNews) {
	if i := slices.Index(c.news, consumerNews{id: n.id}); n.expired && i >= 0 {
		c.news = slices.Delete(c.news, i, i+1)
	} else {
		c.news = append(c.news, n)
	}
	c.stirred.Store(len(c.news) > 0)
	c.seat.notify()
}

// report tells the application one of the news.
func (c *Connection) report() bool {
	c.mu.Lock()
	if len(c.news) == 0 {
		c.mu.Unlock()
		return false
	}
	n := c.news[0]
	c.news = slices.Delete(c.news, 0, 1)
	c.stirred.Store(len(c.news) > 0)
	c.mu.Unlock()
	k := c.owner
	f := k.onNew
	if n.expired {
		f = k.onGone
	}
	if f != nil {
		k.Event(func() { f(c, n.id) })
	}
	return true
}
