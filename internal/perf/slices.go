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

// tell tells the watcher which part is done.
func (w Watch) tell(part float64) {
	if w != nil {
		w(part)
	}
}

// step is tell for i of n things.
func (w Watch) step(i, n int) { w.tell(float64(i) / float64(n)) }

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
//
// The machine may be slower then than it is later, or faster: so what ends the
// measurement is the time that the slices took, and not their number, and those
// that turn out short are doubled.
func takeTurns(ctx context.Context, d, longest time.Duration, w Watch, all ...*contender) error {
	slice := sliceOf(d, longest, len(all))
	for _, c := range all {
		c.calibrate(slice)
	}
	ready(0, all)
	spent := time.Duration(0)
	for i := 1; i <= fewestRounds || spent < d; i++ {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, c := range all {
			took := c.turn()
			spent += max(took, time.Microsecond)
			if c.tooShort(took, slice) {
				c.n *= 2
			}
		}
		w.tell(min(1, float64(i)/fewestRounds, float64(spent)/float64(max(d, 1))))
	}
	return nil
}

// takeCounted is takeTurns for n times the given number of operations of each
// contender.
func takeCounted(ctx context.Context, n, times int, w Watch, all ...*contender) error {
	rounds := min(fewestRounds, n)
	ready(rounds, all)
	for i := range rounds {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		for _, c := range all {
			c.n = times * (n*(i+1)/rounds - n*i/rounds)
			c.turn()
		}
		w.step(i+1, rounds)
	}
	return nil
}

// ready tells the contenders that their first round is next.
func ready(rounds int, all []*contender) {
	for _, c := range all {
		c.ns = make([]float64, 0, rounds)
		if c.warm != nil {
			c.warm()
		}
	}
	runtime.GC() // so that it does not start in a slice
}

// sliceOf returns how long the slices of n contenders are in a measurement of d.
func sliceOf(d, longest time.Duration, n int) time.Duration {
	return max(time.Microsecond, min(longest, d/time.Duration(fewestRounds*n)))
}

// turn runs one slice.
func (c *contender) turn() (took time.Duration) {
	did, took := c.run(c.n)
	c.ns = append(c.ns, float64(took.Nanoseconds())/float64(did))
	c.did += did
	c.took += took
	return took
}

// tooShort reports whether a slice that took so long is to be longer.
func (c *contender) tooShort(took, slice time.Duration) bool { return took < slice/2 && c.n < 1<<30 }

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
			if c.tooShort(took, slice) {
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
