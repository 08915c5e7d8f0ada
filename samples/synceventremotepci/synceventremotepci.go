// Package synceventremotepci is the sample sync_event_remote_pci: the process
// that imports a sync event of another one, and takes turns on it.
package synceventremotepci

import (
	"io"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/internal/turns"
	"github.com/gantry-rdma/gantry/samples/sample"
	"github.com/gantry-rdma/gantry/syncevent"
)

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	p := new(remote)
	return stage.Run(stage.Program{
		Name: "sync_event_remote_pci", Side: stage.DPU, Supports: syncevent.ExportPCISupported,
		Pair:  [2]string{"sync_event_remote_pci", "sync_event_local_pci"},
		Flags: p.Flags, Check: p.Check,
		Play: func(s *stage.Stage) error { p.Stage = s; return p.play() },
	}, args, out, errOut)
}

type remote struct {
	turns.Turns // signal and wait, as the command line says
}

func (p *remote) play() (err error) {
	ctx, cancel := p.Waiting()
	defer cancel()
	if p.Engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer p.Clean(&err, p.Engine.Destroy)
	p.Say("waiting for sync_event_local_pci on %s", p.Rep.Info().PCI())
	channel, err := p.Open(ctx, p.Engine, "sync_event_sample")
	if err != nil {
		return p.Missed(err, "sync_event_local_pci did not come")
	}
	defer p.Clean(&err, channel.Close)
	blob, err := channel.Recv(ctx)
	if err != nil {
		return p.Missed(err, "sync_event_local_pci sent nothing")
	}

	// An imported event has its locations: it only has to be started.
	event, err := syncevent.Import(blob, p.Device)
	if err != nil {
		return err
	}
	defer p.Clean(&err, event.Destroy)
	p.Say("an export of %d bytes is imported", len(blob))
	if err := p.Start(event); err != nil {
		return err
	}
	defer p.Clean(&err, p.Stop)

	// One turn each: the other process first. It is the owner, and may be gone
	// as soon as it has seen this signal.
	if err := p.Wait(ctx, 1); err != nil {
		return p.Missed(err, "sync_event_local_pci did not signal")
	}
	p.Say("the other process has signalled")
	return p.Signal(ctx, 2)
}
