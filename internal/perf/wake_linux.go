package perf

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/notify"
)

const (
	wakesOfSlice = 50
	// untilBlocked is more than a thread needs from its last word to being
	// asleep in poll.
	untilBlocked = 30 * time.Microsecond
)

// A placement says where the two threads run. It has no CPUs if the system
// does not let us choose.
type placement struct {
	name          string
	waiter, waker int // CPUs, or -1
}

// MeasureWake measures each placement that this machine has, for about d in
// all.
//
// A thread waits in poll(2), alternately on the descriptor of an engine and on
// a bare eventfd, in slices of 50 wake-ups each. Another thread wakes it once
// it sleeps, and reads the clock just before.
func MeasureWake(ctx context.Context, d time.Duration, w Watch) (res WakeResult, err error) {
	res.Wakes = []WakePoint{}
	all := placements()
	for i, p := range all {
		point, err := measureWake(ctx, p, d/time.Duration(len(all)), w.Part(i, 1, len(all)))
		if err != nil {
			return res, err
		}
		res.Wakes = append(res.Wakes, point)
	}
	first := res.Wakes[0]
	res.NotifyP50, res.EventfdP50, res.Ratio = first.NotifyP50, first.EventfdP50, first.Ratio
	return res, nil
}

// placements returns what is possible here, the one with two CPUs first.
func placements() (all []placement) {
	cpus, set, err := allowedCPUs()
	if err != nil || pin(0, set) != nil { // a sandbox may refuse even what is there already
		return []placement{{"unpinned", -1, -1}}
	}
	if len(cpus) > 1 {
		all = append(all, placement{"two_cpus", cpus[0], cpus[1]})
	}
	return append(all, placement{"same_cpu", cpus[0], cpus[0]})
}

// The two kinds of wake-up.
const (
	viaEngine = iota
	viaEventfd
	wakeKinds
)

// A wake is the two threads and what they share.
type wake struct {
	pulse    *pulse
	engineFD int
	eventfd  int

	slices chan int     // to the waiter: the kind of the next slice
	over   chan error   // from the waiter, after each slice
	asleep atomic.Int64 // how often the waiter went to sleep
	sent   atomic.Int64 // when it was woken last, since the epoch of the pulse

	seen  [wakeKinds]*hdrhistogram.Histogram // until poll returned
	taken [wakeKinds]*hdrhistogram.Histogram // until the waiter had what it waited for
	slice *hdrhistogram.Histogram            // seen, in this slice

	medians [wakeKinds][]float64 // of seen, in each slice
}

func measureWake(ctx context.Context, at placement, d time.Duration, w Watch) (point WakePoint, err error) {
	k := &wake{slices: make(chan int), over: make(chan error, 1), slice: newLatencies()}
	for i := range wakeKinds {
		k.seen[i], k.taken[i] = newLatencies(), newLatencies()
	}
	if k.eventfd, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return point, fmt.Errorf("create an eventfd: %w: %w", core.ErrOperatingSystem, err)
	}
	defer unix.Close(k.eventfd)
	if k.pulse, err = newPulse(); err != nil {
		return point, err
	}
	defer func() { core.KeepFirst(&err, k.pulse.close()) }()
	if k.engineFD, err = k.pulse.engine.FD(); err != nil {
		return point, err
	}
	ended := make(chan struct{})
	go func() { defer close(ended); k.waiter(at.waiter) }()
	waker := make(chan error, 1)
	go func() { waker <- k.waker(ctx, at.waker, d, w) }()
	err = <-waker
	close(k.slices)
	<-ended
	return k.point(at.name), err
}

