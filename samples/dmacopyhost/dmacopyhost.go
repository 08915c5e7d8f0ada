// Package dmacopyhost is the sample dma_copy_host: the process on the host
// whose memory the one on the DPU copies.
package dmacopyhost

import (
	"flag"
	"fmt"
	"io"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	p := new(host)
	return stage.Run(stage.Program{
		Name: "dma_copy_host", Side: stage.Host, Supports: mem.ExportPCISupported,
		Pair: [2]string{"dma_copy_host", "dma_copy_dpu"},
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&p.text, "text", "This is a sample piece of text", "the `text` to copy")
			f.StringVar(&p.text, "t", p.text, "same as -text")
			p.files.Flags(f)
		},
		Check: p.check,
		Play:  func(s *stage.Stage) error { p.Stage = s; return p.play() },
	}, args, out, errOut)
}

type host struct {
	*stage.Stage
	text  string
	files stage.Exchange
	lent  *mem.Map
}

// check refuses what would be no memory at all.
func (p *host) check() error {
	if p.text == "" {
		return fmt.Errorf("-text: there is nothing to copy: %w", core.ErrEmpty)
	}
	return nil
}

func (p *host) play() (err error) {
	if p.lent, err = mem.NewMap(); err != nil {
		return err
	}
	defer p.Clean(&err, p.lent.Destroy)
	if err := p.start(); err != nil {
		return err
	}
	copy(p.lent.Bytes(), p.text)

	// The export is a key: whoever has these bytes can read the memory.
	blob, err := p.lent.ExportPCI(p.Device)
	if err != nil {
		return err
	}
	addr, n, err := p.lent.Range()
	if err != nil {
		return err
	}
	if err := p.files.Write(blob, addr, n); err != nil {
		return err
	}
	defer p.Clean(&err, p.files.Remove)
	p.Say("%d bytes are exported, the descriptor is in %s", n, p.files.Descriptor)

	// The memory must stay as long as the DPU copies. It says that it is
	// through by removing the files.
	ctx, cancel := p.Waiting()
	defer cancel()
	if err := p.files.Taken(ctx); err != nil {
		return p.Missed(err, "the DPU did not copy: is dma_copy_dpu running? nothing happened")
	}
	p.Say("the DPU has copied")
	return nil
}

// start gives the map memory that can be shared, and the right for the other
// side to read it: it could not write if it tried.
func (p *host) start() error {
	if err := p.lent.Allocate(len(p.text), mem.AllocOptions{Shareable: true}); err != nil {
		return err
	}
	if err := p.lent.SetAccess(mem.PCIReadOnly); err != nil {
		return err
	}
	if err := p.lent.AddDevice(p.Device); err != nil {
		return err
	}
	return p.lent.Start()
}
