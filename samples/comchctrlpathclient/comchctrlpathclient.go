// Package comchctrlpathclient is the sample comch_ctrl_path_client: the process
// on the host that sends a message to a server, and waits for the answer.
package comchctrlpathclient

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

// serviceName is the server's.
const serviceName = "comch_ctrl_path_sample_server"

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	p := new(client)
	return stage.Run(stage.Program{
		Name: "comch_ctrl_path_client", Side: stage.Host, Supports: comch.ClientSupported,
		Pair: [2]string{"comch_ctrl_path_server", "comch_ctrl_path_client"},
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&p.text, "text", "Message from the client", "the `text` that the server gets")
			f.StringVar(&p.text, "t", p.text, "same as -text")
		},
		Play: func(s *stage.Stage) error { p.Stage = s; return p.play() },
	}, args, out, errOut)
}

// client is what the callbacks work on.
type client struct {
	*stage.Stage
	text     string
	engine   *core.Engine
	comch    *comch.Client
	received bool
}

func (p *client) play() (err error) {
	p.Tasks = 1
	if p.engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer p.Clean(&err, p.engine.Destroy)
	if p.comch, err = comch.NewClient(p.Device, serviceName); err != nil {
		return err
	}
	defer p.Clean(&err, p.comch.Destroy)
	if err := p.start(); !errors.Is(err, core.ErrInProgress) {
		return err
	}
	defer p.Clean(&err, func() error { return p.comch.Shutdown(context.Background()) })

	// Everything else happens in callbacks, from the one on.
	ctx, cancel := p.Waiting()
	defer cancel()
	if err := p.engine.Run(ctx, func() bool { return p.comch.State() == core.Idle }); err != nil {
		return p.Missed(err, "the server did not answer")
	}
	switch err := p.comch.Err(); {
	case errors.Is(err, core.ErrNotFound):
		return fmt.Errorf("there is no server: start comch_ctrl_path_server first: %w", err)
	case !p.received && err != nil:
		return err
	case !p.received:
		return fmt.Errorf("the server left without an answer: %w", core.ErrConnectionReset)
	}
	p.Tally(1, 0, 0)
	return nil
}

// start connects, configures and starts the client. It answers that the start
// is in progress: Progress goes on with it.
func (p *client) start() error {
	if err := p.engine.Connect(&p.comch.Context); err != nil {
		return err
	}
	if err := p.comch.ConfigureSend(p.sent, p.failed, 1); err != nil {
		return err
	}
	if err := p.comch.SetMessageFunc(p.message); err != nil {
		return err
	}
	p.comch.SetStateFunc(p.state)
	return p.comch.Start()
}

// state is told of every transition: running means connected.
func (p *client) state(c *core.Context, prev, next core.State) {
	p.Saw(c, prev, next)
	if next != core.Running {
		return
	}
	conn, err := p.comch.Connection()
	if err != nil {
		p.Keep(err)
		return
	}
	t, err := p.comch.AllocSend(conn, []byte(p.text))
	if err != nil {
		p.Keep(err)
		return
	}
	p.Keep(t.Submit())
}

// sent is called when the message is in the queue of the server.
func (p *client) sent(t *comch.Send) {
	p.Completed++
	p.Say("sent %q", t.Message())
	p.Keep(t.Free())
}

func (p *client) failed(t *comch.Send) {
	p.Failed++
	p.Keep(fmt.Errorf("send: %w", t.Status()))
	p.Keep(t.Free())
}

// message is called for the answer: then all is done. The client is stopping
// already if the server was faster.
func (p *client) message(_ *comch.Connection, text []byte) {
	p.Say("received %q", text)
	p.received = true
	if p.comch.State() == core.Running {
		p.Want("stop", p.comch.Stop(), core.ErrInProgress)
	}
}
