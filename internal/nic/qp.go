package nic

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/work"
)

// A State is where a queue pair is in its life. The numbers are those of verbs.
type State uint8

// The states of a queue pair.
const (
	Reset State = 0
	Init  State = 1
	RTR   State = 2
	RTS   State = 3
	SQD   State = 4
	Err   State = 6
)

var stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"}

// String returns the state's name.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "UNKNOWN"
}

// QPConfig says how a queue pair is made.
type QPConfig struct {
	Owner          any
	PD             *PD
	Transport      roce.Transport // RC, UC or UD
	Management     bool           // of UD: this is queue pair 1
	SendCQ, RecvCQ *CQ
	SRQ            *SRQ // where receives come from; nil: a queue of its own
	SendDepth      int  // requests
	RecvDepth      int
	SendSGE        int // scatter entries of a request
	RecvSGE        int
	Inline         int           // bytes of a request
	SignalAll      bool          // every request completes with an entry
	Executor       work.Executor // nil: that of the device
}

// A QP is a queue pair: two halves that share little more than their fate.
type QP struct {
	Owner any // whoever made it may note itself here

	d         *Device
	pd        *PD
	view      atomic.Pointer[view]
	num       uint32
	transport roce.Transport
	signalAll bool
	polled    bool       // a circle runs the send half
	dead      bool       // under mu
	mu        sync.Mutex // orders changes of state
	segments  int        // of a frame

	// What posting touches lies together, on one line for sending.
	state atomic.Uint32
	post  sync.Mutex // orders posting to sq
	sq    qp.SendQueue

	send sendHalf
	recv recvHalf

	sendCQ, recvCQ *CQ
	exec           work.Executor
	remembered     int         // READs and atomics that the responder has room for
	draining       atomic.Bool // from SQD until the last request that had begun is done
	tellDrained    atomic.Bool
}

// A view is what the receive path needs to know of a queue pair. It never
// changes: to change it is to put another into its place.
type view struct {
	requests  bool // may come in
	responses bool
	anyone    bool // may send them: peer means nothing
	pkey      uint16
	peer      frame.Addr
	local     frame.Addr
	tos, ttl  uint8 // of packets to the peer; 0: what the system has
}

// framesPerQP is how many frames the pool grows by with each queue pair.
const framesPerQP = 8

// NewQP makes a queue pair in state RESET.
func (d *Device) NewQP(c QPConfig) (*QP, error) {
	if err := d.checkQP(&c); err != nil {
		return nil, err
	}
	q := &QP{
		Owner: c.Owner, d: d, pd: c.PD, transport: c.Transport, sendCQ: c.SendCQ, recvCQ: c.RecvCQ,
		segments: max(c.SendSGE, c.RecvSGE, 1), signalAll: c.SignalAll, exec: c.Executor,
	}
	q.sq.Init(c.SendDepth, c.SendSGE, c.Inline)
	q.view.Store(&view{})
	q.recv.rq.init(c.RecvDepth, c.RecvSGE)
	q.recv.pd = c.PD
	if c.SRQ != nil {
		q.recv.srq, q.recv.pd = c.SRQ, c.SRQ.pd
		c.SRQ.users.Add(1)
	}
	q.send.init(q, c.Executor, c.SendCQ, q.send.run)
	q.recv.init(q, c.Executor, c.RecvCQ, q.recv.run)
	q.polled = q.send.circle != nil
	q.send.sender = &q.send.m
	q.send.floods = c.Transport != roce.RC && d.linkFD >= 0
	q.send.m.Init(&q.send, &q.sq)
	q.recv.m.Init(&q.recv, 0)
	if c.Transport == roce.UD {
		d.link.SeeHeaders()
	}
	if err := d.number(q, c.Management); err != nil {
		q.leaveSRQ()
		return nil, err
	}
	if d.circle != nil && q.send.circle == nil {
		d.exclusively(d.share)
	}
	q.send.pool.reserve(framesPerQP)
	d.timers.reserve(d.qps.len())
	c.PD.users.Add(1)
	c.SendCQ.users.Add(1)
	c.RecvCQ.users.Add(1)
	c.SendCQ.serve(c.Executor, &q.send.half)
	c.RecvCQ.serve(c.Executor, &q.recv.half)
	return q, nil
}

// leaveSRQ no longer counts q among those who use its shared receive queue.
func (q *QP) leaveSRQ() {
	if q.recv.srq != nil {
		q.recv.srq.users.Add(-1)
	}
}

// management is the number of the queue pair for management.
const management = 1

