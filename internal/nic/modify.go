package nic

import (
	"fmt"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
)

// Partition is the only entry of the partition table.
const Partition = roce.DefaultPKey

// Lock orders changes of the queue pair: whoever changes its state looks at it
// first, and holds the lock from there to the change.
func (q *QP) Lock() error {
	q.mu.Lock()
	if q.dead {
		q.mu.Unlock()
		return fmt.Errorf("queue pair: %w", ErrClosed)
	}
	return nil
}

// Unlock ends Lock.
func (q *QP) Unlock() { q.mu.Unlock() }

// ToReset forgets all that is queued and all that is known of the peer. The
// caller holds the lock, as for all methods that change the state.
func (q *QP) ToReset() error {
	q.state.Store(uint32(Reset))
	q.shut()
	q.halt()
	q.state.Store(uint32(Reset)) // again: a run may have failed meanwhile
	q.shut()
	defer q.resume()
	if err := q.d.await(q.exec, instant()+patience, q.quiet); err != nil {
		return err
	}
	q.post.Lock()
	q.send.m.Reset()
	q.post.Unlock()
	q.recv.m.Reset()
	q.recv.rq.reset()
	q.draining.Store(false)
	return nil
}

// halt stops both halves, and takes from them what they hold for others.
func (q *QP) halt() {
	q.send.disable()
	q.recv.disable()
	q.send.discard()
	q.recv.discard()
	q.d.timers.remove(&q.send.half)
}

// resume lets both halves run again, without what they were told before.
func (q *QP) resume() {
	for _, h := range [...]*half{&q.send.half, &q.recv.half} {
		h.commands.Store(0)
		h.follows = nil // who failed in the life before fails nobody in this one
		h.enable()
	}
}

// quiet reports whether no frame of the queue pair is out.
func (q *QP) quiet() bool {
	for e := range 2 {
		if !q.send.idle(e) || !q.recv.idle(e) {
			return false
		}
	}
	return true
}

// ToInit takes the queue pair from RESET to INIT, or keeps it there.
func (q *QP) ToInit() { q.state.Store(uint32(Init)) }

// An AddressVector says where a peer is, and what the IP headers of packets to it say: 0
// leaves that to the system.
type AddressVector struct {
	IP       [16]byte
	TOS, TTL uint8
}

func (v AddressVector) peer() frame.Addr { return frame.Addr{IP: v.IP, Port: roce.Port} }

// ToRTR begins to take requests: from a peer's address, or, of UD, from anyone.
func (q *QP) ToRTR(c qp.ResponderConfig, to AddressVector) {
	c.Transport, c.QPN, c.SharedReceive = q.transport, q.num, q.recv.srq != nil
	c.MaxTrain = q.d.trains
	q.recv.disable()
	q.recv.discard()
	if n := int(c.MaxDestRdAtomic); n > q.remembered {
		q.recv.m.Init(&q.recv, n)
		q.remembered = n
	}
	q.recv.m.Start(c)
	q.recv.enable()
	q.state.Store(uint32(RTR))
	q.view.Store(&view{
		requests: true, anyone: q.transport == roce.UD, pkey: Partition, local: q.d.link.Local(),
		peer: to.peer(), tos: to.TOS, ttl: to.TTL,
	})
}

// ToRTS begins to send. The queue pair was ready to receive.
func (q *QP) ToRTS(c qp.SenderConfig) {
	c.Transport, c.QPN, c.SignalAll = q.transport, q.num, q.signalAll
	c.MaxTrain, c.Sparing = q.d.trains, q.d.linkFD >= 0
	q.send.disable()
	q.send.discard()
	if q.transport == roce.RC {
		q.takePath(q.view.Load().peer)
	}
	q.send.m.Start(c)
	q.send.enable()
	v := *q.view.Load()
	v.responses = q.transport == roce.RC
	q.goOn(RTR, RTS, &v)
	q.send.wake()
}

// goOn moves from one state to the next, unless a half has failed meanwhile.
func (q *QP) goOn(from, to State, v *view) {
	old := q.view.Load()
	if q.state.CompareAndSwap(uint32(from), uint32(to)) && old.requests {
		q.view.CompareAndSwap(old, v)
	}
}

// Drain lets no further request begin. With tell, an event says when those
// that began are done.
func (q *QP) Drain(tell bool) {
	q.tellDrained.Store(tell)
	q.draining.Store(true)
	if q.state.CompareAndSwap(uint32(RTS), uint32(SQD)) {
		q.send.command(cmdDrain)
	}
}

