package nic

import (
	"context"
	"sync"
)

// An EventKind is what an asynchronous event is about.
type EventKind uint8

// The events that a device raises.
const (
	EventCQError       EventKind = iota // an entry did not fit into the queue
	EventQPFatal                        // the queue pair failed without a completion that says so
	EventQPRequest                      // the responder refused a request
	EventQPAccess                       // the responder refused access to memory
	EventCommEstablish                  // the first packet came before ready-to-send
	EventSQDrained                      // all requests that had begun are done
	EventLastWQE                        // no receive of the shared queue is in use
	EventSRQError                       // the shared receive queue failed
	EventSRQLimit                       // fewer receives are left in it than its limit
)

// An Event happened to a queue pair, a completion queue or a shared receive queue.
type Event struct {
	Kind EventKind
	QP   *QP
	CQ   *CQ
	SRQ  *SRQ
}

// eventDepth is how many events wait for somebody to take them. More are
// counted and lost.
const eventDepth = 1024

// events are a bounded queue of events and those who wait for one.
type events struct {
	mu     sync.Mutex
	ring   []Event
	head   int
	n      int
	closed bool
	wake   chan struct{} // holds one token while there may be events
}

func (q *events) init() { q.wake = make(chan struct{}, 1) }

// raise queues an event for whoever asks. It may allocate: the first time.
func (d *Device) raise(e Event) {
	q := &d.events
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ring == nil {
		q.ring = make([]Event, eventDepth)
	}
	if q.n == len(q.ring) || q.closed {
		d.count(countEventLost)
		return
	}
	q.ring[(q.head+q.n)%len(q.ring)] = e
	q.n++
	q.token()
}

// token lets one waiter look. The caller holds mu.
func (q *events) token() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// TryEvent takes the oldest event, if there is one.
func (d *Device) TryEvent() (Event, bool) {
	q := &d.events
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.pop()
}

func (q *events) pop() (e Event, ok bool) {
	if q.n == 0 {
		return e, false
	}
	e, q.ring[q.head] = q.ring[q.head], Event{}
	q.head = (q.head + 1) % len(q.ring)
	if q.n--; q.n > 0 {
		q.token()
	}
	return e, true
}

// NextEvent waits for an event, until ctx is done or the device is closed. It
// drives nothing.
func (d *Device) NextEvent(ctx context.Context) (Event, error) {
	q := &d.events
	for {
		q.mu.Lock()
		e, ok := q.pop()
		closed := q.closed
		if closed {
			q.token() // for the next who waits
		}
		q.mu.Unlock()
		if ok {
			return e, nil
		}
		if closed {
			return e, ErrClosed
		}
		select {
		case <-q.wake:
		case <-ctx.Done():
			return e, ctx.Err()
		}
	}
}

// close lets nobody wait any more.
func (q *events) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.token()
}

// drop forgets the events that match: what they are about is destroyed.
func (q *events) drop(match func(Event) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	kept := 0
	for i := range q.n {
		e := q.ring[(q.head+i)%len(q.ring)]
		if !match(e) {
			q.ring[(q.head+kept)%len(q.ring)] = e
			kept++
		}
	}
	for i := kept; i < q.n; i++ {
		q.ring[(q.head+i)%len(q.ring)] = Event{}
	}
	q.n = kept
}
