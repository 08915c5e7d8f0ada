// Package petaskresubmit is the sample pe_task_resubmit: a few tasks are
// submitted again and again, each time with other bufs, from their callback.
package petaskresubmit

import (
	"context"
	"io"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

const (
	tasks = 4
	pairs = 16 // of source and destination, one for each copy
)

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	return stage.Run(stage.Program{Name: "pe_task_resubmit", Pairs: pairs, Play: play}, args, out, errOut)
}

// again is what the callbacks work on.
type again struct {
	*stage.Stage // the device, the memory, and what was counted
	engine       *core.Engine
	dma          *dma.Context
	src, dst     [pairs]*mem.Buf
	next         int // the first pair that no task has had
}

func play(s *stage.Stage) (err error) {
	p := &again{Stage: s}
	s.Tasks = tasks
	if p.engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer s.Clean(&err, p.engine.Destroy)
	defer func() { s.Drop(p.src[p.next:]...); s.Drop(p.dst[p.next:]...) }() // what no task had

	if p.dma, err = dma.New(s.Device); err != nil {
		return err
	}
	defer s.Clean(&err, p.dma.Destroy)
	if err := p.start(); err != nil {
		return err
	}
	defer s.Clean(&err, func() error { return p.dma.Shutdown(context.Background()) })
	for i := range pairs {
		if p.src[i], p.dst[i], err = s.Pair(i); err != nil {
			return err
		}
	}
	for range tasks {
		if err := p.begin(); err != nil {
			return err
		}
	}
	s.Say("%d tasks are submitted for %d pairs of bufs", tasks, pairs)
	for p.engine.Inflight() > 0 { // a task counts until its callback has returned
		p.engine.Progress()
	}
	s.Settle(pairs, 0, 0)
	return p.dma.Stop()
}

// start connects, configures and starts the context, in this order: all but
// the last step needs an idle context.
func (p *again) start() error {
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

// take returns the next pair, for a task whose user data is then user. The pair
// belongs to the task from now on.
func (p *again) take() (src, dst *mem.Buf, user uint64) {
	src, dst = p.src[p.next], p.dst[p.next]
	p.next++
	return src, dst, uint64(p.next)
}

// begin allocates and submits one task.
func (p *again) begin() error {
	src, dst, user := p.take()
	t, err := p.dma.AllocMemcpy(src, dst)
	if err != nil {
		p.Drop(src, dst)
		return err
	}
	t.User = user
	if err := t.Submit(); err != nil {
		p.Release(t)
		return err
	}
	return nil
}

// copied gives back the bufs of the task, and submits it with the next ones
// while there are any: that saves a Free and an Alloc.
func (p *again) copied(t *dma.Memcpy) {
	p.Check(t)
	if p.next == pairs {
		p.Release(t)
		return
	}
	p.Drop(t.Src(), t.Dst())
	src, dst, user := p.take()
	p.Keep(t.SetSrc(src))
	p.Keep(t.SetDst(dst))
	t.User = user
	if err := t.Submit(); err != nil {
		p.Keep(err)
		p.Release(t)
	}
}

// failed is called for each task that did not succeed.
func (p *again) failed(t *dma.Memcpy) {
	p.Fail(t)
	p.Release(t)
}
