// Package peasyncstop is the sample pe_async_stop: a context is stopped while
// tasks are in flight.
package peasyncstop

import (
	"context"
	"fmt"
	"io"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

const (
	tasks     = 16
	stopAfter = 8 // callbacks of tasks that succeeded
)

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	return stage.Run(stage.Program{Name: "pe_async_stop", Pairs: tasks, Play: play}, args, out, errOut)
}

// stopping is what the callbacks work on.
type stopping struct {
	*stage.Stage // the device, the memory, and what was counted
	engine       *core.Engine
	dma          *dma.Context
	inflight     int // tasks, when the context was stopped
}

func play(s *stage.Stage) (err error) {
	p := &stopping{Stage: s}
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

	// The context goes to stopping inside the eighth callback, and to idle when
	// every task has come back and is freed. Only Progress takes it there.
	for p.dma.State() != core.Idle {
		p.engine.Progress()
	}
	if want := tasks - stopAfter + 1; p.inflight != want {
		s.Keep(fmt.Errorf("stopped with %d tasks in flight, want %d: %w", p.inflight, want, core.ErrUnexpected))
	}
	s.Settle(s.Completed, 0, tasks-s.Completed)
	return nil
}

// start connects, configures and starts the context, in this order: all but
// the last step needs an idle context.
func (p *stopping) start() error {
	if err := p.engine.Connect(&p.dma.Context); err != nil {
		return err
	}
	p.dma.Value = p // user data, for callbacks that are no methods
	if err := p.dma.ConfigureMemcpy(p.copied, p.flushed, tasks); err != nil {
		return err
	}
	p.dma.SetStateFunc(p.moved)
	if err := p.dma.SetExecutor(p.Executor); err != nil {
		return err
	}
	return p.dma.Start() // nil: a DMA context runs at once
}

// submitAll allocates all tasks, then submits them all.
func (p *stopping) submitAll() (err error) {
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
func (p *stopping) alloc(i int) (*dma.Memcpy, error) {
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

// copied stops the context in the eighth call. This task is still in flight
// until the callback returns, as are those behind it: so the answer is that
// stopping has begun.
func (p *stopping) copied(t *dma.Memcpy) {
	p.Check(t)
	p.Release(t)
	if p.Completed == stopAfter {
		p.Want("stop with tasks in flight", p.dma.Stop(), core.ErrInProgress)
		p.inflight = p.dma.Inflight()
		p.Say("stopped with %d tasks in flight", p.inflight)
	}
}

// flushed is called for the tasks that the stop overtook. What they had asked
// for did not happen, and they are freed like any others: the context waits
// for that.
func (p *stopping) flushed(t *dma.Memcpy) {
	p.Count(t)
	p.Release(t)
}

// moved is the state callback. The context is in next already.
func (p *stopping) moved(c *core.Context, prev, next core.State) {
	p.Saw(c, prev, next)
	p.Say("the context was %v and is %v", prev, next)
}
