package perf

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/internal/testkit/race"
)

func TestMain(m *testing.M) {
	if os.Getenv(peerVariable) != "" || os.Getenv(comchVariable) != "" {
		os.Exit(bePeer())
	}
	goleak.VerifyTestMain(m)
}

// short is enough time for every measurement to run its fewest rounds.
const short = 30 * time.Millisecond

// wantPositive checks the numbers of v, by their JSON keys: those named in may
// can be zero, all others must be above it.
func wantPositive(t *testing.T, v any, may ...string) {
	t.Helper()
	text, err := json.Marshal(v) // refuses infinities and what is not a number
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	zero := map[string]bool{}
	for _, key := range may {
		zero[key] = true
	}
	for key, value := range fields {
		n, ok := value.(float64)
		if ok && (n < 0 || n == 0 && !zero[key]) {
			t.Errorf("%s is %v: %s", key, n, text)
		}
	}
}

// wantNoAllocs wants no operation to allocate. The slices of a test are so short
// that what the runtime allocates beside them shows, once in a few operations.
func wantNoAllocs(t *testing.T, perOp float64) {
	t.Helper()
	if !race.Enabled && perOp >= 0.5 {
		t.Errorf("%v allocations per operation, want 0", perOp)
	}
}

func TestDMAOnEveryExecutor(t *testing.T) {
	for _, p := range []DMAPoint{
		{64, 1, 32, "inline", 0}, {4096, 8, 32, "inline", 0}, {1000, 3, 7, "inline", 0}, {1, 1, 1, "inline", 0},
		{4096, 8, 32, "tasklet", 0}, {65536, 8, 8, "workqueue", 2}, {512 << 10, 2, 5, "workqueue", 3},
	} {
		t.Run(fmt.Sprintf("%s-%d-window%d", p.Executor, p.Size, p.Window), func(t *testing.T) {
			parts := 0
			res, err := MeasureDMA(t.Context(), p, short, func(float64) { parts++ })
			if err != nil {
				t.Fatal(err)
			}
			wantPositive(t, res, "workers", "allocs_per_op")
			if res.DMAPoint != p || !res.Verified || parts < fewestRounds {
				t.Errorf("got %+v after %d parts, want a verified result of %+v", res, parts, p)
			}
			if got, want := res.OpsPerSecond*float64(p.Size)/1e9, res.GBytesPerSecond; math.Abs(got/want-1) > 1e-6 {
				t.Errorf("%v GB/s by operations, %v by bytes", got, want)
			}
			wantNoAllocs(t, res.AllocsPerOp)
		})
	}
}

func TestDMARefusesWhatCannotBeMeasured(t *testing.T) {
	good := DMAPoint{64, 1, 32, "inline", 0}
	for _, break_ := range []func(*DMAPoint){
		func(p *DMAPoint) { p.Size = 0 },
		func(p *DMAPoint) { p.Size = 1<<30 + 1 },
		func(p *DMAPoint) { p.Size = 1 << 30 }, // times 32 pairs
		func(p *DMAPoint) { p.Window = 0 },
		func(p *DMAPoint) { p.Window = 33 },
		func(p *DMAPoint) { p.Pairs = 0 },
		func(p *DMAPoint) { p.Pairs = 1<<16 + 1 },
		func(p *DMAPoint) { p.Executor = "thread" },
		func(p *DMAPoint) { p.Workers = -1 },
		func(p *DMAPoint) { p.Workers = 1025 },
	} {
		p := good
		break_(&p)
		if _, err := MeasureDMA(t.Context(), p, short, nil); !errors.Is(err, core.ErrInvalidValue) {
			t.Errorf("%+v: got %v, want %v", p, err, core.ErrInvalidValue)
		}
	}
}

func TestDMAEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := MeasureDMA(ctx, DMAPoint{64, 4, 32, "workqueue", 2}, time.Hour, func(float64) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

// A copy that went to the wrong place must not be measured as a good one.
func TestVerifySeesWrongContents(t *testing.T) {
	l := new(dmaLoop)
	var err error
	if l.rig, err = newRig(nil, 4096, 8, 2, l.completed); err != nil {
		t.Fatal(err)
	}
	if err := l.takeTasks(2); err != nil {
		t.Fatal(err)
	}
	if err := l.verify(); err != nil {
		t.Errorf("before: %v", err)
	}
	l.rig.pairs[3].src, l.rig.pairs[5].src = l.rig.pairs[5].src, l.rig.pairs[3].src
	if err := l.verify(); !errors.Is(err, core.ErrIOFailed) {
		t.Errorf("with two sources exchanged: got %v, want %v", err, core.ErrIOFailed)
	}
	l.freeTasks()
	if err := l.rig.close(); err != nil {
		t.Error(err)
	}
}

// However far behind a worker leaves one of the tasks, no pair is left out.
func TestVerifyCopiesThePairsOfALateTask(t *testing.T) {
	for _, window := range []int{3, 8, 32} {
		l := new(dmaLoop)
		var late *dma.Memcpy // the first task comes back when no other is left
		done := func(t *dma.Memcpy) {
			if t == l.tasks[0] {
				late = t
			} else {
				l.completed(t)
			}
			if late != nil && l.done == l.todo-1 {
				t, late = late, nil
				l.completed(t)
			}
		}
		var err error
		if l.rig, err = newRig(nil, 64, 32, window, done); err != nil {
			t.Fatal(err)
		}
		if err := l.takeTasks(window); err != nil {
			t.Fatal(err)
		}
		if err := l.verify(); err != nil {
			t.Errorf("window %d: %v", window, err)
		}
		l.freeTasks()
		if err := l.rig.close(); err != nil {
			t.Error(err)
		}
	}
}

// A task that fails ends the slice, and the measurement says why.
func TestAFailedTaskEndsTheSlice(t *testing.T) {
	l := new(dmaLoop)
	var err error
	if l.rig, err = newRig(nil, 4096, 8, 4, l.completed); err != nil {
		t.Fatal(err)
	}
	if err := l.takeTasks(4); err != nil {
		t.Fatal(err)
	}
	p := &l.rig.pairs[6]
	dst := p.dst
	p.dst = p.src // a copy onto itself, without room behind the data
	if l.run(1000); l.failed == nil {
		t.Error("no failure was seen")
	}
	p.dst = dst
	l.freeTasks()
	if err := l.rig.close(); err != nil {
		t.Error(err)
	}
}

func TestRigGivesEverythingBack(t *testing.T) {
	r, err := newRig(nil, 64, 4, 2, func(t *dma.Memcpy) { _ = t.Free() })
	if err != nil {
		t.Fatal(err)
	}
	if got := len(r.pairs); got != 4 {
		t.Errorf("%d pairs, want 4", got)
	}
	if err := r.close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := newRig(nil, 64, 4, 1<<30, func(*dma.Memcpy) {}); err == nil {
		t.Error("too many tasks were accepted")
	}
}

func TestSetupIsComplete(t *testing.T) {
	s := ReadSetup([]string{"gantry", "bench"}, "v1")
	for name, value := range map[string]string{
		"command": s.Command, "version": s.Version, "CPU": s.CPU, "kernel": s.Kernel, "Go": s.Go,
	} {
		if value == "" {
			t.Errorf("%s is empty", name)
		}
	}
	if s.Command != "gantry bench" || s.Cores != runtime.NumCPU() || s.GOMAXPROCS < 1 || s.Date.IsZero() {
		t.Errorf("got %+v", s)
	}
}
