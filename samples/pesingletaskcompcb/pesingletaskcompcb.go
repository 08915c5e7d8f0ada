// Package pesingletaskcompcb is the sample pe_single_task_comp_cb: one function
// is called for tasks that succeeded and for tasks that failed.
package pesingletaskcompcb

import (
	"context"
	"io"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

const tasks = 16

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	return stage.Run(stage.Program{Name: "pe_single_task_comp_cb", Pairs: tasks, Play: play}, args, out, errOut)
}

// single is what the callbacks work on.
type single struct {
	*stage.Stage // the device, the memory, and what was counted
	engine       *core.Engine
	dma          *dma.Context
}

func play(s *stage.Stage) (err error) {
	p := &single{Stage: s}
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
	for s.Back() < tasks {
		p.engine.Progress()
	}
	s.Settle(tasks, 0, 0)
	return p.dma.Stop()
}

// start connects, configures and starts the context, in this order: all but
// the last step needs an idle context.
func (p *single) start() error {
	if err := p.engine.Connect(&p.dma.Context); err != nil {
		return err
	}
	p.dma.Value = p // user data, for callbacks that are no methods
	if err := p.dma.ConfigureMemcpy(p.completed, p.completed, tasks); err != nil {
		return err
	}
	p.dma.SetStateFunc(p.Saw)
	if err := p.dma.SetExecutor(p.Executor); err != nil {
		return err
	}
	return p.dma.Start() // nil: a DMA context runs at once
}

// submitAll allocates all tasks, then submits them all.
func (p *single) submitAll() (err error) {
	var all [tasks]*dma.Memcpy
	defer func() { p.ReleaseOwned(all[:]) }() // what an error left to the sample
	for i := range all {
		if all[i], err = p.alloc(i); err != nil {
			return err
		}
	}
	for _, t := range all {
		if err := t.Submit(); err != nil {
			return err
		}
	}
	p.Say("%d tasks of %d bytes are submitted", tasks, stage.Size)
	return nil
}

// alloc takes a task for pair i of source and destination.
func (p *single) alloc(i int) (*dma.Memcpy, error) {
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

// completed is both callbacks. The status of the task, which is valid until the
// task is submitted again, tells which of the two it is now.
func (p *single) completed(t *dma.Memcpy) {
	if t.Status() == core.Success {
		p.Check(t)
	} else {
		p.Fail(t)
	}
	p.Release(t)
}
