package nic

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/link"
	"github.com/gantry-rdma/gantry/internal/qp"
	"github.com/gantry-rdma/gantry/work"
)

// Limits are the most that a device has of each thing.
type Limits struct {
	QP, MR int
	MW     int // memory windows
	SRQ    int // shared receive queues
	CQE    int // entries of one completion queue
	WR     int // requests of one queue
	SGE    int // scatter entries of one request
	Inline int // bytes
	Atomic int // READs and atomics outstanding, in each direction
}

// DefaultLimits are those of the kernel's driver where it makes sense.
func DefaultLimits() Limits {
	return Limits{QP: 1<<20 - 16, MR: 1<<20 - 1, MW: 1 << 16, SRQ: 1 << 16, CQE: 1 << 20, WR: 1 << 14, SGE: 32, Inline: 512, Atomic: 128}
}

// Config says how a device is made.
type Config struct {
	Link   link.Link // belongs to the device from now on
	Limits Limits    // zero: DefaultLimits

	// Executor runs the device. An inline one makes it a device that is driven
	// by polling. nil: a work queue that devices share.
	Executor work.Executor
	// Frames is how many packets the device can have out beside those that
	// come with its queue pairs; 0: 1024.
	Frames int
}

// A Device is a network card made of goroutines, or of none. All its methods
// may be called from any goroutine.
type Device struct {
	link   link.Link
	limits Limits
	exec   work.Executor
	inline *work.Inline // of exec, if that is what it is
	linkFD int          // or -1
	helped atomic.Bool  // a program drives the work queue
	circle *circle      // with inline
	shared bool         // exec is the shared work queue
	burst  int          // packets of one run of a half
	trains int          // packets that a frame may stand for
	paths  *paths       // nil: the link has no buffer that overflows

	qps    table[QP]
	lately recent // numbers of queue pairs that are gone
	keys   keys
	pools  [2]pool
	timers timers
	rx     receiver
	tx     outbox       // of the halves that the circle runs
	bare   *link.Memory // link and far are for what crosses over: see cross.go
	far    *Device
	beside atomic.Pointer[Device] // at the other end of the link, if nothing is between: see near.go
	groups groups
	events events
	tally  tally

	pds, cqs  atomic.Int32
	mws, srqs atomic.Int32

	atomics sync.Mutex // orders all atomic operations of peers

	epoch    atomic.Uint32 // see settle
	settling sync.Mutex

	roomMu  sync.Mutex
	room    *half // the first and the last of those that wait for room in the link
	roomEnd *half
	cramped atomic.Int32 // how many they are

	closing atomic.Bool
	loops   sync.WaitGroup
}

// packetOverhead is what the kernel counts for a packet in a socket buffer beside
// its bytes, which it counts twice. The peer's buffer is taken to be like ours
// until packets are lost: see path.
const packetOverhead = 512

// Open makes a device. Close gives it up.
func Open(c Config) (*Device, error) {
	if c.Link == nil {
		return nil, fmt.Errorf("device without a link: %w", ErrInvalid)
	}
	if c.Limits == (Limits{}) {
		c.Limits = DefaultLimits()
	}
	if c.Frames <= 0 {
		c.Frames = 1024
	}
	d := &Device{link: c.Link, limits: c.Limits, exec: c.Executor, linkFD: -1, burst: burst}
	if x, ok := d.exec.(*work.Inline); ok {
		d.inline, d.circle = x, circleOf(x)
	}
	if d.exec == nil {
		d.exec, d.shared = sharedQueue(), true
	}
	if l, ok := d.link.(interface{ Trains() int }); ok {
		d.trains = l.Trains()
	}
	if fd, ok := d.link.Pollable(); ok {
		d.linkFD, d.burst, d.tx.socket = fd, burstOnWire, true
	}
	if n := d.stats().RecvBuffer; n > 0 {
		d.paths = newPaths(int64(n / (2*c.Link.MTU() + packetOverhead)))
	}
	d.qps.init()
	d.keys.regions.init()
	d.keys.generation.Store(uint32(instant()))
	d.events.init()
	d.rx.d, d.rx.most = d, inBatch
	if d.linkFD >= 0 {
		d.rx.most = inBatchOnWire
	}
	d.tx.link = d.link
	d.pools[0].init(d, narrow)
	d.pools[1].init(d, c.Limits.SGE)
	d.pools[0].grow(c.Frames)
	d.start()
	return d, nil
}

// start sets the receive path and the timers going.
func (d *Device) start() {
	defer d.settleIn()
	if d.circle != nil {
		d.link.OnRoom(d.circle.call)
		d.link.OnReady(d.circle.call)
		if d.linkFD >= 0 {
			d.tx.timer = time.AfterFunc(time.Hour, func() { d.exclusively(func() { d.tx.expire(instant()) }) })
			d.tx.timer.Stop()
		}
		d.circle.join(d)
		return
	}
	d.rx.item.Init(d.exec, d.rx.run)
	d.link.OnRoom(d.roomAgain)
	if d.linkFD < 0 {
		d.link.OnReady(d.rx.item.WakePublished)
	} else {
		d.loops.Go(d.rx.loop)
	}
	d.timers.wake = make(chan struct{}, 1)
	d.loops.Go(func() { d.timers.loop(instant) })
}

// exclusively calls f while nobody drives the device, if it is one that is
// driven.
func (d *Device) exclusively(f func()) {
	if d.circle == nil {
		f()
		return
	}
	d.circle.exclusively(f)
}

// stats returns what the link has counted.
func (d *Device) stats() (s link.Stats) {
	d.exclusively(func() { s = d.link.Stats() })
	return s
}

