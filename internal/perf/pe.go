package perf

import (
	"context"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
)

// PEResult holds the figures of the progress engine. Times of tasks are those
// of a 64-byte memcpy on the inline executor, one task in flight.
type PEResult struct {
	ProgressIdle  float64 `json:"progress_idle_ns"`  // Progress with one context and nothing to do
	TaskRoundtrip float64 `json:"task_roundtrip_ns"` // alloc, submit, progress with callback, free
	Submit        float64 `json:"submit_ns"`         // only the call
	TrySubmit     float64 `json:"try_submit_ns"`     // only the call, with its checks
	Resubmit      float64 `json:"resubmit_ns"`       // submit from the callback, and progress
	FreeAlloc     float64 `json:"free_alloc_ns"`     // free, alloc and submit from the callback, and progress
	AllocsPerOp   float64 `json:"allocs_per_op"`     // of the round trip

	WakeResult
	ModesResult

	// Skipped says what could not be measured on this machine, and why.
	Skipped []string `json:"skipped"`
}

const (
	taskBytes = 64
	// callsAtOnce is how many calls of submit are timed together, so that
	// reading the clock costs each of them little.
	callsAtOnce = 128
	// verbSlice is shorter than the turns of a busy system's scheduler, so
	// that most slices pass undisturbed. One goroutine does all the work here,
	// and it needs no time to get going.
	verbSlice = 2 * time.Millisecond
)

// Parts of the time that MeasurePE is given.
const (
	partsOfVerbs = 1 // d for the calls of tasks
	partsOfWake  = 1 // d for wake-ups
	partsOfModes = 4 // d for the three modes at three rates
	partsOfPE    = partsOfVerbs + partsOfWake + partsOfModes
)

// PETakes returns about how long MeasurePE takes when it is given d.
func PETakes(d time.Duration) time.Duration { return partsOfPE * d }

// MeasurePE measures the calls of tasks for d, wake-ups for d, and the modes
// of waiting for 4*d. What the system cannot do is named in Skipped.
func MeasurePE(ctx context.Context, d time.Duration, w Watch) (res PEResult, err error) {
	res.Skipped = []string{}
	if err = res.measureVerbs(ctx, d, w.Part(0, partsOfVerbs, partsOfPE)); err != nil {
		return res, err
	}
	res.WakeResult, err = MeasureWake(ctx, partsOfWake*d, w.Part(partsOfVerbs, partsOfWake, partsOfPE))
	if err = res.skip("wake-ups", err); err != nil {
		return res, err
	}
	res.ModesResult, err = MeasureModes(ctx, partsOfModes*d, w.Part(partsOfVerbs+partsOfWake, partsOfModes, partsOfPE))
	return res, res.skip("modes", err)
}

// skip notes what is not supported, and passes on every other error.
func (r *PEResult) skip(what string, err error) error {
	if err != nil && core.StatusOf(err) == core.ErrNotSupported {
		r.Skipped = append(r.Skipped, what+": "+err.Error())
		return nil
	}
	return err
}

func (r *PEResult) measureVerbs(ctx context.Context, d time.Duration, w Watch) error {
	v := new(taskCalls)
	var err error
	if v.rig, err = newRig(nil, taskBytes, callsAtOnce, callsAtOnce, v.completed); err != nil {
		return err
	}
	err = v.measure(ctx, r, d, w)
	core.KeepFirst(&err, v.rig.close())
	core.KeepFirst(&err, v.failed)
	return err
}

// taskCalls makes the calls of tasks, in the way that each contender wants.
type taskCalls struct {
	rig    *rig
	after  func(*taskCalls, *dma.Memcpy) // what the callback does with the task
	todo   int                           // submits that callbacks still have to make
	done   int                           // tasks that came back
	failed error                         // the first failure, which ends every slice
}

