package perf

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

func TestPEIsComplete(t *testing.T) {
	cpus, before, err := allowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	procs, last := runtime.GOMAXPROCS(0), 0.0
	res, err := MeasurePE(t.Context(), short, func(part float64) { last = part })
	if err != nil {
		t.Fatal(err)
	}
	wantPositive(t, res, "allocs_per_op")
	wantNoAllocs(t, res.AllocsPerOp)
	for _, w := range res.Wakes {
		wantPositive(t, w)
	}
	if len(cpus) < 2 || procs < 2 {
		if len(res.Modes) != 0 || len(res.Skipped) != 1 {
			t.Errorf("on one CPU: %+v", res)
		}
		t.Skipf("%d CPUs: the rest needs two", len(cpus))
	}
	if len(res.Modes) != 3*len(modeRates) || len(res.Wakes) != 2 || len(res.Skipped) != 0 || last != 1 {
		t.Errorf("watched until %v, got %+v", last, res)
	}
	for i, r := range res.RunToBetter {
		wantPositive(t, r, "cpu")
		if r.Rate != modeRates[i] || len(res.RunToBetter) != len(modeRates) {
			t.Errorf("got ratios %+v", res.RunToBetter)
		}
	}
	for _, m := range res.Modes {
		wantPositive(t, m, "cpu_percent") // the clock of the CPU's use may be coarse
		if m.P99 < m.P50 || m.Achieved > 1.05*float64(m.Rate) {
			t.Errorf("got %+v", m)
		}
	}
	if _, after, err := allowedCPUs(); err != nil || after != before || runtime.GOMAXPROCS(0) != procs {
		t.Errorf("the CPUs were not given back: %v, GOMAXPROCS %d", err, runtime.GOMAXPROCS(0))
	}
}

func TestModesNeedTwoCPUs(t *testing.T) {
	procs := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(procs)
	if _, err := MeasureModes(t.Context(), short, nil); !errors.Is(err, core.ErrNotSupported) {
		t.Errorf("got %v, want %v", err, core.ErrNotSupported)
	}
}

// A consumer that gives up takes its producer with it.
func TestAModeThatFailsEndsItsProducer(t *testing.T) {
	cpus, _, err := allowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	m, err := newModes(cpus[0])
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("enough")
	s := &modeSamples{consume: func(context.Context, int64) error { return why }}
	if err := m.slice(t.Context(), s, 1000, int(time.Hour/time.Millisecond)); !errors.Is(err, why) {
		t.Errorf("got %v, want %v", err, why)
	}
	if err := m.pulse.close(); err != nil {
		t.Error(err)
	}
}

// A waiter that cannot wait ends the measurement with its reason.
func TestAWaiterThatFailsIsReported(t *testing.T) {
	at := placement{"nowhere", 1 << 9, -1} // a CPU that no machine of ours has
	if runtime.NumCPU() > 1<<9 {
		t.Skip("this machine has very many CPUs")
	}
	if _, err := measureWake(t.Context(), at, short, nil); !errors.Is(err, core.ErrOperatingSystem) {
		t.Errorf("got %v, want %v", err, core.ErrOperatingSystem)
	}
	at = placement{"nowhere", -1, 1 << 9}
	if _, err := measureWake(t.Context(), at, short, nil); !errors.Is(err, core.ErrOperatingSystem) {
		t.Errorf("got %v, want %v", err, core.ErrOperatingSystem)
	}
}
