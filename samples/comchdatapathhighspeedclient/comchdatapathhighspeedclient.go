// Package comchdatapathhighspeedclient is the sample
// comch_data_path_high_speed_client: the process on the host that sends a
// message to a server through a producer, and then receives one through a
// consumer.
package comchdatapathhighspeedclient

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/samples/internal/datapath"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	p := &client{Path: datapath.Path{Peer: "server"}}
	return stage.Run(stage.Program{
		Name: "comch_data_path_high_speed_client", Side: stage.Host, Supports: comch.ClientSupported,
		Pair:  [2]string{"comch_data_path_high_speed_server", "comch_data_path_high_speed_client"},
		Flags: func(f *flag.FlagSet) { p.Flags(f, "Message from the client") }, Check: p.Check,
		Play: func(s *stage.Stage) error { p.Stage = s; return p.play() },
	}, args, out, errOut)
}

// client is what the callbacks work on.
type client struct {
	datapath.Path
	comch    *comch.Client
	started  bool // the server has answered
	stopping bool // it was told to
	stopped  bool // it has answered
}

func (p *client) play() (err error) {
	if p.Control, err = core.NewEngine(); err != nil {
		return err
	}
	defer p.Clean(&err, p.Control.Destroy)
	if p.comch, err = comch.NewClient(p.Device, datapath.ServiceName); err != nil {
		return err
	}
	defer p.Clean(&err, p.comch.Destroy)
	if err := p.configure(); err != nil {
		return err
	}
	ctx, cancel := p.Waiting()
	defer cancel()
	defer p.Clean(&err, func() error { return stage.Leave(p.comch.Shutdown, p.Conn) })
	if err := p.find(ctx); err != nil {
		return p.Missed(err, "there is no server: start comch_data_path_high_speed_server; none came")
	}
	if err := p.Control.Run(ctx, func() bool { return p.started || p.Lost != nil }); err != nil {
		return p.Missed(err, "the server did not answer")
	}
	if !p.started {
		return p.Lost
	}
	if err := p.Send(ctx); err != nil {
		return err
	}
	if err := p.Receive(ctx); err != nil {
		return err
	}
	p.stopping = true
	p.Tell(p.comch.AllocSend, datapath.StopText)
	if err := p.Control.Run(ctx, func() bool { return p.comch.State() == core.Idle }); err != nil {
		return p.Missed(err, "the server did not end the test")
	}
	if !p.stopped {
		return p.Lost
	}
	p.Tally(4, 0, 0) // the two texts, and a message each way
	return nil
}

// configure connects and configures the client.
func (p *client) configure() error {
	if err := p.Control.Connect(&p.comch.Context); err != nil {
		return err
	}
	if err := p.Configure(p.comch); err != nil {
		return err
	}
	p.comch.SetStateFunc(p.state)
	return p.comch.SetMessageFunc(p.message)
}

// find starts the client: the start is in progress until it is connected. It is
// started again as long as there is no server.
func (p *client) find(ctx context.Context) error {
	for tries := 0; ; tries++ {
		if err := p.comch.Start(); !errors.Is(err, core.ErrInProgress) {
			return err
		}
		if err := p.Control.Run(ctx, func() bool { return p.Conn != nil || p.Lost != nil }); err != nil {
			return err
		}
		if p.Conn != nil || !errors.Is(p.comch.Err(), core.ErrNotFound) {
			return p.comch.Err()
		}
		if tries == 0 {
			p.Say("waiting for the server %q", p.comch.Name())
		}
		p.Lost, p.States = nil, p.States[:0] // that was no life yet
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// state is told of every transition: running means connected.
func (p *client) state(c *core.Context, prev, next core.State) {
	p.Saw(c, prev, next)
	switch next {
	case core.Running:
		var err error
		p.Conn, err = p.comch.Connection()
		p.Keep(err)
		p.Tell(p.comch.AllocSend, datapath.StartText)
	case core.Idle:
		p.Part()
	}
}

// message is called for the echoes; after the last all is done. The client is
// stopping already if the server was faster.
func (p *client) message(_ *comch.Connection, text []byte) {
	p.Say("received %q", text)
	switch {
	case string(text) == datapath.StartText && !p.started:
		p.started = true
	case string(text) == datapath.StopText && p.stopping && !p.stopped:
		p.stopped = true
		if p.comch.State() == core.Running {
			p.Want("stop", p.comch.Stop(), core.ErrInProgress)
		}
	default:
		p.Keep(fmt.Errorf("the server sent %q, which means nothing now: %w", text, core.ErrUnexpected))
	}
}
