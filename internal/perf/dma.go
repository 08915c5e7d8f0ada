package perf

import (
	"bytes"
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/work"
)

// A DMAPoint is one set of parameters of a DMA measurement.
type DMAPoint struct {
	Size     int    `json:"size"`     // bytes of one copy
	Window   int    `json:"window"`   // tasks in flight
	Pairs    int    `json:"pairs"`    // of source and destination bufs, in turn
	Executor string `json:"executor"` // inline, tasklet or workqueue
	Workers  int    `json:"workers"`  // of a work queue, where 0 asks for GOMAXPROCS; 0 for others
}

// A DMAResult says how fast DMA tasks copied, beside Go's copy over the same
// bytes in the same order on one goroutine.
type DMAResult struct {
	DMAPoint
	GBytesPerSecond float64 `json:"gbytes_per_s"`        // 1e9 bytes a second
	MemcpyGBytes    float64 `json:"memcpy_gbytes_per_s"` // the same of Go's copy
	Ratio           float64 `json:"ratio"`               // the one to the other
	OpsPerSecond    float64 `json:"ops_per_s"`           // tasks that came back
	AllocsPerOp     float64 `json:"allocs_per_op"`       // of the whole process
	Verified        bool    `json:"verified"`            // the contents of every pair, before and after
}

// dmaSlice is long enough for workers to wake up, and for a window that drains
// at the end of a slice not to count.
const dmaSlice = 20 * time.Millisecond

// Check says which parameter is wrong, by its JSON key, and what its limit is.
// The executor is checked where it is made.
func (p DMAPoint) Check() error {
	switch {
	case p.Size < 1 || p.Size > 1<<30:
		return fmt.Errorf("size %d: 1 to %d bytes are possible: %w", p.Size, 1<<30, core.ErrInvalidValue)
	case p.Pairs < 1 || p.Pairs > 1<<16:
		return fmt.Errorf("pairs %d: 1 to %d are possible: %w", p.Pairs, 1<<16, core.ErrInvalidValue)
	case p.Window < 1 || p.Window > p.Pairs:
		return fmt.Errorf("window %d: 1 to %d are possible, one for each pair: %w", p.Window, p.Pairs, core.ErrInvalidValue)
	case p.Workers < 0 || p.Workers > 1024:
		return fmt.Errorf("workers %d: 1 to 1024 are possible, and 0 for one for each CPU: %w", p.Workers, core.ErrInvalidValue)
	case int64(p.Size)*int64(p.Pairs) > 8<<30:
		return fmt.Errorf("size %d: with %d pairs, %d bytes are possible: %w", p.Size, p.Pairs, int64(8<<30)/int64(p.Pairs), core.ErrInvalidValue)
	}
	return nil
}

// MeasureDMA copies for about d, half of it with tasks.
//
// Each of the window's tasks is submitted again from its callback with the
// next pair that is its own: number i takes pairs i, i+window, i+2*window and
// so on. So no pair is in flight twice, in whatever order tasks finish.
func MeasureDMA(ctx context.Context, p DMAPoint, d time.Duration, w Watch) (DMAResult, error) {
	res := DMAResult{DMAPoint: p}
	if err := p.Check(); err != nil {
		return res, err
	}
	x, err := work.Parse(p.Executor, p.Workers)
	if err != nil {
		return res, fmt.Errorf("%w: %w", core.ErrInvalidValue, err)
	}
	res.Workers = 0
	if q, ok := x.(*work.Workqueue); ok {
		res.Workers = q.Workers()
	}
	l := new(dmaLoop)
	l.rig, err = newRig(x, p.Size, p.Pairs, p.Window, l.completed)
	if err != nil {
		return res, err
	}
	err = l.measure(ctx, &res, d, w)
	core.KeepFirst(&err, l.rig.close())
	return res, err
}

// A dmaLoop keeps a window of copies in flight.
type dmaLoop struct {
	rig   *rig
	tasks []*dma.Memcpy

	todo, submitted, done int   // operations of the slice that runs
	failed                error // the first failure; it ends the slice
}