// point gathers what was measured.
func (k *wake) point(placement string) WakePoint {
	at := func(h *hdrhistogram.Histogram, q float64) float64 { return float64(h.ValueAtQuantile(q)) }
	return WakePoint{
		Placement:    placement,
		Wakes:        k.seen[viaEngine].TotalCount(),
		NotifyP50:    at(k.seen[viaEngine], 50),
		NotifyP99:    at(k.seen[viaEngine], 99),
		NotifyTaken:  at(k.taken[viaEngine], 50),
		EventfdP50:   at(k.seen[viaEventfd], 50),
		EventfdP99:   at(k.seen[viaEventfd], 99),
		EventfdTaken: at(k.taken[viaEventfd], 50),
		Ratio:        ratio(k.medians[viaEngine], k.medians[viaEventfd]),
	}
}

// waker goes through the slices. The first of each kind is to warm up.
func (k *wake) waker(ctx context.Context, cpu int, d time.Duration, w Watch) error {
	runtime.LockOSThread() // for good: the thread ends with its goroutine
	if cpu >= 0 {
		if err := pinThread(cpu); err != nil {
			return err
		}
	}
	start := time.Now()
	for round := 0; round <= fewestRounds || time.Since(start) < d; round++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if round == 1 {
			k.forget()
		}
		for kind := range wakeKinds {
			if err := k.oneSlice(kind); err != nil {
				return err
			}
		}
		w.step(int(min(time.Since(start), d)), int(max(d, 1)))
	}
	return nil
}

// forget drops what was measured so far.
func (k *wake) forget() {
	for kind := range wakeKinds {
		k.seen[kind].Reset()
		k.taken[kind].Reset()
		k.medians[kind] = nil
	}
}

// oneSlice wakes the waiter 50 times in one way.
func (k *wake) oneSlice(kind int) error {
	before := k.asleep.Load()
	k.slice.Reset()
	k.slices <- kind
	one := [8]byte{1, 0, 0, 0, 0, 0, 0, 1} // not zero in either byte order
	for i := range int64(wakesOfSlice) {
		for k.asleep.Load() == before+i {
			if len(k.over) > 0 { // the waiter failed
				return <-k.over
			}
			notify.Nap(untilBlocked / 3)
		}
		notify.Nap(untilBlocked)
		k.sent.Store(int64(time.Since(k.pulse.epoch)))
		if kind == viaEngine {
			k.pulse.fire()
		} else if _, err := unix.Write(k.eventfd, one[:]); err != nil {
			return fmt.Errorf("write to the eventfd: %w: %w", core.ErrOperatingSystem, err)
		}
	}
	err := <-k.over
	k.medians[kind] = append(k.medians[kind], float64(k.slice.ValueAtQuantile(50)))
	return err
}

// waiter sleeps and is woken until there are no more slices.
func (k *wake) waiter(cpu int) {
	runtime.LockOSThread() // for good
	var pinned error
	if cpu >= 0 {
		pinned = pinThread(cpu)
	}
	for kind := range k.slices {
		err := pinned
		for i := 0; i < wakesOfSlice && err == nil; i++ {
			err = k.sleep(kind)
		}
		k.over <- err
	}
}

// sleep waits for one wake-up and notes how long it took.
func (k *wake) sleep(kind int) (err error) {
	fd := k.eventfd
	if kind == viaEngine {
		fd = k.engineFD
		if err = k.pulse.engine.RequestNotification(); err != nil {
			return err
		}
	}
	k.asleep.Add(1)
	if err = waitReadable(fd); err != nil {
		return err
	}
	seen := time.Since(k.pulse.epoch)
	if kind == viaEngine {
		err = k.pulse.engine.ClearNotification()
		for k.pulse.engine.Progress() {
		}
	} else {
		var b [8]byte
		_, err = unix.Read(fd, b[:])
	}
	taken := time.Since(k.pulse.epoch)
	sent := time.Duration(k.sent.Load())
	_ = k.slice.RecordValue(int64(seen - sent))
	_ = k.seen[kind].RecordValue(int64(seen - sent))
	_ = k.taken[kind].RecordValue(int64(taken - sent))
	return err
}
