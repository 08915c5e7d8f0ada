// Package dmacopydpu is the sample dma_copy_dpu: the process on the DPU that
// copies memory of the one on the host.
package dmacopydpu

import (
	"context"
	"fmt"
	"io"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	p := new(dpu)
	return stage.Run(stage.Program{
		Name: "dma_copy_dpu", Side: stage.DPU, Supports: mem.ImportPCISupported,
		Pair: [2]string{"dma_copy_host", "dma_copy_dpu"}, Flags: p.files.Flags,
		Play: func(s *stage.Stage) error { p.Stage = s; return p.play() },
	}, args, out, errOut)
}

// dpu is what the callbacks work on.
type dpu struct {
	*stage.Stage
	files  stage.Exchange
	host   *mem.Map // imported
	engine *core.Engine
	dma    *dma.Context
}

func (p *dpu) play() (err error) {
	ctx, cancel := p.Waiting()
	defer cancel()
	p.Say("waiting for %s", p.files.Descriptor)
	blob, addr, n, err := p.files.Read(ctx)
	if err != nil {
		return p.Missed(err, "there is no file "+p.files.Descriptor+": start dma_copy_host with the same files; nothing came")
	}
	if err := p.checkLength(n); err != nil {
		return err
	}
	if p.host, err = mem.Import(0, nil, blob, p.Device); err != nil {
		return err
	}
	defer p.Clean(&err, p.host.Destroy)
	if err := p.Memory(n, 2); err != nil {
		return err
	}
	if err := p.copy(addr, n); err != nil {
		return err
	}
	p.Tally(1, 0, 0)
	if p.Completed == 0 {
		return nil // the error is kept; the host waits for somebody else
	}
	return p.files.Remove() // this tells the host
}

// checkLength compares what the host offers with what a task can do.
func (p *dpu) checkLength(n int) error {
	size, err := dma.MaxBufSize(p.Device.Info())
	switch {
	case err != nil:
		return err
	case n == 0:
		return fmt.Errorf("the host has 0 bytes to copy: %w", core.ErrEmpty)
	case uint64(n) > size:
		return fmt.Errorf("the host has %d bytes, the device copies %d at a time: %w", n, size, core.ErrTooBig)
	}
	return nil
}

// copy makes a context with one task, and has it copy everything.
func (p *dpu) copy(addr mem.Addr, n int) (err error) {
	p.Tasks = 1
	if p.engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer p.Clean(&err, p.engine.Destroy)
	if p.dma, err = dma.New(p.Device); err != nil {
		return err
	}
	defer p.Clean(&err, p.dma.Destroy)
	if err := p.engine.Connect(&p.dma.Context); err != nil {
		return err
	}
	if err := p.dma.ConfigureMemcpy(p.copied, p.failed, 1); err != nil {
		return err
	}
	p.dma.SetStateFunc(p.Saw)
	if err := p.dma.Start(); err != nil {
		return err
	}
	defer p.Clean(&err, func() error { return p.dma.Shutdown(context.Background()) })
	if err := p.submit(addr, n); err != nil {
		return err
	}
	for p.Back() == 0 {
		p.engine.Progress()
	}
	return nil
}

// submit hands over the one task. Its source has the address that the memory
// has in the other process.
func (p *dpu) submit(addr mem.Addr, n int) error {
	src, err := p.Bufs.ByData(p.host, addr, n)
	if err != nil {
		return fmt.Errorf("the memory of the host: %w", err)
	}
	dst, err := p.Bufs.ByAddr(p.Map, mem.AddrOf(p.Map.Bytes()), n)
	if err != nil {
		p.Drop(src)
		return err
	}
	t, err := p.dma.AllocMemcpy(src, dst)
	if err != nil {
		p.Drop(src, dst)
		return err
	}
	if err := t.Submit(); err != nil {
		p.Release(t)
		return err
	}
	return nil
}

// copied shows what came.
func (p *dpu) copied(t *dma.Memcpy) {
	p.Completed++
	p.Say("copied %d bytes: %q", t.Dst().DataLen(), t.Dst().Data())
	p.Release(t)
}

func (p *dpu) failed(t *dma.Memcpy) {
	p.Fail(t)
	p.Release(t)
}
