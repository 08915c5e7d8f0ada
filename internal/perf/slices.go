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

	warm  func() // called when it is warm, before the first round, or nil
	least int    // operations of a slice, at least, however long they take

	n    int           // operations of one slice
	ns   []float64     // of one operation, in each round
	did  int           // operations of all rounds
	took time.Duration // by them
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
	}
	return takeRounds(ctx, rounds, w, nil, all...)
}

// takeCounted is takeTurns for n times the given number of operations of each
// contender.
func takeCounted(ctx context.Context, n, times int, w Watch, all ...*contender) error {
	rounds := min(fewestRounds, n)
	return takeRounds(ctx, rounds, w, func(i int) int { return times * (n*(i+1)/rounds - n*i/rounds) }, all...)
}

// takeRounds runs the rounds. With many, round i has slices of many(i).
func takeRounds(ctx context.Context, rounds int, w Watch, many func(i int) int, all ...*contender) error {
	for _, c := range all {
		c.ns = make([]float64, 0, rounds)
		if c.warm != nil {
			c.warm()
		}
	}
	runtime.GC() // so that it does not start in a slice
	for i := range rounds {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, c := range all {
			if many != nil {
				c.n = many(i)
			}
			did, took := c.run(c.n)
			c.ns = append(c.ns, float64(took.Nanoseconds())/float64(did))
			c.did += did
			c.took += took
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
// until the time is long enough to be believed, twice in a row.
func (c *contender) calibrate(slice time.Duration) {
	const enough = 2
	for c.n = max(1, c.least); ; c.n *= 2 {
		each := math.Inf(1)
		believed := 0
		for believed < enough {
			did, took := c.run(c.n)
			each = min(each, float64(took)/float64(did))
			if took < slice/2 && c.n < 1<<30 {
				break
			}
			believed++
		}
		if believed == enough {
			c.n = max(1, c.least, int(float64(slice)/max(each, 0.1)))
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