// share prepares for halves that no circle runs. Nobody drives the device.
func (d *Device) share() {
	if l, ok := d.link.(interface{ Share() }); ok {
		l.Share()
	}
}

// Limits returns what the device has at most.
func (d *Device) Limits() Limits { return d.limits }

// Local returns the address that peers send to.
func (d *Device) Local() frame.Addr { return d.link.Local() }

// MTU returns the largest payload of a packet in bytes.
func (d *Device) MTU() int { return d.link.MTU() }

// Executor returns what runs the device.
func (d *Device) Executor() work.Executor { return d.exec }

// Drive does some of the device's work on the caller, where it is driven by
// polling or by a work queue that lets callers help. It reports whether there
// was any.
func (d *Device) Drive(budget int) bool {
	if d.inline != nil {
		return d.circle.drive(1, budget)
	}
	if x, ok := d.exec.(*work.Workqueue); ok {
		if !d.helped.Load() {
			d.helped.Store(true)
		}
		return x.Drive(budget)
	}
	return false
}

// driveIdle drives the device until it has nothing to do, or for a while.
func (d *Device) driveIdle() {
	d.circle.drive(64, 0)
}

// patience is how long a call waits for packets to come back from peers.
const patience = qp.Instant(5 * time.Second)

// await drives what is driven by polling, until done reports true: the device,
// and x if that is an inline executor. It gives up with ErrBusy when peers do
// not take their packets before the limit.
func (d *Device) await(x work.Executor, limit qp.Instant, done func() bool) error {
	own, _ := x.(*work.Inline)
	for !done() {
		if instant() > limit {
			return fmt.Errorf("packets have not come back from the link: %w", ErrBusy)
		}
		did := d.inline != nil && d.Drive(0)
		if own != nil && own != d.inline {
			did = own.Drive(0) || did
		}
		if !did {
			runtime.Gosched()
		}
	}
	return nil
}

// settle returns when all runs and all frames that may refer to memory under a
// key that was just changed are over.
//
// Each run and each frame counts in the epoch in which it began. Turning the
// epoch twice and waiting for the old one to empty leaves nothing behind, not
// even a run that read the epoch before a turn and counted itself after it.
func (d *Device) settle() error {
	d.settling.Lock()
	defer d.settling.Unlock()
	for range 2 {
		old := int(d.epoch.Add(1)-1) & 1
		if err := d.await(nil, instant()+patience, func() bool { return d.settled(old) }); err != nil {
			return err
		}
	}
	return nil
}

func (d *Device) settled(epoch int) bool {
	all := true
	d.qps.all(func(q *QP) {
		all = all && q.send.idle(epoch) && q.recv.idle(epoch)
	})
	return all
}

// roomWakes is how many halves are woken when the link has room. To wake all of
// thousands would only have them take the room from each other, again and
// again, while the timers of the rest run out. Each half that has sent what it
// had wakes the next: see passRoom.
const roomWakes = 32

// awaitRoom wakes h when the link has room again.
func (d *Device) awaitRoom(h *half) {
	d.roomMu.Lock()
	defer d.roomMu.Unlock()
	if h.cramped {
		return
	}
	h.cramped, h.nextRoom = true, nil
	if d.room == nil {
		d.room = h
	} else {
		d.roomEnd.nextRoom = h
	}
	d.roomEnd = h
	d.cramped.Add(1)
}

// roomAgain is called by the link when it has room.
func (d *Device) roomAgain() { d.wakeCramped(roomWakes) }

// passRoom is called by a half that has nothing left to send.
func (d *Device) passRoom() {
	if d.cramped.Load() > 0 {
		d.wakeCramped(1)
	}
}

// wakeCramped wakes up to n of those that wait for room, the oldest first.
// Waking runs nothing, so the lock may be held.
func (d *Device) wakeCramped(n int) {
	d.roomMu.Lock()
	defer d.roomMu.Unlock()
	for ; d.room != nil && n > 0; n-- {
		h := d.room
		d.room, h.nextRoom, h.cramped = h.nextRoom, nil, false
		d.cramped.Add(-1)
		h.wake()
	}
}

// forgetRoom takes h, which goes away, from those who wait for room.
func (d *Device) forgetRoom(h *half) {
	d.roomMu.Lock()
	defer d.roomMu.Unlock()
	if !h.cramped {
		return
	}
	h.cramped = false
	d.cramped.Add(-1)
	var before *half
	for at := d.room; at != h; at = at.nextRoom {
		before = at
	}
	if before == nil {
		d.room = h.nextRoom
	} else {
		before.nextRoom = h.nextRoom
	}
	if d.roomEnd == h {
		d.roomEnd = before
	}
	h.nextRoom = nil
}

// Close ends the device. Queue pairs that are left are destroyed here. Busy means
// that some peer is slow to take packets into memory, which must stay; the
// device is closed all the same. Completion queues and channels may outlive it.
func (d *Device) Close() error {
	if d.closing.Swap(true) {
		return fmt.Errorf("device: %w", ErrClosed)
	}
	d.moveOut()
	d.rx.item.Close()
	var errs []error
	d.exclusively(func() {
		d.tx.close()
		errs = append(errs, d.link.Close()) // frames that nobody has received come back
	})
	d.groups.disband()
	limit := instant() + patience
	d.qps.all(func(q *QP) { errs = append(errs, q.destroy(limit)) })
	d.timers.stop()
	d.events.close()
	d.loops.Wait()
	if d.inline != nil {
		d.circle.leave(d, d.inline)
	}
	if d.shared {
		releaseQueue()
	}
	return errors.Join(errs...)
}
