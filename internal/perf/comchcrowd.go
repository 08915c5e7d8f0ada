package perf

import (
	"context"
	"errors"
	"sync"
	"time"
)

// measureCrowd measures several channels at once, each with a goroutine here
// and a process of its own, beside one of them.
func measureCrowd(ctx context.Context, command comchCommand, p ComchPoint, pairs int, w Watch) (c ComchCrowd, err error) {
	c = ComchCrowd{Pairs: pairs, Mode: p.Mode, Size: p.Size}
	var meters []*comchMeter
	defer func() {
		for _, m := range meters {
			err = m.close(err)
		}
	}()
	for i := range pairs {
		m, err := newComchMeter(ctx, command, i)
		if err != nil {
			return c, err
		}
		meters = append(meters, m)
		if err = m.prepare(p); err != nil {
			return c, err
		}
	}
	one := &contender{run: meters[0].stream, least: p.Window}
	one.calibrate(crowdTime)
	var all, alone []float64
	for i := range crowdRounds {
		if err = failures(meters); err != nil {
			return c, err // what one.n is says nothing
		}
		did, took := meters[0].stream(one.n)
		alone = append(alone, float64(took.Nanoseconds())/float64(did))
		did, took = together(meters, (*comchMeter).stream, max(p.Window, one.n/pairs))
		all = append(all, float64(took.Nanoseconds())/float64(did))
		w.step(i+1, 2*crowdRounds)
	}
	trips := max(16, one.n/(64*pairs))
	for i := range crowdRounds {
		together(meters, (*comchMeter).ping, trips)
		w.step(crowdRounds+i+1, 2*crowdRounds)
	}
	lat := newLatencies()
	for _, m := range meters {
		lat.Merge(m.trips)
	}
	c.Rate, c.One = 1e9/median(all), 1e9/median(alone)
	c.Ratio = ratio(alone, all)
	c.P50, c.P99 = float64(lat.ValueAtQuantile(50))/2e3, float64(lat.ValueAtQuantile(99))/2e3
	return c, failures(meters)
}

// failures returns what has failed on any of the meters.
func failures(meters []*comchMeter) (err error) {
	for _, m := range meters {
		err = errors.Join(err, m.failed)
	}
	return err
}

// together runs slices of n operations on all meters at the same time.
func together(meters []*comchMeter, run func(m *comchMeter, n int) (int, time.Duration), n int) (did int, took time.Duration) {
	var wg sync.WaitGroup
	counts := make([]int, len(meters))
	start := time.Now()
	for i, m := range meters {
		wg.Go(func() { counts[i], _ = run(m, n) })
	}
	wg.Wait()
	took = time.Since(start)
	for _, n := range counts {
		did += n
	}
	return did, took
}
