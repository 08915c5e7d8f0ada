package nic

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/notify"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/work"
)

// A circle are the devices that share an inline executor. Whoever drives one
// of them drives all: see drive.go.
type circle struct {
	members int       // devices; under the lock of circles
	item    work.Item // lets who drives the executor drive the circle
	posted  halfStack
	left    atomic.Bool // the last drive has left something to do
	devices atomic.Pointer[[]*Device]

	sleepers atomic.Int32 // channels that are asleep
	watch    sync.Mutex
	channels []*Channel // under watch

	// Whoever drives holds mu. Under it are the fields below, the halves of the
	// devices that the circle runs, and all their completion queues.
	mu      sync.Mutex
	now     qp.Instant             // of the drive, or 0: see clock
	done    [outBatch]*frame.Frame // of the half that runs
	flood   bool                   // a half has sent what nobody answers
	woken   *half                  // were posted, and are to become due; linked through nextPosted
	fresh   halfList               // have packets
	due     halfList               // were woken
	touched halfList               // got packets that crossed over
	calm    bool                   // no device has to be looked at
	late    bool                   // the last round did not ask sockets, to send first
}

// circles are those that there are.
var circles struct {
	sync.Mutex
	of map[*work.Inline]*circle
}

// circleOf returns the circle of an executor, and counts one device more in
// it, which is to join and to leave.
func circleOf(x *work.Inline) *circle {
	circles.Lock()
	defer circles.Unlock()
	if circles.of == nil {
		circles.of = map[*work.Inline]*circle{}
	}
	c := circles.of[x]
	if c == nil {
		c = new(circle)
		c.devices.Store(new([]*Device))
		c.item.Init(x, c.run)
		c.fresh.name, c.due.name, c.touched.name = listFresh, listDue, listTouched
		circles.of[x] = c
	}
	c.members++
	return c
}

// join lets d be driven.
func (c *circle) join(d *Device) {
	c.exclusively(func() {
		all := append(slices.Clone(*c.devices.Load()), d)
		c.meet(d)
		c.devices.Store(&all)
	})
	c.include(d)
}

// leave ends that. x is the executor of the circle.
func (c *circle) leave(d *Device, x *work.Inline) {
	c.exclusively(func() {
		c.part(d)
		all := slices.DeleteFunc(slices.Clone(*c.devices.Load()), func(o *Device) bool { return o == d })
		c.devices.Store(&all)
	})
	circles.Lock()
	defer circles.Unlock()
	if c.members--; c.members == 0 {
		delete(circles.of, x)
		c.item.Close()
	}
}

// include lets channels that have a descriptor watch the socket of d too. If
// the kernel refuses, packets for d are found when somebody polls.
func (c *circle) include(d *Device) {
	if d.linkFD < 0 {
		return
	}
	c.watch.Lock()
	defer c.watch.Unlock()
	for _, ch := range c.channels {
		ch.mu.Lock()
		if ch.set != nil && !ch.closed {
			_ = ch.set.Add(d.linkFD)
		}
		ch.mu.Unlock()
	}
}

// exclusively calls f while nobody drives.
func (c *circle) exclusively(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
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

// observe makes s readable when a device has packets to take.
func (c *circle) observe(s *notify.Set) error {
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
	c.watch.Lock()
	defer c.watch.Unlock()
	c.channels = append(c.channels, ch)
}

func (c *circle) dismiss(ch *Channel) {
	c.watch.Lock()
	defer c.watch.Unlock()
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
	c.watch.Lock()
	defer c.watch.Unlock()
	for _, ch := range c.channels {
		if ch.asleep.Swap(false) {
			c.sleepers.Add(-1)
			ch.mu.Lock()
			ch.signal()
			ch.mu.Unlock()
		}
	}
}
