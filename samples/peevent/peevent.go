// Package peevent is the sample pe_event: the program sleeps in epoll until the
// progress engine has something to do.
package peevent

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
	return stage.Run(stage.Program{Name: "pe_event", Pairs: tasks, Play: play}, args, out, errOut)
}

// event is what the callbacks work on.
type event struct {
	*stage.Stage // the device, the memory, and what was counted
	engine       *core.Engine
	dma          *dma.Context
	sleeper      *poller
}

func play(s *stage.Stage) (err error) {
	p := &event{Stage: s}
	if p.engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer s.Clean(&err, p.engine.Destroy)

	// The descriptor is the same for the life of the engine, so it goes into
	// the program's own epoll set before there is any context.
	fd, err := p.engine.FD()
	if err != nil {
		return err
	}
	if p.sleeper, err = newPoller(fd); err != nil {
		return err
	}
	defer s.Clean(&err, p.sleeper.close)
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
	if err := p.loop(); err != nil {
		return err
	}
	s.Settle(tasks, 0, 0)
	return p.dma.Stop()
}

// loop progresses until nothing happens, then sleeps. What completes between
// the last Progress and the request is not lost: the request then makes the
// descriptor readable at once, so the wait needs no time limit.
func (p *event) loop() error {
	sleeps := 0
	for p.Back() < tasks {
		if p.engine.Progress() {
			continue
		}
		if err := p.engine.RequestNotification(); err != nil {
			return err
		}
		sleeps++
		err := p.sleeper.wait()
		core.KeepFirst(&err, p.engine.ClearNotification())
		if err != nil {
			return err
		}
	}
	p.Say("the program waited %d times", sleeps)
	return nil
}

// start connects, configures and starts the context, in this order: all but
// the last step needs an idle context.
func (p *event) start() error {
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
func (p *event) submitAll() (err error) {
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
func (p *event) alloc(i int) (*dma.Memcpy, error) {
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
func (p *event) copied(t *dma.Memcpy) {
	p.Check(t)
	p.Release(t)
}

// failed is called for each task that did not succeed.
func (p *event) failed(t *dma.Memcpy) {
	p.Fail(t)
	p.Release(t)
}
