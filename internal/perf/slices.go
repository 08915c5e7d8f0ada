package perf

import (
	"context"
	"math"
	"runtime"
	"slices"
	"time"
)

// fewestRounds is how many slices of each kind make a measurement, at least.
const fewestRounds = 15

// A contender is one of several things that are compared.
type contender struct {
	// run does at least n operations and returns how many it did and the time
	// they took.
	run func(n int) (did int, took time.Duration)

	n  int       // operations of one slice
	ns []float64 // of one operation, in each round
}

// A Watch is told now and then which part of a measurement is done, from 0 to
// 1. It may be nil.
type Watch func(part float64)

// step tells the watcher that i of n things are done.
func (w Watch) step(i, n int) {
	if w != nil {
		w(float64(i) / float64(n))
	}
}

// Part returns a Watch for some of several measurements: those from number
// first on, when the whole is of as many.
func (w Watch) Part(first, many, of int) Watch {
	if w == nil {
		return nil
	}
	return func(part float64) { w((float64(first) + part*float64(many)) / float64(of)) }
}

// takeTurns runs the contenders one after the other, slice by slice, for about
// d in all, at least 15 rounds. No slice is longer than the longest. Before
// that each is run until the size of its slice is known, which warms it up.
func takeTurns(ctx context.Context, d, longest time.Duration, w Watch, all ...*contender) error {
	slice, rounds := plan(d, longest, len(all))
	for _, c := range all {
		c.calibrate(slice)
		c.ns = make([]float64, 0, rounds)
	}
	runtime.GC() // so that it does not start in a slice
	for i := range rounds {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, c := range all {
			did, took := c.run(c.n)
			c.ns = append(c.ns, float64(took.Nanoseconds())/float64(did))
		}
		w.step(i+1, rounds)
	}
	return nil
}

// plan divides d into rounds of one slice for each of n contenders.
func plan(d, longest time.Duration, n int) (slice time.Duration, rounds int) {
	slice = min(longest, d/time.Duration(fewestRounds*n))
	slice = max(slice, time.Microsecond)
	return slice, max(fewestRounds, int(d/(slice*time.Duration(n))))
}

// calibrate finds how many operations take one slice, by doubling their number
// until the time is long enough to be believed.
func (c *contender) calibrate(slice time.Duration) {
	for c.n = 1; ; c.n *= 2 {
		did, took := c.run(c.n)
		if took >= slice/2 || c.n >= 1<<30 {
			each := max(float64(took)/float64(did), 0.1)
			c.n = max(1, int(float64(slice)/each))
			return
		}
	}
}

// median returns the middle of v, or the mean of the two in the middle, and 0
// of nothing. It leaves v as it is.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(v))
	if m := len(s) / 2; len(s)%2 == 1 {
		return s[m]
	}
	return (s[len(s)/2-1] + s[len(s)/2]) / 2
}

// ratio returns the median of a[i]/b[i]: how a compares to b when both are
// taken from the same moment. Pairs without a quotient do not count.
func ratio(a, b []float64) float64 {
	var q []float64
	for i := range min(len(a), len(b)) {
		if r := a[i] / b[i]; !math.IsInf(r, 0) && !math.IsNaN(r) {
			q = append(q, r)
		}
	}
	return median(q)
}

// allocsPerOp returns the allocations of the whole process for each operation
// of run: the least of five tries, because strangers can only add to it.
func allocsPerOp(c *contender) float64 {
	best := math.Inf(1)
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		did, _ := c.run(c.n)
		runtime.ReadMemStats(&after)
		best = min(best, float64(after.Mallocs-before.Mallocs)/float64(did))
	}
	return best
}
