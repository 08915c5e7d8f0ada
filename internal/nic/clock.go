package nic

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/work"
)

var start = time.Now()

// instant reads the monotonic clock: tens of nanoseconds, so it is read once
// per batch.
func instant() qp.Instant { return qp.Instant(time.Since(start)) + 1 }

// A circle are the devices that share an inline executor. Whoever drives one
// of them drives all, so they share the time too, as the driver last saw it.
type circle struct {
	now     atomic.Int64
	devices atomic.Pointer[[]*Device]
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
		c = new(circle)
		c.now.Store(int64(instant()))
		c.devices.Store(new([]*Device))
		circles.of[d.inline] = c
	}
	all := append(slices.Clone(*c.devices.Load()), d)
	c.devices.Store(&all)
	d.circle = c
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
