// Package allocs guards verbs that must not allocate.
package allocs

import (
	"runtime"
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/race"
)

const (
	tries = 20
	runs  = 1000
)

// None fails the test if f allocates. It warms f up, then takes the best of
// twenty times a thousand runs, and stops at the first without: the counter
// belongs to the whole process, and a stray goroutine, or the runtime when
// goroutines wait for each other, can only add to it. Not one allocation in a
// thousand runs is allowed in the best try.
//
// Under the race detector, which allocates on its own, it skips the test.
func None(t testing.TB, f func()) {
	t.Helper()
	if race.Enabled {
		t.Skip("allocations are not counted under the race detector")
	}
	for range runs {
		f()
	}
	best := count(f)
	for range tries - 1 {
		if best == 0 {
			return
		}
		best = min(best, count(f))
	}
	if best > 0 {
		t.Errorf("got %d allocations in %d runs, want 0", best, runs)
	}
}

// count returns how many allocations the process made during a thousand runs.
func count(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs
}
