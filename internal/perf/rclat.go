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
	c := &contender{run: r.timed, warm: r.forget, least: 8}
	if err = r.takeTurns(run, w, c); err != nil {
		return res, err
	}
	res = latencyOf(r.trips, !t.pulls())
	res.Size, res.Iterations, res.Checked = t.Size, c.did, t.Verify
	lost := r.gone
	if lost == r.sent {
		return res, r.nothingCame()
	}
	res.AllocsPerOp = r.allocsPerOp(c.n)
	if r.failed != nil {
		return res, r.failed
	}
	sum, after, err := r.totals()
	moved := after.minus(before)
	res.Verified, res.Retransmits, res.Lost = sum-verified, moved.Retransmits, moved.Lost
	if r.a.lossy {
		res.Lost = uint64(lost)
	}
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
// long they take. One clock reading ends a trip and begins the next; what is read
// is the time since the first, which costs half as much as the time of day does.
func (r *rcRun) alternate(n int) {
	f := &r.a.flows[0]
	back := &f.got
	if r.a.test.pulls() {
		back = &f.done
	}
	arrived := func() bool { return *back == f.goal }
	begin, last := time.Now(), time.Duration(0)
	if r.a.lossy {
		arrived = func() bool { return r.a.due == 0 || r.late(begin, last) }
	}
	for range n {
		if r.a.lossy {
			f.floor, r.a.due = f.goal, 1
		}
		r.a.sendOne(0)
		if r.fail(r.drive(arrived)); r.failed != nil {
			return
		}
		now := time.Since(begin)
		if r.a.lossy && r.isLost(now-last) {
			last = now
			continue
		}
		if !r.a.each {
			_ = r.trips.RecordValue(int64(now - last))
		}
		last = now
	}
}

// How long an answer is awaited over UC and UD: for so many times the usual
// trip, but at least and at most so long. Before the first answer it is the
// most.
const (
	tripsOfPatience = 20
	mostPatience    = 200 * time.Millisecond
	leastPatience   = 50 * time.Millisecond // as a machine with much to do may let one wait
	shortPatience   = 10 * time.Millisecond // instead, where losses are injected
)

// late reports, when asked every few turns, whether it is too late for the
// answer to what was sent so long after the beginning.
func (r *rcRun) late(begin time.Time, sent time.Duration) bool {
	const turns = 16
	r.asked++
	if !r.a.test.Events && r.asked%turns != 0 {
		return false
	}
	patience := mostPatience
	if r.usual > 0 {
		least := leastPatience
		if r.a.port.faulty != nil {
			least = shortPatience
		}
		patience = min(max(tripsOfPatience*r.usual, least), mostPatience)
	}
	return time.Since(begin)-sent > patience
}

// isLost gives up a message that has no answer yet, and takes note of the time
// of one that has.
func (r *rcRun) isLost(took time.Duration) bool {
	if r.a.due > 0 {
		r.a.due = 0
		r.lost++
		return true
	}
	const memory = 8
	if r.usual == 0 {
		r.usual = took
	}
	r.usual += (took - r.usual) / memory
	return false
}

// newLatencies makes a histogram from a nanosecond to ten seconds, with an
// error below 0.1 %.
func newLatencies() *hdrhistogram.Histogram { return hdrhistogram.New(1, 10_000_000_000, 3) }
