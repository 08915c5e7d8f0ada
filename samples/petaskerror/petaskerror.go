// Package petaskerror is the sample pe_task_error: a task fails, its context
// stops by itself, and what was behind the task is flushed.
package petaskerror

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

const (
	tasks = 255 // the values that a byte has beside 0
	wrong = 2   // the task that fails
)

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	return stage.Run(stage.Program{Name: "pe_task_error", Pairs: tasks, Play: play}, args, out, errOut)
}

// failing is what the callbacks work on.
type failing struct {
	*stage.Stage // the device, the memory, and what was counted
	engine       *core.Engine
	dma          *dma.Context
	all          [tasks]*dma.Memcpy
}

func play(s *stage.Stage) (err error) {
	p := &failing{Stage: s}
	if p.engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer s.Clean(&err, p.engine.Destroy)
	if p.dma, err = dma.New(s.Device); err != nil {
		return err
	}
	defer s.Clean(&err, p.dma.Destroy)
	if err := p.start(); err != nil {
		return err
	}
	defer s.Clean(&err, func() error { return p.dma.Shutdown(context.Background()) })
	if err := p.submitAll(); err != nil {
		return err
	}

	// Every task comes back, whatever happened to it. But the context is not
	// idle: it waits until all are freed, which the callbacks did not do.
	for s.Back() < tasks {
		p.engine.Progress()
	}
	s.Settle(s.Completed, 1, tasks-1-s.Completed)
	flying, unfreed, state := p.dma.Inflight(), p.dma.Unfreed(), p.dma.State()
	s.Say("%d tasks are in flight, %d are not freed, the context is %v", flying, unfreed, state)
	if flying != 0 || unfreed != tasks || state != core.Stopping {
		s.Keep(fmt.Errorf("want 0 and %d, and %v: %w", tasks, core.Stopping, core.ErrUnexpected))
	}

	s.ReleaseOwned(p.all[:])
	for p.dma.State() != core.Idle {
		p.engine.Progress()
	}
	return nil
}

// start connects, configures and starts the context, in this order: all but
// the last step needs an idle context.
func (p *failing) start() error {
	if err := p.engine.Connect(&p.dma.Context); err != nil {
		return err
	}
	p.dma.Value = p // user data, for callbacks that are no methods
	if err := p.dma.ConfigureMemcpy(p.Check, p.failed, tasks); err != nil {
		return err
	}
	p.dma.SetStateFunc(p.Saw)
	if err := p.dma.SetExecutor(p.Executor); err != nil {
		return err
	}
	return p.dma.Start() // nil: a DMA context runs at once
}

// submitAll submits all tasks in a row, one of them with nothing to copy. The
// fast Submit does not look, so it is the engine that finds out, later; and a
// queue takes as many tasks as the pool has, so none is refused.
func (p *failing) submitAll() (err error) {
	defer func() {
		if err != nil {
			p.ReleaseOwned(p.all[:])
		}
	}()
	for i := range p.all {
		if p.all[i], err = p.alloc(i); err != nil {
			return err
		}
	}
	if err := p.all[wrong].Src().SetDataLen(0); err != nil {
		return err
	}
	for _, t := range p.all {
		if err := t.Submit(); err != nil {
			return err
		}
	}
	p.Say("%d tasks are submitted, task %d without data", tasks, wrong)
	return nil
}

// alloc takes a task for pair i of source and destination.
func (p *failing) alloc(i int) (*dma.Memcpy, error) {
	src, dst, err := p.Pair(i)
	if err != nil {
		return nil, err
	}
	t, err := p.dma.AllocMemcpy(src, dst)
	if err != nil {
		p.Drop(src, dst)
		return nil, err
	}
	t.User = uint64(i) + 1 // user data of the task: what its bytes are
	return t, nil
}

// failed is called for the wrong task and for those that were flushed. Both
// have failed to do I/O; a flushed task says so in addition.
func (p *failing) failed(t *dma.Memcpy) {
	p.Count(t)
	p.Want("a task of a context that stops", t.Status(), core.ErrIOFailed)
	if flushed := errors.Is(t.Status(), core.ErrFlushed); flushed == (t == p.all[wrong]) {
		p.Keep(fmt.Errorf("task %d: flushed is %v: %w", t.User-1, flushed, core.ErrUnexpected))
	}
}
