package nic

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/notify"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/work"
)

// A circle are the devices that share an inline executor. Whoever drives one
// of them drives all, so they share the time too, as the driver last saw it.
type circle struct {
	x       *work.Inline
	now     atomic.Int64 // 0: somebody else drives the executor, or nobody does
	devices atomic.Pointer[[]*Device]

	sleepers atomic.Int32 // channels that are asleep
	mu       sync.Mutex
	channels []*Channel
}

// circles are those that there are.
var circles struct {
	sync.Mutex
	of map[*work.Inline]*circle
}

// join puts d into the circle of its executor.
func (d *Device) join() {
	circles.Lock()
	defer circles.Unlock()
	if circles.of == nil {
		circles.of = map[*work.Inline]*circle{}
	}
	c := circles.of[d.inline]
	if c == nil {
		c = &circle{x: d.inline}
		c.devices.Store(new([]*Device))
		circles.of[d.inline] = c
	}
	all := append(slices.Clone(*c.devices.Load()), d)
	c.devices.Store(&all)
	d.circle = c
	c.include(d)
}

// include lets channels that have a descriptor watch the socket of d too. If
// the kernel refuses, packets for d are found when somebody polls.
func (c *circle) include(d *Device) {
	if d.linkFD < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.channels {
		ch.mu.Lock()
		if ch.set != nil && !ch.closed {
			_ = ch.set.Add(d.linkFD)
		}
		ch.mu.Unlock()
	}
}

// leave undoes join.
func (d *Device) leave() {
	circles.Lock()
	defer circles.Unlock()
	all := slices.DeleteFunc(slices.Clone(*d.circle.devices.Load()), func(o *Device) bool { return o == d })
	d.circle.devices.Store(&all)
	if len(all) == 0 {
		delete(circles.of, d.inline)
	}
}

// look takes note of the time, of deadlines, and of packets on links that do
// not call.
func (c *circle) look() {
	now := instant()
	c.now.Store(int64(now))
	for _, d := range *c.devices.Load() {
		d.timers.expire(now)
		if d.linkFD >= 0 {
			d.rx.item.WakePublished()
		}
	}
}

// expects reports whether something may be due that is not queued: then it is
// worth the time to look.
func (c *circle) expects() bool {
	for _, d := range *c.devices.Load() {
		if d.linkFD >= 0 || d.timers.next.Load() != 0 {
			return true
		}
	}
	return false
}

// deadline returns the earliest instant at which a device has something to do,
// or 0.
func (c *circle) deadline() qp.Instant {
	var first int64
	for _, d := range *c.devices.Load() {
		if at := d.timers.next.Load(); at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return qp.Instant(first)
}

// hasSocket reports whether packets come in where nobody calls.
func (c *circle) hasSocket() bool {
	return slices.ContainsFunc(*c.devices.Load(), func(d *Device) bool { return d.linkFD >= 0 })
}

// watch makes s readable when a device has packets to take.
func (c *circle) watch(s *notify.Set) error {
	for _, d := range *c.devices.Load() {
		if d.linkFD >= 0 {
			if err := s.Add(d.linkFD); err != nil {
				return err
			}
		}
	}
	return nil
}

// admit and dismiss keep the list of channels.
func (c *circle) admit(ch *Channel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.channels = append(c.channels, ch)
}

func (c *circle) dismiss(ch *Channel) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.channels = slices.DeleteFunc(c.channels, func(o *Channel) bool { return o == ch })
	if ch.asleep.Swap(false) {
		c.sleepers.Add(-1)
	}
}

// alarm rouses those who sleep. Call it after the work was made visible.
func (c *circle) alarm() {
	if c.sleepers.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, ch := range c.channels {
		if ch.asleep.Swap(false) {
			c.sleepers.Add(-1)
			ch.mu.Lock()
			ch.signal()
			ch.mu.Unlock()
		}
	}
}

// drive runs what is queued, up to n rounds, until enough reports true. What
// is left then is for those who sleep: this driver may be the last to come.
func (c *circle) drive(n, budget int, enough func() bool) (did bool) {
	if !c.x.Ready() && !c.expects() {
		return false
	}
	c.look()
	for range n {
		if !c.x.Drive(budget) {
			break
		}
		if did = true; enough != nil && enough() {
			break
		}
	}
	c.now.Store(0)
	for _, d := range *c.devices.Load() {
		if d.outbox != nil {
			d.outbox.age()
		}
	}
	if c.sleepers.Load() != 0 && c.x.Ready() {
		c.alarm()
	}
	return did
}
