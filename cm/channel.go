package cm

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gantry-rdma/gantry/internal/conn"
	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/verbs"
)

// A Channel collects the events of IDs. Close gives it up.
type Channel struct {
	a     *agent
	ready chan struct{} // holds one token while there may be something

	// The lock of the agent guards these.
	ids    map[*ID]bool
	events []Event // oldest first
	closed bool
}

// Open opens a channel on a device, which is to be closed after it. The first one
// takes queue pair 1. EBUSY: it is taken already, and not by this package.
func Open(d *verbs.Device) (*Channel, error) {
	a, err := agentOf(d)
	if err != nil {
		return nil, fmt.Errorf("connection manager of %v: %w", d.Addr(), err)
	}
	c := &Channel{a: a, ready: make(chan struct{}, 1), ids: map[*ID]bool{}}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.channels[c] = true
	return c, nil
}

// Device returns the device of the channel.
func (c *Channel) Device() *verbs.Device { return c.a.dev }

// Next waits for an event and returns it. It ends with an error when ctx is done
// or the channel is closed. On an inline executor it drives the device.
func (c *Channel) Next(ctx context.Context) (Event, error) {
	for {
		if e, ok, err := c.pop(); ok || err != nil {
			return e, err
		}
		if err := c.wait(ctx); err != nil {
			return Event{}, err
		}
	}
}

// wait blocks until there may be an event.
func (c *Channel) wait(ctx context.Context) error {
	if c.a.driver == nil {
		select {
		case <-c.ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case c.a.driver <- struct{}{}: // nobody else drives: we do
		defer func() { <-c.a.driver }()
		return c.a.drive(ctx, c)
	}
}

// TryNext returns the oldest event, if there is one. On an inline executor it
// drives the device.
func (c *Channel) TryNext() (Event, bool) {
	if c.a.driver != nil {
		select {
		case c.a.driver <- struct{}{}:
			c.a.poll()
			<-c.a.driver
		default:
		}
	}
	e, ok, _ := c.pop()
	return e, ok
}

// pop takes the oldest event.
func (c *Channel) pop() (e Event, ok bool, err error) {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	switch {
	case len(c.events) > 0:
		e, ok = c.events[0], true
		c.events = slices.Delete(c.events, 0, 1)
		if len(c.events) > 0 {
			c.call() // for another goroutine that waits
		}
	case c.closed:
		c.call()
		err = fmt.Errorf("event channel: %w", EBADF)
	case c.a.err != nil:
		c.call()
		err = c.a.err
	}
	return e, ok, err
}

// push adds an event. The caller holds the lock of the agent.
func (c *Channel) push(e Event) {
	c.events = append(c.events, e)
	c.call()
}

// call lets a waiter look. The caller holds the lock of the agent.
func (c *Channel) call() {
	select {
	case c.ready <- struct{}{}:
	default:
	}
	if c.a.rouse != nil && c.a.driving == c {
		c.a.rouse()
	}
}

// drop takes the events of an ID out of the queue, and closes the connections
// that only they named. The caller holds the lock of the agent.
func (c *Channel) drop(id *ID) {
	c.events = slices.DeleteFunc(c.events, func(e Event) bool {
		if e.Listener == id {
			e.ID.end()
		}
		return e.ID == id || e.Listener == id
	})
}

// withdraw takes back the request of a peer that the program has not seen yet,
// and reports whether it could. The caller holds the lock of the agent.
func (c *Channel) withdraw(id *ID) bool {
	before := len(c.events)
	c.events = slices.DeleteFunc(c.events, func(e Event) bool { return e.ID == id && e.Type == ConnectRequest })
	if len(c.events) == before {
		return false
	}
	id.end()
	return true
}

// Close closes the IDs of the channel that are left, and ends all waits. It does
// not wait for what peers answer: a peer that must know disconnects first. With
// its last channel a device gives up queue pair 1.
func (c *Channel) Close() error {
	c.a.mu.Lock()
	if c.closed {
		c.a.mu.Unlock()
		return fmt.Errorf("event channel: %w", EBADF)
	}
	ids := make([]*ID, 0, len(c.ids))
	for id := range c.ids {
		ids = append(ids, id)
	}
	c.a.mu.Unlock()
	var first error
	for _, id := range ids {
		if err := id.Close(); err != nil && !errors.Is(err, EBADF) && first == nil {
			first = err // an ID may be closed meanwhile
		}
	}
	c.a.mu.Lock()
	c.closed = true
	c.events = nil
	delete(c.a.channels, c)
	c.call()
	c.a.mu.Unlock()
	if err := c.a.release(); err != nil && first == nil {
		first = err
	}
	return first
}

// A Counter is the name of a counter and its value.
type Counter struct {
	Name  string // like sent_REQ, retried_REP, rejected_8, dropped_unknown_id
	Value uint64 // only grows
}

// Counters returns what the connection manager of the device has counted: of
// each message how many were sent, sent again, received, and received again; the
// refusals by reason, sent (rejects) and received (rejected); and the messages
// that were dropped, by reason.
func (c *Channel) Counters() []Counter {
	c.a.mu.Lock()
	n := c.a.machine.Counters()
	lost := c.a.lost
	c.a.mu.Unlock()
	var out []Counter
	add := func(name string, v uint64) { out = append(out, Counter{name, v}) }
	for i := range n.Sent {
		a := mad.REQ + mad.Attr(i)
		add(fmt.Sprintf("sent_%v", a), n.Sent[i])
		add(fmt.Sprintf("retried_%v", a), n.Retried[i])
		add(fmt.Sprintf("received_%v", a), n.Received[i])
		add(fmt.Sprintf("duplicate_%v", a), n.Duplicate[i])
	}
	for i := 1; i < mad.Reasons; i++ {
		add(fmt.Sprintf("rejects_%d", i), n.Rejects[i])
		add(fmt.Sprintf("rejected_%d", i), n.Rejected[i])
	}
	for d := range conn.Drops {
		add(fmt.Sprintf("dropped_%v", d), n.Dropped[d])
	}
	add("dropped_no_mad", lost.noMAD)
	add("dropped_send_queue_full", lost.full)
	return out
}
