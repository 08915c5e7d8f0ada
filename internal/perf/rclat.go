package perf

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// latency measures with a connected client.
func (r *rcRun) latency(run RCRun, w Watch) (res RCLatency, err error) {
	t := &r.a.test
	verified, before, err := r.totals()
	if err != nil {
		return res, err
	}
	c := &contender{run: r.timed, warm: r.trips.Reset, least: 8}
	if err = r.takeTurns(run, w, c); err != nil {
		return res, err
	}
	res = latencyOf(r.trips, !t.pulls())
	res.Size, res.Iterations, res.Checked = t.Size, c.did, t.Verify
	res.AllocsPerOp = r.allocsPerOp(c.n)
	if r.failed != nil {
		return res, r.failed
	}
	sum, after, err := r.totals()
	moved := after.minus(before)
	res.Verified, res.Retransmits, res.Lost = sum-verified, moved.Retransmits, moved.Lost
	return res, err
}

// latencyOf reads the figures of round trips, or of half of them.
func latencyOf(h *hdrhistogram.Histogram, half bool) RCLatency {
	us := 1e-3
	if half {
		us /= 2
	}
	at := func(q float64) float64 { return us * float64(h.ValueAtQuantile(q)) }
	return RCLatency{
		Min: us * float64(h.Min()), Typical: at(50), Average: us * h.Mean(), P99: at(99), P999: at(99.9),
		Max: us * float64(h.Max()), Deviation: us * h.StdDev(),
	}
}

// alternate moves n messages one at a time, each with its answer, and notes how
// long they take. One clock reading ends a trip and begins the next.
func (r *rcRun) alternate(n int) {
	f := &r.a.flows[0]
	back := &f.got
	if r.a.test.pulls() {
		back = &f.done
	}
	arrived := func() bool { return *back == f.goal }
	last := time.Now()
	for range n {
		r.a.sendOne(0)
		if r.fail(r.drive(arrived)); r.failed != nil {
			return
		}
		now := time.Now()
		if !r.a.each {
			_ = r.trips.RecordValue(int64(now.Sub(last)))
		}
		last = now
	}
}

// newLatencies makes a histogram from a nanosecond to ten seconds, with an
// error below 0.1 %.
func newLatencies() *hdrhistogram.Histogram { return hdrhistogram.New(1, 10_000_000_000, 3) }
