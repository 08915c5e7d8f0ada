package nic

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/internal/notify"
)

// A Channel collects the events of completion queues for those who wait. All
// its methods may be called from any goroutine.
//
// On a device that is driven by polling, a wait drives it: before it blocks,
// and whenever a packet or a deadline wakes it.
type Channel struct {
	d     *Device
	users atomic.Int32 // completion queues

	asleep atomic.Bool   // whoever has work for the circle is to rouse the channel
	wake   chan struct{} // holds one token

	mu     sync.Mutex
	first  *CQ // those with events, linked through nextCQ
	last   *CQ
	set    *notify.Set // made when a descriptor is needed
	closed bool

	waiting sync.Mutex // one goroutine at a time waits at the set
}

// NewChannel returns a channel. Close gives it up.
func (d *Device) NewChannel() (*Channel, error) {
	c := &Channel{d: d, wake: make(chan struct{}, 1)}
	if d.circle != nil && d.circle.hasSocket() {
		if _, err := c.FD(); err != nil {
			return nil, err
		}
	}
	if d.circle != nil {
		d.circle.admit(c)
	}
	return c, nil
}

// FD returns a descriptor that is readable while there are events, and on a
// device that is driven by polling also when it should be driven: TryGet does.
// It is for a program's own poll or epoll set, and stays the same.
func (c *Channel) FD() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return -1, fmt.Errorf("completion channel: %w", ErrClosed)
	}
	if c.set == nil {
		s, err := notify.New()
		if err != nil {
			return -1, fmt.Errorf("descriptor of a completion channel: %w", err)
		}
		if c.d.circle != nil {
			if err := c.d.circle.observe(s); err != nil {
				return -1, errors.Join(err, s.Close())
			}
			s.Signal()
		}
		c.set = s
		if c.first != nil {
			s.Signal()
		}
	}
	return c.set.FD(), nil
}

// push adds an event of q. The caller holds the lock of q.
func (c *Channel) push(q *CQ) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q.pending++
	if !q.queued {
		c.append(q)
	}
	c.signal()
}

func (c *Channel) append(q *CQ) {
	q.queued = true
	if c.first == nil {
		c.first = q
	} else {
		c.last.nextCQ = q
	}
	c.last = q
}

// signal lets waiters look. The caller holds mu.
func (c *Channel) signal() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
	if c.set != nil && !c.closed {
		c.set.Signal()
	}
}

// pop takes the oldest event.
func (c *Channel) pop() (*CQ, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.first
	if q == nil {
		if c.closed {
			c.signal() // for the next who waits
			return nil, ErrClosed
		}
		if c.set != nil {
			return nil, c.set.Clear()
		}
		return nil, nil
	}
	c.first, q.nextCQ, q.queued = q.nextCQ, nil, false
	if q.pending--; q.pending > 0 {
		c.append(q)
	}
	q.unacked.Add(1)
	if c.first != nil {
		c.signal()
	}
	return q, nil
}

// forget drops the events of q, which goes away.
func (c *Channel) forget(q *CQ) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var keep *CQ
	for at := c.first; at != nil; {
		next := at.nextCQ
		at.nextCQ = nil
		if at != q {
			if keep == nil {
				c.first = at
			} else {
				keep.nextCQ = at
			}
			keep = at
		}
		at = next
	}
	if keep == nil {
		c.first = nil
	}
	c.last, q.queued, q.pending = keep, false, 0
}

// TryGet takes the oldest event and returns its queue, or nil when there is
// none. It drives a device that is driven by polling.
func (c *Channel) TryGet() (*CQ, error) {
	q, err := c.pop()
	if q != nil || err != nil || c.d.inline == nil {
		return q, err
	}
	c.d.driveIdle()
	c.fallAsleep()
	c.d.driveIdle()
	if q, err = c.pop(); q == nil && err == nil {
		return nil, c.setTimer()
	}
	return q, err
}

// fallAsleep asks the device to rouse the channel. Look for work once more
// after it.
func (c *Channel) fallAsleep() {
	if !c.asleep.Swap(true) {
		c.d.circle.sleepers.Add(1)
	}
}

// setTimer makes the descriptor readable when the device has a deadline.
func (c *Channel) setTimer() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.set == nil || c.closed {
		return nil
	}
	if at := c.d.circle.deadline(); at != 0 {
		return c.set.SetTimer(time.Duration(at - instant()))
	}
	return c.set.StopTimer()
}

// Get waits for an event and returns its queue, which is to be acknowledged
// with Ack. It ends with an error when ctx is done or the channel is closed.
func (c *Channel) Get(ctx context.Context) (*CQ, error) {
	for {
		q, err := c.TryGet()
		if q != nil || err != nil {
			return q, err
		}
		if err := c.wait(ctx); err != nil {
			return nil, err
		}
	}
}

// wait blocks until there may be something to look at.
func (c *Channel) wait(ctx context.Context) error {
	var due <-chan time.Time
	if c.d.circle != nil {
		if c.d.circle.hasSocket() {
			return c.waitSet(ctx)
		}
		if at := c.d.circle.deadline(); at != 0 {
			t := time.NewTimer(time.Duration(at - instant()))
			defer t.Stop()
			due = t.C
		}
	}
	select {
	case <-c.wake:
	case <-due:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// waitSet waits at the descriptor, where packets arrive too.
func (c *Channel) waitSet(ctx context.Context) error {
	if _, err := c.FD(); err != nil { // the first socket may have come later
		return err
	}
	c.waiting.Lock()
	defer c.waiting.Unlock()
	if _, err := c.FD(); err != nil { // closed while another one waited
		return err
	}
	if ctx.Done() != nil {
		defer c.interruptWith(ctx)()
	}
	err := c.set.Wait()
	if errors.Is(err, notify.ErrInterrupted) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// interruptWith ends the wait when ctx is done. The function that it returns
// undoes that: after it, no interrupt comes that is meant for an earlier wait.
func (c *Channel) interruptWith(ctx context.Context) (undo func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		c.set.Interrupt()
	})
	return func() {
		if !stop() {
			<-over
			c.set.Resume()
		}
	}
}

// Close ends all waits. The channel is busy while completion queues use it.
func (c *Channel) Close() error {
	if n := c.users.Load(); n != 0 {
		return fmt.Errorf("completion channel of %d completion queues: %w", n, ErrBusy)
	}
	if c.d.circle != nil {
		c.d.circle.dismiss(c)
	}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return fmt.Errorf("completion channel: %w", ErrClosed)
	}
	c.closed = true
	c.signal()
	set := c.set
	c.mu.Unlock()
	if set == nil {
		return nil
	}
	set.Interrupt()
	c.waiting.Lock()
	defer c.waiting.Unlock()
	return set.Close()
}

// Ack acknowledges n events that Get returned for q.
func (q *CQ) Ack(n int) { q.unacked.Add(int64(-n)) }
