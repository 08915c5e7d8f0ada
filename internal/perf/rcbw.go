package perf

import (
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

// rcSlice is short enough for many slices in a second, and so long that filling
// and draining the queues at its ends does not count.
const rcSlice = 20 * time.Millisecond

// verifyEvery is how many slices are followed by one in which every message is
// verified as it arrives, and which is not timed.
const verifyEvery = 4

// bandwidth measures with a connected client.
func (r *rcRun) bandwidth(run RCRun, w Watch) (res RCResult, err error) {
	t := &r.a.test
	verified, before, err := r.totals()
	if err != nil {
		return res, err
	}
	rc, memcpy := &contender{run: r.timed, least: t.SendDepth * t.QPs}, &contender{run: r.memcpy}
	if err = r.takeTurns(run, w, rc, memcpy); err != nil {
		return res, err
	}
	bits := 8 * float64(t.Size)
	res = RCResult{
		Size: t.Size, Iterations: rc.did, Seconds: rc.took.Seconds(),
		Average: bits / median(rc.ns), Peak: bits / slices.Min(rc.ns), Rate: 1e3 / median(rc.ns),
		Copy: bits / median(memcpy.ns), Ratio: ratio(memcpy.ns, rc.ns),
		Checked: t.Verify,
	}
	res.AllocsPerOp = r.allocsPerOp(rc.n)
	if r.failed != nil {
		return res, r.failed
	}
	sum, after, err := r.totals()
	moved := after.minus(before)
	res.Verified, res.Retransmits, res.Lost = sum-verified, moved.Retransmits, moved.Lost
	return res, err
}

// takeTurns runs the contenders, for a time or for a number of messages.
func (r *rcRun) takeTurns(run RCRun, w Watch, all ...*contender) (err error) {
	if run.Iterations > 0 {
		err = takeCounted(r.ctx, run.Iterations, len(r.a.flows), w, all...)
	} else {
		err = takeTurns(r.ctx, run.Duration*(verifyEvery-1)/verifyEvery, rcSlice, w, all...)
	}
	core.KeepFirst(&r.failed, err)
	return r.failed
}

// timed is a slice whose time counts. Now and then one follows that does not,
// with every message verified.
func (r *rcRun) timed(n int) (int, time.Duration) {
	did, took := r.slice(n, false)
	if r.turns++; r.turns%verifyEvery == 1 && r.a.test.Verify {
		r.slice(n, true)
	}
	return did, took
}

// allocsPerOp returns the allocations of the process for each message of a
// slice, without those between slices.
func (r *rcRun) allocsPerOp(n int) float64 {
	r.allocs = math.Inf(1)
	defer func() { r.counts = false }()
	r.counts = true
	for range 5 { // the least counts, because strangers can only add to it
		r.slice(min(n, 1<<16), false)
	}
	return r.allocs
}

// memcpy is what messages are compared with: Go's copy to the same slots, on
// one goroutine. It copies the wrong pattern, so that a message that does not
// arrive is not made good.
func (r *rcRun) memcpy(n int) (int, time.Duration) {
	e, size := r.a, r.a.test.Size
	src, dst := e.expect, r.slots
	if e.test.pulls() {
		src = e.region
	}
	flows := len(e.flows)
	start := time.Now()
	for k := range n {
		m := uint64(k / flows)
		copy(dst[e.layout.slot(k%flows, m):][:size], src[e.layout.start(m):][:size])
	}
	took := time.Since(start)
	runtime.KeepAlive(dst)
	return n, took
}

// totals returns what both ends have verified and counted so far.
func (r *rcRun) totals() (verified uint64, t traffic, err error) {
	verified, t, err = r.b.report()
	return verified + r.a.verified, t.plus(r.a.port.traffic()), err
}
