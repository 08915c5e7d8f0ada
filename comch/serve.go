package comch

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
)

// This file is what the owner's engine does for one connection. Messages go
// through two streams in memory that both sides share:
//
//	send     Submit ──▶ sends ──▶ push ──▶ stream      ──▶ deliver ──▶ message function
//	                      │                (shmq)             of the peer
//	                      └─────▶ complete ──▶ callback
//
// Who waits says so with a word in that memory, and is woken by the doorbell.

// shut reports whether nothing can be sent any more.
func (c *Connection) shut() bool { return c.closing || c.gone() }

// send queues a task, and puts its message into the stream if there is room.
func (c *Connection) send(t *Send) {
	c.sends.push(t)
	if c.unwritten == nil {
		c.unwritten = t
		c.push()
	}
}

// push puts into the stream what there is room for.
func (c *Connection) push() {
	wrote := false
	for t := c.unwritten; t != nil && !c.over(); t = c.unwritten {
		ok, err := c.out.Write(t.message)
		if err != nil {
			c.violated(err)
		}
		if !ok {
			break
		}
		t.written, wrote = true, true
		c.unwritten = t.next
		c.now.SentMessages++
		c.now.SentBytes += uint64(len(t.message))
	}
	if wrote && c.out.Reader().Take() {
		c.ring()
	}
}

// violated gives up a connection whose peer broke the rules of a stream.
func (c *Connection) violated(how error) {
	c.drop(fmt.Errorf("comch: %w: %w", core.ErrConnectionAborted, how))
}

// poll does one thing for the connection, and says whether there was one.
func (c *Connection) poll() bool {
	if c.seat.armed {
		c.seat.settle(c.rung)
	}
	if c.unwritten != nil {
		c.push()
	}
	// A side that sends all the time must hear, and the other way round.
	c.odd = !c.odd
	if c.odd && c.complete() || c.deliver() || !c.odd && c.complete() {
		return true
	}
	if c.stirred.Load() && c.report() {
		return true
	}
	if c.closing && !c.said && c.unwritten == nil {
		c.said = true
		c.bye()
		return true
	}
	return c.over() && c.end()
}

// complete gives a task back that is sent, or that cannot be any more.
func (c *Connection) complete() bool {
	t := c.sends.first
	if t == nil {
		return false
	}
	status := core.Success
	if !t.written {
		if !c.over() {
			return false
		}
		status = core.ErrConnectionReset
		c.unwritten = t.next
	}
	c.sends.pop()
	c.owner.Complete(&t.Task, status)
	return true
}

// deliver gives the next message to the application. What a peer has sent
// before it left or died still counts.
func (c *Connection) deliver() bool {
	k := c.owner
	n, ok, err := c.in.Read(k.incoming)
	if err != nil {
		c.violated(err)
	}
	if !ok {
		return false
	}
	if c.in.Writer().Take() {
		c.ring()
	}
	c.now.RecvMessages++
	c.now.RecvBytes += uint64(n)
	k.Event(func() { k.onMessage(c, k.incoming[:n:n]) })
	return true
}

// end ends a connection that is over and leaves nothing to report but that.
// Messages that came before the end was seen were read already; those that
// came in between are in the stream now.
func (c *Connection) end() bool {
	if ready, _ := c.in.Ready(); ready || c.sends.first != nil || c.stirred.Load() || !c.left.Load() {
		return false
	}
	if c.owner.Watched() && c.phase() == phaseDead {
		c.owner.Warn("a connection was lost", "because", c.Err())
	}
	c.owner.remove(c)
	c.seat.leave()
	c.owner.side.over(c)
	return true
}

// rung reports whether the peer has taken a word that arm has set.
func (c *Connection) rung() bool {
	return c.in.Wait().Taken() || c.unwritten != nil && c.out.Wait().Taken()
}

// arm lets the doorbell wake the engine, and reports whether there is something
// to do already.
func (c *Connection) arm() (ready bool) {
	if !c.seat.arm() {
		return true
	}
	c.in.Wait().Set()
	ready, err := c.in.Ready()
	ready = ready || err != nil
	if t := c.unwritten; t != nil {
		c.out.Wait().Set()
		room, err := c.out.Room(len(t.message))
		ready = ready || room || err != nil
	}
	return ready || c.stirred.Load() ||
		c.sends.first != nil && (c.sends.first.written || c.over()) ||
		c.closing && !c.said && c.unwritten == nil ||
		c.over() && c.left.Load()
}
