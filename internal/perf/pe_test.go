package perf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

func TestVerbsAllCostSomething(t *testing.T) {
	var res PEResult
	if err := res.measureVerbs(t.Context(), short, nil); err != nil {
		t.Fatal(err)
	}
	wantPositive(t, struct {
		Idle      float64 `json:"idle"`
		Trip      float64 `json:"trip"`
		Submit    float64 `json:"submit"`
		TrySubmit float64 `json:"try"`
		Resubmit  float64 `json:"resubmit"`
		FreeAlloc float64 `json:"freeAlloc"`
	}{res.ProgressIdle, res.TaskRoundtrip, res.Submit, res.TrySubmit, res.Resubmit, res.FreeAlloc})
	wantNoAllocs(t, res.AllocsPerOp)
	if res.ProgressIdle > res.TaskRoundtrip || res.Submit > res.TaskRoundtrip {
		t.Errorf("a part costs more than the whole: %+v", res)
	}
}

// Every way of a task does as many operations as it says, and brings every
// task back to the pool.
func TestVerbsDoWhatTheyCount(t *testing.T) {
	v := new(taskCalls)
	var err error
	if v.rig, err = newRig(nil, taskBytes, callsAtOnce, callsAtOnce, v.completed); err != nil {
		t.Fatal(err)
	}
	for name, run := range map[string]func(n int) (int, time.Duration){
		"round trip":     v.roundtrip,
		"submit":         func(n int) (int, time.Duration) { return v.submits(n, false) },
		"try-submit":     func(n int) (int, time.Duration) { return v.submits(n, true) },
		"re-submit":      func(n int) (int, time.Duration) { return v.chain(n, (*taskCalls).resubmit) },
		"free and alloc": func(n int) (int, time.Duration) { return v.chain(n, (*taskCalls).freeAndAlloc) },
	} {
		for _, n := range []int{1, 2, callsAtOnce} {
			v.done = 0
			did, _ := run(n)
			if v.failed != nil || v.done != did || did < n {
				t.Errorf("%s of %d: %d counted, %d came back, failure %v", name, n, did, v.done, v.failed)
			}
			if got := v.rig.dma.Unfreed(); got != 0 {
				t.Errorf("%s of %d: %d tasks are out", name, n, got)
			}
		}
	}
	if err := v.rig.close(); err != nil {
		t.Error(err)
	}
}

func TestSkipNamesOnlyWhatIsNotSupported(t *testing.T) {
	var r PEResult
	if err := r.skip("modes", fmt.Errorf("one CPU: %w", core.ErrNotSupported)); err != nil {
		t.Errorf("got %v, want it noted", err)
	}
	if len(r.Skipped) != 1 || !strings.HasPrefix(r.Skipped[0], "modes: one CPU") {
		t.Errorf("noted %q", r.Skipped)
	}
	if err := r.skip("modes", core.ErrIOFailed); !errors.Is(err, core.ErrIOFailed) {
		t.Errorf("got %v, want %v", err, core.ErrIOFailed)
	}
	if err := r.skip("modes", nil); err != nil || len(r.Skipped) != 1 {
		t.Errorf("got %v and %q for no error", err, r.Skipped)
	}
}

func TestPulseServesWhatWasFired(t *testing.T) {
	p, err := newPulse()
	if err != nil {
		t.Fatal(err)
	}
	var waits []time.Duration
	p.served = func(d time.Duration) { waits = append(waits, d) }
	if p.engine.Progress() {
		t.Error("progress without an operation")
	}
	const n = pulseRing // all at once: as many as fit
	for range n {
		p.fire()
	}
	if got := p.engine.ProgressBatch(2 * n); got != n || len(waits) != n {
		t.Fatalf("%d completions, %d callbacks, want %d", got, len(waits), n)
	}
	if shortest := slices.Min(waits); shortest <= 0 {
		t.Errorf("an operation was served %v after it became ready", shortest)
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
	if len(waits) != n {
		t.Error("the flushed task was counted as served")
	}
}

// A producer must end when its consumer has failed, even with a full ring.
func TestFireDoesNotWaitForAConsumerThatQuit(t *testing.T) {
	p, err := newPulse()
	if err != nil {
		t.Fatal(err)
	}
	for range pulseRing {
		p.fire()
	}
	p.quit.Store(true)
	p.fire()
	if got := p.fired.Load(); got != pulseRing {
		t.Errorf("%d fired, want %d", got, pulseRing)
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
}

func TestPEEndsWithItsContext(t *testing.T) {
	for _, stop := range []float64{0, 1. / 6, 2. / 6, 0.5} {
		ctx, cancel := context.WithCancel(t.Context())
		res, err := MeasurePE(ctx, short, func(part float64) {
			if part > stop {
				cancel()
			}
		})
		cancel()
		if !errors.Is(err, context.Canceled) && len(res.Skipped) == 0 {
			t.Errorf("stopped after %v: got %v, want %v", stop, err, context.Canceled)
		}
	}
}
