package comch

import "github.com/gantry-rdma/gantry/core"

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
// When a connection is over nothing is answered any more: gone says so.

// An offer describes a consumer to the peer. The two descriptors that go with
// it are imported at exactly the two sizes.
type offer struct {
	id       uint16
	queue    uint64 // bytes of the queue segment
	memory   uint64 // bytes of the receive memory
	receives uint32 // the most receives posted at once
	imm      uint32 // the most bytes of immediate data
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
	m := notice{kind: noticeNew, offer: o}
	if err := c.tell(&m, queueFD, memoryFD); err != nil {
		c.mu.Lock()
		delete(c.offers, o.id)
		c.mu.Unlock()
		return err
	}
	return nil
}

// withdraw tells the peer that a consumer that was offered is gone. When the
// peer does not touch its memory any more k.withdrawn is called, on another
// goroutine.
func (c *Connection) withdraw(id uint16) error {
	return c.tell(&notice{kind: noticeGone, offer: offer{id: id}})
}

// remote returns the peer's consumer with the identifier, or nil. One load and
// a few compares; any goroutine.
func (c *Connection) remote(id uint16) *remote {
	list := c.remotes.Load()
	if list == nil {
		return nil
	}
	for _, r := range *list {
		if r.id == id {
			return r
		}
	}
	return nil
}

// What producer.go, consumer.go and remote.go provide for it:
//
//	// newRemote takes over both mappings, on success and on failure.
//	func newRemote(c *Connection, o offer, queue, memory *sys.Pages) (*remote, error)
//	func (r *remote) retire()               // waits until nobody is inside a copy, then frees both mappings
//	func (k *Consumer) acknowledged(ok bool) // attendant's goroutine: store, and let k.seat.notify wake
//	func (k *Consumer) withdrawn()           // attendant's goroutine
//	a field id uint16 of remote
