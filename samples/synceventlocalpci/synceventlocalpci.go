// Package synceventlocalpci is the sample sync_event_local_pci: the process that
// has a sync event, exports it, and takes turns on it with another process.
package synceventlocalpci

import (
	"errors"
	"fmt"
	"io"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/internal/turns"
	"github.com/gantry-rdma/gantry/samples/sample"
	"github.com/gantry-rdma/gantry/syncevent"
)

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	p := new(local)
	return stage.Run(stage.Program{
		Name: "sync_event_local_pci", Side: stage.Host, Supports: syncevent.ExportPCISupported,
		Pair:  [2]string{"sync_event_remote_pci", "sync_event_local_pci"},
		Flags: p.Flags, Check: p.Check,
		Play: func(s *stage.Stage) error { p.Stage = s; return p.play() },
	}, args, out, errOut)
}

type local struct {
	turns.Turns // signal and wait, as the command line says
	event       *syncevent.Event
}

func (p *local) play() (err error) {
	ctx, cancel := p.Waiting()
	defer cancel()
	if p.Engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer p.Clean(&err, p.Engine.Destroy)
	channel, err := p.Open(ctx, p.Engine, "sync_event_sample")
	if errors.Is(err, core.ErrNotFound) {
		return fmt.Errorf("the other process is not there: start sync_event_remote_pci first: %w", err)
	}
	if err != nil {
		return p.Missed(err, "the other process did not answer")
	}
	defer p.Clean(&err, channel.Close)

	// The event, and its export, which the other process makes one of.
	if p.event, err = syncevent.New(); err != nil {
		return err
	}
	defer p.Clean(&err, p.event.Destroy)
	if err := p.locate(); err != nil {
		return err
	}
	if err := p.Start(p.event); err != nil {
		return err
	}
	defer p.Clean(&err, p.Stop)
	blob, err := p.event.ExportPCI(p.Device)
	if err != nil {
		return err
	}
	if err := channel.Send(blob); err != nil {
		return err
	}
	p.Say("the export of %d bytes is sent", len(blob))

	// One turn each: this process first.
	if err := p.Signal(ctx, 1); err != nil {
		return err
	}
	if err := p.Wait(ctx, 2); err != nil {
		return p.Missed(err, "the other process did not signal")
	}
	p.Say("the other process has signalled")
	return nil
}

// locate says that both processes change the value, and wait for it.
func (p *local) locate() error {
	for _, l := range []syncevent.Location{syncevent.CPU, syncevent.RemotePCI} {
		if err := p.event.AddPublisher(l, p.Device); err != nil {
			return err
		}
		if err := p.event.AddSubscriber(l, p.Device); err != nil {
			return err
		}
	}
	return nil
}
