package perf

import (
	"fmt"
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
	rc := &contender{run: r.timed, least: t.SendDepth * t.QPs, warm: r.forget}
	memcpy := &contender{run: r.memcpy}
	if err = r.takeTurns(run, w, rc, memcpy); err != nil {
		return res, err
	}
	bits := 8 * float64(t.Size)
	res = RCResult{
		Size: t.Size, Iterations: rc.did, Received: rc.did, Seconds: rc.took.Seconds(),
		Average: bits / median(rc.ns), Peak: bits / slices.Min(rc.ns), Rate: 1e3 / median(rc.ns),
		Copy: bits / median(memcpy.ns), Ratio: ratio(memcpy.ns, rc.ns),
		Checked: t.Verify,
	}
	lost := r.gone
	if res.Iterations = r.sent; lost == r.sent {
		return res, r.nothingCame()
	}
	res.AllocsPerOp = r.allocsPerOp(rc.n)
	if r.failed != nil {
		return res, r.failed
	}
	sum, after, err := r.totals()
	moved := after.minus(before)
	res.Verified, res.Retransmits, res.Lost = sum-verified, moved.Retransmits, moved.Lost
	res.Overflow, res.NoReceive = moved.Overflow, moved.NoReceive
	if r.a.lossy {
		res.Received, res.Lost = res.Iterations-lost, uint64(lost)
	}
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

// forget begins to count what is sent.
func (r *rcRun) forget() {
	r.sent, r.gone = 0, 0
	if r.trips != nil {
		r.trips.Reset()
	}
}

// nothingCame is the error of a measurement without a single message.
func (r *rcRun) nothingCame() error {
	if r.a.port.faulty != nil {
		return fmt.Errorf("none of %d messages of %d bytes came to %v whole: the faults that were asked for spare too few packets: %w",
			r.sent, r.a.test.Size, r.a.far.Addr, ErrRCPeer)
	}
	return fmt.Errorf("none of %d messages came to %v: does a firewall drop UDP port 4791, does NAT rewrite what the ICRC covers, "+
		"or is a packet larger than the network carries: %w", r.sent, r.a.far.Addr, ErrRCPeer)
}

// arrived returns how many of the messages of a slice came, at both ends, and
// the time for that at the rate at which each has received. A slice without any
// is as slow as one with one.
func (r *rcRun) arrived(sent int, took time.Duration) (int, time.Duration) {
	if r.a.test.IsLatency() {
		return sent, took
	}
	n, rate := 0, 0.0
	for _, c := range []arrival{r.a.arrival(), r.b.arrival()} {
		if c.N > 0 && c.Each > 0 {
			n += c.N
			rate += 1 / c.Each
		}
	}
	r.lost = max(0, sent-n)
	if n == 0 {
		return 1, took + quietTime
	}
	return n, time.Duration(float64(n) / rate)
}

// timed is a slice whose time counts. Now and then one follows that does not,
// with every message verified.
func (r *rcRun) timed(n int) (int, time.Duration) {
	did, took := r.slice(n, false)
	r.sent += r.posted
	r.gone += r.lost
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
