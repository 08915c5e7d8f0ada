package notify

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestYieldsThatNobodyUsesGetRare(t *testing.T) {
	var c Courtesy
	var at []int // turns at which it yields
	for n := range 400 {
		if c.idle++; c.idle >= c.every {
			at = append(at, n)
			c.yielded(300 * time.Nanosecond)
		}
	}
	if at[0] != 0 || at[1]-at[0] != 1 || at[2]-at[1] != 3 {
		t.Errorf("yielded at turns %v, want the first ones close together", at[:3])
	}
	if last := len(at) - 1; at[last]-at[last-1] != rarest {
		t.Errorf("got %d turns from yield to yield, want %d", at[last]-at[last-1], rarest)
	}
	if c.yielded(3 * time.Microsecond); c.every != 1 {
		t.Errorf("got %d turns to the next yield after one that was used, want 1", c.every)
	}
}

// Two pollers that share a CPU take turns: neither spins for milliseconds for
// what the other one could not bring meanwhile.
func TestPollersThatShareACPUTakeTurns(t *testing.T) {
	const trips = 500
	var ball atomic.Uint32
	var looks [2]int
	var players sync.WaitGroup
	for side := range uint32(2) {
		players.Go(func() {
			runtime.LockOSThread() // for good: the thread ends with its goroutine
			bindToOne(t)
			var c Courtesy
			for n := range uint32(trips) {
				for ball.Load() != 2*n+side {
					looks[side]++
					c.Turn()
				}
				ball.Store(2*n + side + 1)
			}
		})
	}
	players.Wait()
	if n := (looks[0] + looks[1]) / trips; n > 20_000 {
		t.Errorf("got %d looks in vain per round trip, want some hundreds at most: spinning takes millions", n)
	}
}

// bindToOne binds the calling thread to the first CPU that it may use.
func bindToOne(t *testing.T) {
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Error(err)
		return
	}
	for cpu := range 1024 {
		if may.IsSet(cpu) {
			one.Set(cpu)
			break
		}
	}
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Error(err)
	}
}
