//go:build linux

package dma

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-rdma/gantry/core"
)

// The loop of an event-driven program, many times: whoever finishes a copy
// must wake an engine that sleeps, and a submit must wake one that was armed.
func TestEventLoopNeverSleepsThroughACompletion(t *testing.T) {
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	onEvery(t, 1, 64<<10, func(t *testing.T, r *rig) {
		r.want("configure", r.dma.ConfigureMemcpy(r.succeeded, r.fell, 1), nil)
		r.want("start", r.dma.Start(), nil)
		fd, err := r.engine.FD()
		r.want("descriptor", err, nil)
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for i := range rounds {
			r.want("request", r.engine.RequestNotification(), nil)
			size := 1 + i*13%(16<<10)
			r.want("submit", r.alloc(r.src(0, size, 1), r.dst(32<<10, size, 1)).Submit(), nil)
			for len(r.ok) <= i {
				n, err := unix.Poll(poll, 5000)
				if n == 0 && err != unix.EINTR {
					t.Fatalf("asleep after %d of %d", i, rounds)
				}
				r.want("clear", r.engine.ClearNotification(), nil)
				for r.engine.Progress() {
				}
				r.want("request", r.engine.RequestNotification(), nil)
			}
			r.want("clear", r.engine.ClearNotification(), nil)
		}
	})
}

// The same for the transitions: a stop is finished without polling.
func TestEventLoopSeesAStopThrough(t *testing.T) {
	onEvery(t, 4, 4096, func(t *testing.T, r *rig) {
		fd, err := r.engine.FD()
		r.want("descriptor", err, nil)
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for i := range 200 {
			r.want("start", r.dma.Start(), nil)
			for range i % 4 {
				r.want("submit", r.alloc(r.src(0, 64, 1), r.dst(1024+i%4*64, 64, 1)).SubmitFlags(core.SubmitNone), nil)
				r.engine.Progress()
			}
			if err := r.dma.Stop(); err != nil {
				r.want("stop", err, core.ErrInProgress)
			}
			for r.dma.State() != core.Idle {
				r.want("request", r.engine.RequestNotification(), nil)
				if n, err := unix.Poll(poll, 5000); n == 0 && err != unix.EINTR {
					t.Fatalf("round %d: asleep while %v", i, r.dma.State())
				}
				r.want("clear", r.engine.ClearNotification(), nil)
				for r.engine.Progress() {
				}
			}
		}
	})
}