// number puts q into the table.
func (d *Device) number(q *QP, manages bool) error {
	if manages {
		if q.num = management; !d.qps.put(management, q) {
			return fmt.Errorf("make queue pair 1, which exists: %w", ErrBusy)
		}
		return nil
	}
	made := d.qps.add(d.limits.QP, d.usable, func(n uint32) *QP {
		q.num = n
		return q
	})
	if made == nil {
		return fmt.Errorf("make a queue pair, %d exist: %w", d.limits.QP, ErrNoMemory)
	}
	return nil
}

// usable reports whether a queue pair may get number n: 0 and 1 are for
// management, the last is for multicast, and those used lately rest. The place
// of 1 in the table is kept free.
func (d *Device) usable(n uint32) bool {
	return n >= 16 && n%leastSlots != management && n != groupQPN && !d.lately.has(n, instant())
}

func (d *Device) checkQP(c *QPConfig) error {
	l := &d.limits
	for _, x := range [...]struct {
		what     string
		n        int
		min, max int
	}{
		{"send depth", c.SendDepth, 0, l.WR}, {"receive depth", c.RecvDepth, 0, l.WR},
		{"scatter entries of a send", c.SendSGE, 0, l.SGE}, {"scatter entries of a receive", c.RecvSGE, 0, l.SGE},
		{"inline bytes", c.Inline, 0, l.Inline},
	} {
		if x.n < x.min || x.n > x.max {
			return fmt.Errorf("%s %d, want %d to %d: %w", x.what, x.n, x.min, x.max, ErrInvalid)
		}
	}
	switch {
	case c.PD == nil || c.PD.d != d:
		return fmt.Errorf("protection domain of another device: %w", ErrInvalid)
	case c.SendCQ == nil || c.RecvCQ == nil || c.SendCQ.d != d || c.RecvCQ.d != d:
		return fmt.Errorf("completion queue of another device: %w", ErrInvalid)
	case c.SRQ != nil && c.SRQ.d != d:
		return fmt.Errorf("shared receive queue of another device: %w", ErrInvalid)
	case c.SRQ != nil && c.SRQ.closed.Load():
		return fmt.Errorf("shared receive queue: %w", ErrClosed)
	case c.Transport != roce.RC && c.Transport != roce.UC && c.Transport != roce.UD,
		c.Management && c.Transport != roce.UD:
		return fmt.Errorf("transport service %v: %w", c.Transport, ErrUnsupported)
	case d.closing.Load():
		return fmt.Errorf("device: %w", ErrClosed)
	}
	if c.Executor == nil {
		c.Executor = d.exec
	}
	return nil
}

// Num returns the number of the queue pair.
func (q *QP) Num() uint32 { return q.num }

// State returns where the queue pair is, and in SQD whether requests that had
// begun are still in progress.
func (q *QP) State() (s State, draining bool) {
	return State(q.state.Load()), q.draining.Load()
}

// happened takes note of an event of the machines.
func (q *QP) happened(e qp.Event) {
	if e == qp.SendQueueDrained {
		q.draining.Store(false)
	}
}

// fail takes the queue pair to the error state, after one half has failed. It
// is called inside a run of that half. The other one is told at the end of the
// run: who finds the completions of both in one queue finds first why it failed,
// and then what was flushed.
func (q *QP) fail(h, other *half) {
	q.state.Store(uint32(Err))
	q.shut()
	h.follows = other
}

// shut lets no packet in any more. Those that are owed still go out.
func (q *QP) shut() {
	for {
		old := q.view.Load()
		v := *old
		v.requests, v.responses = false, false
		if q.view.CompareAndSwap(old, &v) {
			return
		}
	}
}

// SendQueue returns the queue of requests, and a lock for those who post to it.
func (q *QP) SendQueue() (*qp.SendQueue, *sync.Mutex) { return &q.sq, &q.post }

// Ring wakes the send half after requests were published.
func (q *QP) Ring() {
	if !q.polled { // and do not look where the half writes
		q.send.item.WakePublished()
		return
	}
	q.send.wakePublished()
}

// LockReceives locks the queue of receives for posting.
func (q *QP) LockReceives() { q.recv.rq.mu.Lock() }

// NextReceive returns the next free slot for a receive, or nil when the queue
// is full. PostReceive posts it.
func (q *QP) NextReceive() *qp.RecvWQE {
	r := &q.recv.rq
	if r.full() {
		return nil
	}
	return r.at(r.next)
}

// PostReceive posts the slot of NextReceive.
func (q *QP) PostReceive() { q.recv.rq.next++ }

// UnlockReceives ends LockReceives, and shows what was posted. A queue pair that
// has failed is woken to flush it.
func (q *QP) UnlockReceives() {
	q.recv.rq.publish()
	q.recv.rq.mu.Unlock()
	if State(q.state.Load()) == Err {
		q.recv.wake()
	}
}
