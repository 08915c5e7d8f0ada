// Package pereactive is the sample pe_reactive: the whole program is in
// callbacks. The context that begins to run submits the tasks, the last task
// stops the context, and the context that is idle is destroyed.
package pereactive

import (
	"fmt"
	"io"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

const tasks = 16

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	return stage.Run(stage.Program{Name: "pe_reactive", Pairs: tasks, Play: play}, args, out, errOut)
}

// reactive is what the callbacks work on.
type reactive struct {
	*stage.Stage // the device, the memory, and what was counted
	engine       *core.Engine
	dma          *dma.Context
	submitted    int
	gone         bool // the context is destroyed
}

func play(s *stage.Stage) (err error) {
	p := &reactive{Stage: s}
	if p.engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer s.Clean(&err, p.engine.Destroy)
	if p.dma, err = dma.New(s.Device); err != nil {
		return err
	}
	if err := p.start(); err != nil {
		s.Clean(&err, p.dma.Destroy) // it never ran, so no callback will
		return err
	}
	for !p.gone {
		p.engine.Progress() // all that is left to do here
	}
	s.Settle(tasks, 0, 0)
	return nil
}

// start connects, configures and starts the context, in this order: all but
// the last step needs an idle context.
func (p *reactive) start() error {
	if err := p.engine.Connect(&p.dma.Context); err != nil {
		return err
	}
	p.dma.Value = p // user data, for callbacks that are no methods
	if err := p.dma.ConfigureMemcpy(p.copied, p.failed, tasks); err != nil {
		return err
	}
	p.dma.SetStateFunc(p.moved)
	if err := p.dma.SetExecutor(p.Executor); err != nil {
		return err
	}
	return p.dma.Start() // nil: a DMA context runs at once
}

// moved is the state callback. The context is in next already, so what next
// allows is allowed here.
func (p *reactive) moved(c *core.Context, prev, next core.State) {
	p.Saw(c, prev, next)
	p.Say("the context is %v", next)
	switch next {
	case core.Running: // called from inside Start
		p.submitAll()
	case core.Idle: // called from inside Progress, and never from within copied
		p.Keep(p.dma.Destroy())
		p.gone = true
	case core.Starting: // contexts that start at once are never in it
		p.Keep(fmt.Errorf("the context is %v: %w", next, core.ErrUnexpected))
	case core.Stopping: // the stop in copied; idle follows
	}
}

// submitAll allocates and submits tasks. If that fails there is nothing to wait
// for but those submitted, and without any the context is stopped here.
func (p *reactive) submitAll() {
	for i := range tasks {
		t, err := p.alloc(i)
		if err == nil {
			if err = t.Submit(); err != nil {
				p.Release(t)
			}
		}
		if err != nil {
			p.Keep(err)
			break
		}
		p.submitted++
	}
	p.Say("%d tasks are submitted from inside the state callback", p.submitted)
	p.stopAfterLast()
}

// stopAfterLast stops the context when every task has come back. It is called
// from callbacks only, so the way to idle is left to Progress.
func (p *reactive) stopAfterLast() {
	if p.Back() == p.submitted {
		p.Want("stop from a callback", p.dma.Stop(), core.ErrInProgress)
	}
}

// alloc takes a task for pair i of source and destination.
func (p *reactive) alloc(i int) (*dma.Memcpy, error) {
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

// copied stops the context after the last task.
func (p *reactive) copied(t *dma.Memcpy) {
	p.Check(t)
	p.Release(t)
	p.stopAfterLast()
}

func (p *reactive) failed(t *dma.Memcpy) {
	p.Fail(t)
	p.Release(t)
	p.stopAfterLast()
}