func (v *taskCalls) measure(ctx context.Context, r *PEResult, d time.Duration, w Watch) error {
	idle := &contender{run: v.idle}
	trip := &contender{run: v.roundtrip}
	submit := &contender{run: func(n int) (int, time.Duration) { return v.submits(n, false) }}
	try := &contender{run: func(n int) (int, time.Duration) { return v.submits(n, true) }}
	again := &contender{run: func(n int) (int, time.Duration) { return v.chain(n, (*taskCalls).resubmit) }}
	anew := &contender{run: func(n int) (int, time.Duration) { return v.chain(n, (*taskCalls).freeAndAlloc) }}
	if err := takeTurns(ctx, d, verbSlice, w, idle, trip, submit, try, again, anew); err != nil {
		return err
	}
	r.ProgressIdle, r.TaskRoundtrip = median(idle.ns), median(trip.ns)
	r.Submit, r.TrySubmit = median(submit.ns), median(try.ns)
	r.Resubmit, r.FreeAlloc = median(again.ns), median(anew.ns)
	r.AllocsPerOp = allocsPerOp(trip)
	return v.failed
}

// completed is the callback of every task.
func (v *taskCalls) completed(t *dma.Memcpy) {
	v.done++
	if s := t.Status(); s != core.Success {
		v.check(s)
	}
	_ = t.Dst().ResetDataLen()
	v.after(v, t)
}

// check keeps the first error. It is small enough to be compiled into its
// callers, which are what is measured.
func (v *taskCalls) check(err error) {
	if err != nil && v.failed == nil {
		v.failed = err
	}
}

func (v *taskCalls) free(t *dma.Memcpy) { v.check(t.Free()) }

// alloc takes a task for pair i.
func (v *taskCalls) alloc(i int) *dma.Memcpy {
	p := &v.rig.pairs[i]
	t, err := v.rig.dma.AllocMemcpy(p.src, p.dst)
	v.check(err)
	return t
}

// progress goes on until n tasks have come back.
func (v *taskCalls) progress(n int) {
	for v.done < n && v.failed == nil {
		v.rig.engine.Progress()
	}
}

// idle asks an engine that has nothing to do.
func (v *taskCalls) idle(n int) (int, time.Duration) {
	e := v.rig.engine
	start := time.Now()
	for range n {
		e.Progress()
	}
	return n, time.Since(start)
}

// roundtrip takes a task from the pool and back, again and again.
func (v *taskCalls) roundtrip(n int) (int, time.Duration) {
	v.after, v.done = (*taskCalls).free, 0
	start := time.Now()
	for i := range n {
		if v.failed != nil {
			break
		}
		v.check(v.alloc(0).Submit())
		v.progress(i + 1)
	}
	return n, time.Since(start)
}

// submits times only the submit calls, and not what they lead to.
func (v *taskCalls) submits(n int, try bool) (did int, took time.Duration) {
	v.after = (*taskCalls).free
	var tasks [callsAtOnce]*dma.Memcpy
	for did < n && v.failed == nil {
		for i := range tasks {
			tasks[i] = v.alloc(i)
		}
		var err error
		start := time.Now()
		for _, t := range tasks {
			if try {
				err = t.TrySubmit()
			} else {
				err = t.Submit()
			}
			if err != nil {
				break
			}
		}
		took += time.Since(start)
		v.check(err)
		v.done = 0
		v.progress(callsAtOnce)
		did += callsAtOnce
	}
	return max(did, 1), took
}

// chain submits one task; its callback does what again says, n-1 times.
func (v *taskCalls) chain(n int, again func(*taskCalls, *dma.Memcpy)) (int, time.Duration) {
	v.after, v.done, v.todo = again, 0, n-1
	start := time.Now()
	v.check(v.alloc(0).Submit())
	v.progress(n)
	return n, time.Since(start)
}

func (v *taskCalls) resubmit(t *dma.Memcpy) {
	if v.todo--; v.todo < 0 {
		v.free(t)
		return
	}
	v.check(t.Submit())
}

func (v *taskCalls) freeAndAlloc(t *dma.Memcpy) {
	v.free(t)
	if v.todo--; v.todo >= 0 {
		v.check(v.alloc(0).Submit())
	}
}
