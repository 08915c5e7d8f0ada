// Package pepolling is the sample pe_polling: a busy loop on the progress
// engine. Read it first; each of the others changes one thing.
package pepolling

import (
	"context"
	"io"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

// tasks is how many copies are made, each of stage.Size bytes.
const tasks = 16

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	return stage.Run(stage.Program{Name: "pe_polling", Pairs: tasks, Play: play}, args, out, errOut)
}

// polling is what the callbacks work on.
type polling struct {
	*stage.Stage // the device, the memory, and what was counted
	engine       *core.Engine
	dma          *dma.Context
}

// play runs from top to bottom; the clean-up is deferred, so that it happens in
// any case, in the opposite order, and the first error is the one kept.
func play(s *stage.Stage) (err error) {
	p := &polling{Stage: s}
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

	// Nothing happens by itself: each call makes some progress, and runs the
	// callback of one task at most.
	for s.Back() < tasks {
		p.engine.Progress()
	}
	s.Settle(tasks, 0, 0)
	return p.dma.Stop() // no task is left, so the context is idle at once
}

// start connects, configures and starts the context, in this order: all but
// the last step needs an idle context.
func (p *polling) start() error {
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

// submitAll allocates all tasks, then submits them all.
func (p *polling) submitAll() (err error) {
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
func (p *polling) alloc(i int) (*dma.Memcpy, error) {
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
func (p *polling) copied(t *dma.Memcpy) {
	p.Check(t)
	p.Release(t)
}

// failed is called for each task that did not succeed.
func (p *polling) failed(t *dma.Memcpy) {
	p.Fail(t)
	p.Release(t)
}
