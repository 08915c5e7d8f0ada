package nic

import (
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/work"
)

// A device that is driven by polling has no goroutine and, while it is driven,
// nearly no atomic operation: its circle is locked once per poll, and under
// that lock its halves are run from plain lists, its packets go from hand to
// hand, and its completions into queues that the same lock protects. One atomic
// write costs as much here as all the headers of a packet.
//
//	     post, timer, other goroutines        link
//	                  | wake                   | pass
//	                  v                        v
//	posted (atomic) -> due -----+     fresh, those with packets
//	                            v        v
//	                            run of a half -> completion queue
//	                                 |
//	                                 v
//	                      outgoing of the device -> link
//
// Where both ends of a link are driven together, most packets skip the link: see
// cross.go.
//
// A round lets in what has arrived, runs the halves that got it and a few of
// those that are due, and sends what they had to say. So few packets are under
// way at a time, and are in the nearest cache yet when somebody reads them.

// dueRuns is how many of the halves that are due a round runs.
const dueRuns = 16

// A halfList is a queue of halves that the driver of a circle is to run. A half
// is in one list at a time.
type halfList struct {
	name        listName
	first, last *half
}

// A listName says in which list a half is.
type listName uint8

const (
	listNone listName = iota
	listFresh
	listDue
	listTouched
)

func (l *halfList) push(h *half) {
	if h.list != listNone {
		return
	}
	h.list = l.name
	if l.first == nil {
		l.first = h
	} else {
		l.last.nextListed = h
	}
	l.last = h
}

func (l *halfList) pop() *half {
	h := l.first
	if h != nil {
		l.first, h.nextListed, h.list = h.nextListed, nil, listNone
	}
	return h
}

// A halfStack takes halves from any goroutine; all are taken out at once.
type halfStack struct{ top atomic.Pointer[half] }

func (s *halfStack) push(h *half) {
	for {
		top := s.top.Load()
		h.nextPosted = top
		if s.top.CompareAndSwap(top, h) {
			return
		}
	}
}

// take returns them, the newest first.
func (s *halfStack) take() *half {
	if s.top.Load() == nil {
		return nil
	}
	return s.top.Swap(nil)
}

// enqueue lets h run with the next drive, from any goroutine. What was written
// before is seen by that run.
func (c *circle) enqueue(h *half) {
	if h.posted.Swap(true) {
		return // whoever takes it out has yet to look at what there is to do
	}
	c.posted.push(h)
	c.call()
}

// call says that there is something to do: to whoever drives the executor, and
// to those who sleep.
func (c *circle) call() {
	c.item.WakePublished()
	c.alarm()
}

// gather moves a few of those that were woken to those that are due. Of those
// that it takes at once the newest are first: what their posts have touched is in
// the cache yet. The next are taken when all of these have had their turn.
func (c *circle) gather() {
	for range dueRuns {
		h := c.woken
		if h == nil {
			if h = c.posted.take(); h == nil {
				return
			}
		}
		c.woken, h.nextPosted = h.nextPosted, nil
		h.posted.Swap(false) // and sees all that was written before a wake
		c.due.push(h)
	}
}

// drive runs what there is to do, in up to n rounds, and reports whether there
// was anything. It waits for another driver: what is posted while that one ends
// is for nobody else.
func (c *circle) drive(n, budget int) (did bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.driveLocked(n, budget, nil)
}

// driveLocked is drive for who has the lock. It stops early when a completion
// queue that is given has an entry.
func (c *circle) driveLocked(n, budget int, until *CQ) (did bool) {
	if budget <= 0 {
		budget = work.Budget
	}
	c.calm = c.settled()
	if c.calm && !c.wanted() {
		if c.left.Load() {
			c.left.Store(false)
		}
		return false
	}
	if c.now = 0; !c.calm {
		c.look()
	}
	rest := true
	for round := range n {
		if rest = c.round(budget, round == 0); !rest {
			break
		}
		if did = true; until != nil && until.tail != until.head {
			rest = c.wanted() || !c.calm
			break
		}
	}
	if !c.calm {
		for _, d := range *c.devices.Load() {
			if d.tx.age() {
				d.transmit()
			}
		}
	}
	if c.left.Load() != rest {
		c.left.Store(rest)
	}
	// What is left is for others too: this driver may be the last to come.
	if rest && c.sleepers.Load() != 0 {
		c.alarm()
	}
	return did
}

// wanted reports whether a half wants to run.
func (c *circle) wanted() bool {
	return c.posted.top.Load() != nil || c.woken != nil || c.due.first != nil || c.fresh.first != nil
}

// settled reports whether nothing is on its way, no deadline is set, and all
// devices are at both ends of links that packets cross. Then no device has to be
// looked at, nor the clock, until a half gives one something to do, and says that
// the circle is calm no more.
func (c *circle) settled() bool {
	for _, d := range *c.devices.Load() {
		if d.bare == nil || !d.bare.Empty() || d.tx.n > 0 || d.cramped.Load() > 0 || d.timers.next.Load() != 0 {
			return false
		}
	}
	return true
}

// run lets the executor drive the circle, for those who drive the executor.
func (c *circle) run(budget int) (more bool) {
	c.drive(1, budget)
	return c.left.Load()
}

// look acts upon deadlines. The clock is read once in a drive, by the first who
// has to know the time.
func (c *circle) look() {
	for _, d := range *c.devices.Load() {
		if d.timers.next.Load() != 0 {
			d.timers.expire(c.clock())
		}
	}
}

// clock returns what time it is in this drive.
func (c *circle) clock() qp.Instant {
	if c.now == 0 {
		c.now = instant()
	}
	return c.now
}

// round does a little of all there is to do, and reports whether there was
// anything. Sockets are asked only by the first round of a drive, and by the
// next when there may be more: that is a system call. What a program has posted
// leaves before it, once. After a run that sent what nobody answers they are
// asked too: nothing else keeps such a sender from burying the receiver.
func (c *circle) round(budget int, first bool) (did bool) {
	c.gather()
	ask := first || c.late || c.flood
	c.flood = false
	if c.late = first && !c.late && c.due.first != nil; c.late {
		ask = false
	}
	if !c.calm {
		did = c.receive(ask)
	}
	for h := c.fresh.pop(); h != nil; h = c.fresh.pop() {
		did = true
		c.exec(h, budget)
	}
	for range dueRuns {
		h := c.due.pop()
		if h == nil {
			break
		}
		did = true
		if c.exec(h, budget); c.flood {
			break
		}
	}
	if !c.calm {
		c.send()
	}
	return did
}

// receive takes in what has arrived, from sockets if they are to be asked, and
// reports whether anything had.
func (c *circle) receive(ask bool) (did bool) {
	for _, d := range *c.devices.Load() {
		if d.linkFD >= 0 && !ask && !d.rx.full || d.bare != nil && d.bare.Empty() {
			continue
		}
		n := d.rx.pass()
		d.rx.full = n == d.rx.most
		did = did || n > 0
	}
	return did
}

// send lets the packets of a round leave.
func (c *circle) send() {
	for _, d := range *c.devices.Load() {
		if d.tx.n > 0 {
			d.transmit()
		} else if d.cramped.Load() > 0 {
			d.passRoom() // whoever had it last may have had nothing to send
		}
	}
}

// exec runs a half once.
func (c *circle) exec(h *half, budget int) {
	if h.stopped {
		return
	}
	var more bool
	if h.sender != nil {
		more = h.q.send.run(budget)
	} else {
		more = h.q.recv.run(budget)
	}
	if more {
		c.due.push(h)
	}
}