// Resume goes back from SQD to RTS.
func (q *QP) Resume() {
	if q.state.CompareAndSwap(uint32(SQD), uint32(RTS)) {
		q.draining.Store(false)
		q.send.command(cmdResume)
	}
}

// ToErr fails the queue pair: all that is queued is flushed.
func (q *QP) ToErr() {
	q.state.Store(uint32(Err))
	q.shut()
	q.send.command(cmdFail)
	q.recv.command(cmdFail)
}

// SetAccess changes what peers may do.
func (q *QP) SetAccess(a qp.Access) { q.change(func(m *qp.Responder) { m.SetAccess(a) }) }

// SetMinRNRTimer changes how long peers are told to wait.
func (q *QP) SetMinRNRTimer(t roce.RNRTimer) {
	q.change(func(m *qp.Responder) { m.SetMinRNRTimer(t) })
}

// SetMaxDestRdAtomic changes how many READs and atomics of the peer are
// remembered.
func (q *QP) SetMaxDestRdAtomic(n uint8) {
	q.change(func(m *qp.Responder) { m.SetMaxDestRdAtomic(n) })
	q.remembered = max(q.remembered, int(n))
}

// SetQKey changes the key that datagrams must name, and that the queue pair puts
// where another one's is not known.
func (q *QP) SetQKey(k uint32) {
	q.change(func(m *qp.Responder) { m.SetQKey(k) })
	q.changeSender(func(m *qp.Sender) { m.SetQKey(k) })
}

// SetSender changes what a drained send queue allows: see [qp.Sender.Change].
func (q *QP) SetSender(c qp.SenderConfig) {
	q.changeSender(func(m *qp.Sender) { m.Change(c) })
}

// Redirect goes on with a peer that has another address. The send queue is
// drained: what the send half still has for the link are packets sent once
// more, whose answers came.
func (q *QP) Redirect(to AddressVector) {
	peer := to.peer()
	q.changeSender(func(m *qp.Sender) {
		q.send.discard()
		if q.transport == roce.RC {
			q.takePath(peer)
		}
		m.Redirected()
		for {
			old := q.view.Load()
			v := *old
			v.peer, v.tos, v.ttl = peer, to.TOS, to.TTL
			if q.view.CompareAndSwap(old, &v) {
				return
			}
		}
	})
}

// takePath lets the send half share the path to an address.
func (q *QP) takePath(peer frame.Addr) {
	if ps := q.d.paths; ps != nil {
		q.send.takePath(ps.to(peer))
	}
}

// changeSender touches the sender between two of its runs.
func (q *QP) changeSender(f func(*qp.Sender)) {
	q.send.disable()
	f(&q.send.m)
	q.send.enable()
}

// change touches the responder between two of its runs.
func (q *QP) change(f func(*qp.Responder)) {
	q.recv.disable()
	f(&q.recv.m)
	q.recv.enable()
}

// Destroy ends the queue pair. When it returns, none of its packets refers to
// any memory. Busy means that some peer is slow to take packets: it sends and
// receives no more, but its memory must stay. Call it again then.
func (q *QP) Destroy() error { return q.destroy(instant() + patience) }

func (q *QP) destroy(limit qp.Instant) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.dead {
		return fmt.Errorf("queue pair: %w", ErrClosed)
	}
	if q.attached() {
		return fmt.Errorf("queue pair that is attached to a multicast group: %w", ErrBusy)
	}
	q.state.Store(uint32(Reset))
	q.shut()
	q.send.retire()
	q.send.takePath(nil)
	q.recv.retire()
	q.recv.m.Reset() // a receive of a shared queue goes back to it
	if err := q.d.await(q.exec, limit, q.quiet); err != nil {
		return err
	}
	q.dead = true
	q.send.pool.release(framesPerQP)
	q.d.removeQP(q)
	q.d.events.drop(func(e Event) bool { return e.QP == q })
	q.pd.users.Add(-1)
	q.sendCQ.users.Add(-1)
	q.recvCQ.users.Add(-1)
	q.leaveSRQ()
	return nil
}

// removeQP takes q from the table and lets its number rest.
func (d *Device) removeQP(q *QP) {
	d.qps.remove(q.num)
	d.qps.mu.Lock()
	defer d.qps.mu.Unlock()
	d.lately.add(q.num, instant())
}
