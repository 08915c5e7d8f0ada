// Package comchctrlpathserver is the sample comch_ctrl_path_server: the process
// on the DPU that a client sends a message to, and that answers.
package comchctrlpathserver

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

// serviceName is what the client asks for.
const serviceName = "comch_ctrl_path_sample_server"

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	p := new(server)
	return stage.Run(stage.Program{
		Name: "comch_ctrl_path_server", Side: stage.DPU, Supports: comch.ServerSupported,
		Pair: [2]string{"comch_ctrl_path_server", "comch_ctrl_path_client"},
		Flags: func(f *flag.FlagSet) {
			f.StringVar(&p.text, "text", "Message from the server", "the `text` that the client gets")
			f.StringVar(&p.text, "t", p.text, "same as -text")
		},
		Play: func(s *stage.Stage) error { p.Stage = s; return p.play() },
	}, args, out, errOut)
}

// server is what the callbacks work on.
type server struct {
	*stage.Stage
	text     string
	engine   *core.Engine
	comch    *comch.Server
	received bool
}

func (p *server) play() (err error) {
	p.Tasks = 1
	if p.engine, err = core.NewEngine(); err != nil {
		return err
	}
	defer p.Clean(&err, p.engine.Destroy)
	if p.comch, err = comch.NewServer(p.Device, p.Rep, serviceName); err != nil {
		return err
	}
	defer p.Clean(&err, p.comch.Destroy)
	if err := p.start(); err != nil {
		return err
	}
	defer p.Clean(&err, func() error { return p.comch.Shutdown(context.Background()) })
	p.Say("the server %q waits for a client on %s", p.comch.Name(), p.Rep.Info().PCI())

	// Everything else happens in callbacks; the last of them stops the server.
	ctx, cancel := p.Waiting()
	defer cancel()
	if err := p.engine.Run(ctx, func() bool { return p.comch.State() == core.Idle }); err != nil {
		return p.Missed(err, "no client came, or it did not leave,")
	}
	if !p.received {
		return fmt.Errorf("the client left without a message: %w", core.ErrUnexpected)
	}
	p.Tally(1, 0, 0)
	return nil
}

// start connects and configures the server, and starts it: a server runs at
// once, but cannot be started while another process has its name.
func (p *server) start() error {
	if err := p.engine.Connect(&p.comch.Context); err != nil {
		return err
	}
	if err := p.comch.ConfigureSend(p.sent, p.failed, 1); err != nil {
		return err
	}
	if err := p.comch.SetMessageFunc(p.message); err != nil {
		return err
	}
	if err := p.comch.SetConnectionFuncs(p.connected, p.disconnected); err != nil {
		return err
	}
	p.comch.SetStateFunc(p.Saw)
	return p.comch.Start()
}

func (p *server) connected(*comch.Connection, bool) { p.Say("a client is there") }

// disconnected is told whether the client said goodbye. One that never sent
// anything ends the sample.
func (p *server) disconnected(c *comch.Connection, well bool) {
	p.Say("the client is gone")
	if !well {
		p.Keep(c.Err())
	}
	p.stop()
}

// message is called for what the client sends. The bytes are only good until it
// returns.
func (p *server) message(c *comch.Connection, text []byte) {
	p.Say("received %q", text)
	p.received = true
	t, err := p.comch.AllocSend(c, []byte(p.text))
	if err != nil {
		p.Keep(err)
		return
	}
	p.Keep(t.Submit())
}

// sent is called when the answer is in the queue of the client: it is delivered
// although the server stops now.
func (p *server) sent(t *comch.Send) {
	p.Completed++
	p.Say("sent %q", t.Message())
	p.Keep(t.Free())
	p.stop()
}

func (p *server) failed(t *comch.Send) {
	p.Failed++
	p.Keep(fmt.Errorf("send: %w", t.Status()))
	p.Keep(t.Free())
	p.stop()
}

// stop is the end; it takes as long as a client is there.
func (p *server) stop() {
	if p.comch.State() == core.Running {
		if err := p.comch.Stop(); !errors.Is(err, core.ErrInProgress) {
			p.Keep(err)
		}
	}
}
