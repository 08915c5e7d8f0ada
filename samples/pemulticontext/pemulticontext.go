// Package pemulticontext is the sample pe_multi_context: four contexts take
// turns on one progress engine.
package pemulticontext

import (
	"context"
	"io"
	"slices"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

const (
	contexts = 4
	tasks    = 16 // of each
)

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	return stage.Run(stage.Program{Name: "pe_multi_context", Pairs: contexts * tasks, Play: play}, args, out, errOut)
}

// several is what the callbacks work on.
type several struct {
	*stage.Stage // the device, the memory, and what was counted
	engine       *core.Engine
	dma          [contexts]*dma.Context
	back         [contexts]int // tasks of each that came back
	lead         int           // the most that one was ever ahead of another
}

func play(s *stage.Stage) (err error) {
	p := &several{Stage: s}
	if p.engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer s.Clean(&err, p.engine.Destroy)
	for i := range p.dma { // all are connected before any starts
		if p.dma[i], err = dma.New(s.Device); err != nil {
			return err
		}
		defer s.Clean(&err, p.dma[i].Destroy)
		if err := p.engine.Connect(&p.dma[i].Context); err != nil {
			return err
		}
	}
	for i, d := range p.dma {
		if err := p.start(i, d); err != nil {
			return err
		}
		defer s.Clean(&err, func() error { return d.Shutdown(context.Background()) })
	}
	for _, d := range p.dma {
		if err := p.submitAll(d); err != nil {
			return err
		}
	}
	s.Say("%d tasks are submitted, %d are in flight", contexts*tasks, p.engine.Inflight())

	for s.Back() < contexts*tasks { // one loop serves all
		p.engine.Progress()
	}
	s.Settle(contexts*tasks, 0, 0)
	s.Say("the furthest that one context was ahead of another: %d completions", p.lead)
	for _, d := range p.dma {
		core.KeepFirst(&err, d.Stop())
	}
	return err
}

// start configures and starts context i. Its number is its user data.
func (p *several) start(i int, d *dma.Context) error {
	d.User = uint64(i)
	if err := d.ConfigureMemcpy(p.copied, p.failed, tasks); err != nil {
		return err
	}
	d.SetStateFunc(p.Saw)
	if err := d.SetExecutor(p.Executor); err != nil {
		return err
	}
	return d.Start()
}

// submitAll allocates the tasks of d, then submits them.
func (p *several) submitAll(d *dma.Context) (err error) {
	var all [tasks]*dma.Memcpy
	defer func() { p.ReleaseOwned(all[:]) }()
	for i := range all {
		if all[i], err = p.alloc(d, int(d.User)*tasks+i); err != nil {
			return err
		}
	}
	for _, t := range all {
		if err := t.Submit(); err != nil {
			return err
		}
	}
	return nil
}

// alloc takes a task of d for pair i of source and destination.
func (p *several) alloc(d *dma.Context, i int) (*dma.Memcpy, error) {
	src, dst, err := p.Pair(i)
	if err != nil {
		return nil, err
	}
	t, err := d.AllocMemcpy(src, dst)
	if err != nil {
		p.Drop(src, dst)
		return nil, err
	}
	t.User = uint64(i) + 1
	return t, nil
}

// copied is called for the tasks of every context. Which one it was stands in
// the user data of the task's context. Within and between contexts the order of
// completions is nobody's promise.
func (p *several) copied(t *dma.Memcpy) {
	p.back[t.Context().User]++
	p.lead = max(p.lead, slices.Max(p.back[:])-slices.Min(p.back[:]))
	p.Check(t)
	p.Release(t)
}

func (p *several) failed(t *dma.Memcpy) {
	p.Fail(t)
	p.Release(t)
}
