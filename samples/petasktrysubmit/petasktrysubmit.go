// Package petasktrysubmit is the sample pe_task_try_submit: the submit that
// checks the whole task first.
package petasktrysubmit

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
	return stage.Run(stage.Program{Name: "pe_task_try_submit", Pairs: tasks, Play: play}, args, out, errOut)
}

// strict is what the callbacks work on.
type strict struct {
	*stage.Stage // the device, the memory, and what was counted
	engine       *core.Engine
	dma          *dma.Context
}

func play(s *stage.Stage) (err error) {
	p := &strict{Stage: s}
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
func (p *strict) start() error {
	if err := p.engine.Connect(&p.dma.Context); err != nil {
		return err
	}
	p.dma.Value = p // user data, for callbacks that are no methods
	if err := p.dma.ConfigureMemcpy(p.copied, p.failed, tasks); err != nil {
		return err
	}
	p.dma.SetStateFunc(p.Saw)
	if err := p.dma.SetExecutor(p.Executor); err != nil {
		return err
	}
	return p.dma.Start() // nil: a DMA context runs at once
}

// submitAll allocates all tasks, then submits them with a check of each: its
// bufs, their maps, lengths, rights and places. That is for development. It
// takes time, and a program that is right does not need it.
func (p *strict) submitAll() (err error) {
	var all [tasks]*dma.Memcpy
	defer func() { p.ReleaseOwned(all[:]) }() // what an error left to the sample
	for i := range all {
		if all[i], err = p.alloc(i); err != nil {
			return err
		}
	}
	for _, t := range all {
		if err := t.TrySubmit(); err != nil {
			return err
		}
	}
	p.Say("%d tasks of %d bytes are submitted", tasks, stage.Size)
	return nil
}

// alloc takes a task for pair i of source and destination.
func (p *strict) alloc(i int) (*dma.Memcpy, error) {
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

// copied is called by Progress for each task that succeeded. The task is the
// sample's again: compare what it wrote, then give back its bufs and the task.
func (p *strict) copied(t *dma.Memcpy) {
	p.Check(t)
	p.Release(t)
}

// failed is called for each task that did not succeed.
func (p *strict) failed(t *dma.Memcpy) {
	p.Fail(t)
	p.Release(t)
}
