// Package dmalocalcopy is the sample dma_local_copy: a text is copied through
// lists of source and destination segments. What it does in which order is
// here; how the segments lie in memory is in segments.go, the flags in options.go.
package dmalocalcopy

import (
	"context"
	"fmt"
	"io"
	"runtime/trace"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	o := new(options)
	return stage.Run(stage.Program{
		Name: "dma_local_copy", Flags: o.declare, Check: o.check,
		Play: func(s *stage.Stage) error { return play(s, o) },
	}, args, out, errOut)
}

// local is what the sample works on.
type local struct {
	*stage.Stage
	*options
	engine *core.Engine
	dma    *dma.Context
	all    []*dma.Memcpy
}

// play goes through the phases. Each is a region in a trace of the program (go
// test -trace, or package runtime/trace), and the whole is one of its tasks.
func play(s *stage.Stage, o *options) (err error) {
	l := &local{Stage: s, options: o}
	s.Tasks = o.tasks
	ctx, whole := trace.NewTask(context.Background(), s.Name)
	defer whole.End()
	defer func() {
		trace.WithRegion(ctx, "clean up", func() { s.Clean(&err, l.cleanUp) })
	}()
	for _, phase := range []struct {
		name string
		do   func() error
	}{
		{"create", l.create},
		{"check the capabilities", l.checkCapabilities},
		{"start", l.start},
		{"lay out", l.layOut},
		{"refuse an overlap", l.refuseOverlap},
		{"copy", l.copy},
		{"compare", l.compare},
	} {
		trace.WithRegion(ctx, phase.name, func() { err = phase.do() })
		if err != nil {
			return fmt.Errorf("%s: %w", phase.name, err)
		}
	}
	s.Settle(o.tasks, 0, 0)
	return nil
}

func (l *local) create() (err error) {
	if l.engine, err = core.NewEngine(); err != nil {
		return err
	}
	if l.dma, err = dma.New(l.Device); err != nil {
		return err
	}
	return l.engine.Connect(&l.dma.Context)
}

// checkCapabilities compares what is asked for with what the device can do,
// before anything is made for it.
func (l *local) checkCapabilities() error {
	list, err := dma.MaxBufListLen(l.Device.Info())
	if err != nil {
		return err
	}
	size, err := dma.MaxBufSize(l.Device.Info())
	switch {
	case err != nil:
		return err
	case l.sources+l.destinations > int(list):
		return fmt.Errorf("%d source and %d destination segments, the device takes %d: %w",
			l.sources, l.destinations, list, core.ErrInvalidValue)
	case uint64(len(l.text)) > size:
		return fmt.Errorf("a text of %d bytes, the device copies %d: %w", len(l.text), size, core.ErrTooBig)
	case l.tasks > l.dma.MaxTasks():
		return fmt.Errorf("%d tasks, a context has %d: %w", l.tasks, l.dma.MaxTasks(), core.ErrInvalidValue)
	}
	return nil
}

func (l *local) start() error {
	if err := l.dma.ConfigureMemcpy(l.copied, l.failed, l.tasks); err != nil {
		return err
	}
	l.dma.SetStateFunc(l.Saw)
	if err := l.dma.SetExecutor(l.Executor); err != nil {
		return err
	}
	return l.dma.Start()
}

// copy submits all tasks, each with a range of its own in the trace, and
// progresses until they are back.
func (l *local) copy() error {
	for _, t := range l.all {
		if err := t.SubmitFlags(core.SubmitFlush | core.SubmitRangeProfiling); err != nil {
			return err
		}
	}
	for l.Back() < l.tasks {
		l.engine.Progress()
	}
	return nil
}

// The callbacks only count: the tasks stay the sample's until it has compared.
func (l *local) copied(*dma.Memcpy) { l.Completed++ }

func (l *local) failed(t *dma.Memcpy) { l.Fail(t) }

// cleanUp frees the tasks, and undoes create and start as far as they came.
func (l *local) cleanUp() (err error) {
	l.ReleaseOwned(l.all)
	if l.dma != nil {
		if l.dma.Engine() != nil {
			core.KeepFirst(&err, l.dma.Shutdown(context.Background()))
		}
		core.KeepFirst(&err, l.dma.Destroy())
	}
	if l.engine != nil {
		core.KeepFirst(&err, l.engine.Destroy())
	}
	return err
}
