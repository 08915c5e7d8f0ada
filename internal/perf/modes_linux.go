package perf

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"github.com/gantry-rdma/gantry/core"
)

const (
	fewestModeRounds = 5
	longestModeSlice = 200 * time.Millisecond
	fewestOps        = 20 // of one slice
)

// MeasureModes measures the three ways to wait at three rates, for about d in
// all. It needs two CPUs: core.ErrNotSupported if there is one.
//
// Operations come from a goroutine on a CPU of its own, which looks at the
// clock all the time. Everything else of the process is bound to another CPU
// meanwhile, and what it uses of that is the cost of the mode: all threads
// count, since Engine.Run parks in Go's poller, which other threads serve.
func MeasureModes(ctx context.Context, d time.Duration, w Watch) (res ModesResult, err error) {
	res = noModes()
	cpus, all, err := allowedCPUs()
	if err != nil {
		return res, err
	}
	if len(cpus) < 2 || runtime.GOMAXPROCS(0) < 2 {
		return res, fmt.Errorf("%d CPUs and GOMAXPROCS %d, and both must be 2 or more: %w",
			len(cpus), runtime.GOMAXPROCS(0), core.ErrNotSupported)
	}
	if err := pinProcess(only(cpus[0])); err != nil {
		return res, err
	}
	defer func() { core.KeepFirst(&err, pinProcess(all)) }()
	for i, rate := range modeRates {
		part := w.Part(i, 1, len(modeRates))
		if err := res.measureRate(ctx, rate, d/time.Duration(len(modeRates)), cpus[1], part); err != nil {
			return res, err
		}
	}
	return res, nil
}

// measureRate lets the modes take turns at one rate.
func (r *ModesResult) measureRate(ctx context.Context, rate int, d time.Duration, producerCPU int, w Watch) error {
	m, err := newModes(producerCPU)
	if err != nil {
		return err
	}
	each := d / 3
	slice := min(longestModeSlice, each/fewestModeRounds)
	rounds := max(fewestModeRounds, int(each/max(slice, 1)))
	poll := &modeSamples{mode: modePoll, consume: m.poll}
	event := &modeSamples{mode: modeEvent, consume: m.event}
	run := &modeSamples{mode: modeRun, consume: m.run}
	all := []*modeSamples{poll, event, run}
	n := max(fewestOps, int(slice.Seconds()*float64(rate)))
	for i := range rounds {
		for _, s := range all {
			if ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if err == nil {
				err = m.slice(ctx, s, rate, n)
			}
		}
		w.step(i+1, rounds)
	}
	core.KeepFirst(&err, m.pulse.close())
	for _, s := range all {
		r.Modes = append(r.Modes, ModeResult{
			Mode: s.mode, Rate: rate, Achieved: median(s.rate), CPUPercent: median(s.cpu),
			P50: median(s.p50), P99: median(s.p99),
		})
	}
	r.RunToBetter = append(r.RunToBetter, RunRatio{
		Rate: rate, P50: ratio(run.p50, better(poll.p50, event.p50)), CPU: ratio(run.cpu, better(poll.cpu, event.cpu)),
	})
	return err
}

// modeSamples holds the figures of one mode, one of each for every slice.
type modeSamples struct {
	mode                string
	consume             func(ctx context.Context, n int64) error
	rate, cpu, p50, p99 []float64
}

// modes is one consumer in its three forms.
type modes struct {
	pulse       *pulse
	fd          int
	producerCPU int
	latency     *hdrhistogram.Histogram // of one slice, in nanoseconds
}

func newModes(producerCPU int) (*modes, error) {
	p, err := newPulse()
	if err != nil {
		return nil, err
	}
	m := &modes{pulse: p, producerCPU: producerCPU, latency: newLatencies()}
	p.served = func(waited time.Duration) { _ = m.latency.RecordValue(int64(waited)) }
	if m.fd, err = p.engine.FD(); err != nil {
		_ = p.close() // the first error says why
		return nil, err
	}
	return m, nil
}

// slice serves n operations that come at the given rate.
func (m *modes) slice(ctx context.Context, s *modeSamples, rate, n int) error {
	m.latency.Reset()
	produced := make(chan produced, 1)
	start, cpu := time.Now(), cpuTime(unix.RUSAGE_SELF)
	go func() { produced <- m.produce(rate, n) }()
	err := s.consume(ctx, m.pulse.taken.Load()+int64(n))
	wall := time.Since(start)
	if err != nil {
		m.pulse.quit.Store(true)
	}
	p := <-produced
	core.KeepFirst(&err, p.err)
	cpu = cpuTime(unix.RUSAGE_SELF) - cpu - p.cpu
	s.rate = append(s.rate, float64(n)/wall.Seconds())
	s.cpu = append(s.cpu, 100*max(0, cpu.Seconds())/wall.Seconds())
	s.p50 = append(s.p50, float64(m.latency.ValueAtQuantile(50))/1e3)
	s.p99 = append(s.p99, float64(m.latency.ValueAtQuantile(99))/1e3)
	return err
}

// produced is what a producer used, and why it failed.
type produced struct {
	cpu time.Duration
	err error
}

// produce fires n operations, one each time it is due, on a CPU of its own.
// The thread ends with the goroutine, because it stays locked. A producer that
// cannot be bound goes on all the same: someone waits for the operations.
func (m *modes) produce(rate, n int) (p produced) {
	runtime.LockOSThread()
	before := cpuTime(unix.RUSAGE_THREAD)
	p.err = pinThread(m.producerCPU)
	start, each := time.Now(), time.Second/time.Duration(rate)
	for i := 0; i < n && !m.pulse.quit.Load(); i++ {
		for due := time.Duration(i+1) * each; time.Since(start) < due; {
		}
		m.pulse.fire()
	}
	p.cpu = cpuTime(unix.RUSAGE_THREAD) - before
	return p
}

// poll asks all the time.
func (m *modes) poll(_ context.Context, until int64) error {
	for m.pulse.taken.Load() < until {
		m.pulse.engine.Progress()
	}
	return nil
}

// event blocks in poll(2) whenever there is nothing to do: the loop of a
// program that has its own event loop.
func (m *modes) event(_ context.Context, until int64) error {
	e := m.pulse.engine
	for m.pulse.taken.Load() < until {
		if err := e.RequestNotification(); err != nil {
			return err
		}
		if err := waitReadable(m.fd); err != nil {
			return err
		}
		if err := e.ClearNotification(); err != nil {
			return err
		}
		for e.Progress() {
		}
	}
	return nil
}

// run leaves it to the engine.
func (m *modes) run(ctx context.Context, until int64) error {
	return m.pulse.engine.Run(ctx, func() bool { return m.pulse.taken.Load() >= until })
}