func (l *dmaLoop) measure(ctx context.Context, res *DMAResult, d time.Duration, w Watch) error {
	if err := l.takeTasks(res.Window); err != nil {
		return err
	}
	defer l.freeTasks()
	if err := l.verify(); err != nil {
		return err
	}
	tasks, memcpy := &contender{run: l.run}, &contender{run: l.memcpy}
	if err := takeTurns(ctx, d, dmaSlice, w, tasks, memcpy); err != nil {
		return err
	}
	res.AllocsPerOp = allocsPerOp(tasks)
	res.GBytesPerSecond = float64(res.Size) / median(tasks.ns)
	res.MemcpyGBytes = float64(res.Size) / median(memcpy.ns)
	res.Ratio = ratio(memcpy.ns, tasks.ns)
	res.OpsPerSecond = 1e9 / median(tasks.ns)
	if err := l.compare(); err != nil {
		return err
	}
	res.Verified = true
	return nil
}

func (l *dmaLoop) takeTasks(n int) error {
	for i := range n {
		p := &l.rig.pairs[i]
		t, err := l.rig.dma.AllocMemcpy(p.src, p.dst)
		if err != nil {
			return err
		}
		t.User = uint64(i)
		l.tasks = append(l.tasks, t)
	}
	return nil
}

func (l *dmaLoop) freeTasks() {
	for _, t := range l.tasks {
		_ = t.Free() // all are the application's here
	}
}

// run does at least n operations, a multiple of the number of pairs.
func (l *dmaLoop) run(n int) (int, time.Duration) {
	pairs := len(l.rig.pairs)
	start := time.Now()
	l.copies((n + pairs - 1) / pairs * pairs)
	return l.todo, time.Since(start)
}

// copies does n operations.
func (l *dmaLoop) copies(n int) {
	l.todo, l.submitted, l.done = n, 0, 0
	for _, t := range l.tasks {
		l.submit(t)
	}
	for l.done < l.todo && l.failed == nil {
		l.rig.engine.Progress()
	}
}

func (l *dmaLoop) submit(t *dma.Memcpy) {
	if l.submitted == l.todo {
		return
	}
	core.KeepFirst(&l.failed, t.Submit())
	l.submitted++
}

// completed is the callback: the task goes on with its next pair.
func (l *dmaLoop) completed(t *dma.Memcpy) {
	l.done++
	if s := t.Status(); s != core.Success {
		core.KeepFirst(&l.failed, s)
		return
	}
	_ = t.Dst().ResetDataLen()
	next := t.User + uint64(len(l.tasks))
	if next >= uint64(len(l.rig.pairs)) {
		next %= uint64(len(l.tasks))
	}
	t.User = next
	p := &l.rig.pairs[next]
	_ = t.SetSrc(p.src)
	_ = t.SetDst(p.dst)
	l.submit(t)
}

// memcpy is what tasks are compared with.
func (l *dmaLoop) memcpy(n int) (int, time.Duration) {
	pairs := l.rig.pairs
	rounds := (n + len(pairs) - 1) / len(pairs)
	start := time.Now()
	for range rounds {
		for i := range pairs {
			copy(pairs[i].dstBytes, pairs[i].srcBytes)
		}
	}
	took := time.Since(start)
	runtime.KeepAlive(pairs)
	return rounds * len(pairs), took
}

// verify empties the destinations, copies every pair with tasks and compares.
// It goes on with waves of one copy for each task: while all tasks run freely,
// one that falls behind may leave out pairs that are only its own.
func (l *dmaLoop) verify() error {
	for _, p := range l.rig.pairs {
		clear(p.dstBytes)
	}
	for range (len(l.rig.pairs) + len(l.tasks) - 1) / len(l.tasks) {
		l.copies(len(l.tasks))
	}
	return l.compare()
}

// compare reports the first pair whose destination is not like its source.
func (l *dmaLoop) compare() error {
	if l.failed != nil {
		return fmt.Errorf("copy every pair: %w", l.failed)
	}
	for i, p := range l.rig.pairs {
		if !bytes.Equal(p.srcBytes, p.dstBytes) {
			return fmt.Errorf("pair %d was not copied right: %w", i, core.ErrIOFailed)
		}
	}
	return nil
}
