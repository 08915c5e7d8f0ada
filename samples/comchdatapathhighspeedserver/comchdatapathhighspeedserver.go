// Package comchdatapathhighspeedserver is the sample
// comch_data_path_high_speed_server: the process on the DPU that receives a
// message of a client through a consumer, and then sends one through a producer.
package comchdatapathhighspeedserver

import (
	"flag"
	"fmt"
	"io"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/samples/internal/datapath"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/samples/sample"
)

// Run runs the sample.
func Run(args []string, out, errOut io.Writer) (sample.Result, error) {
	p := &server{Path: datapath.Path{Peer: "client"}}
	return stage.Run(stage.Program{
		Name: "comch_data_path_high_speed_server", Side: stage.DPU, Supports: comch.ServerSupported,
		Pair:  [2]string{"comch_data_path_high_speed_server", "comch_data_path_high_speed_client"},
		Flags: func(f *flag.FlagSet) { p.Flags(f, "Message from the server") }, Check: p.Check,
		Play: func(s *stage.Stage) error { p.Stage = s; return p.play() },
	}, args, out, errOut)
}

// server is what the callbacks work on.
type server struct {
	datapath.Path
	comch   *comch.Server
	started bool // the client has said so
	stopped bool // likewise
}

func (p *server) play() (err error) {
	if p.Control, err = core.NewEngine(); err != nil {
		return err
	}
	defer p.Clean(&err, p.Control.Destroy)
	if p.comch, err = comch.NewServer(p.Device, p.Rep, datapath.ServiceName); err != nil {
		return err
	}
	defer p.Clean(&err, p.comch.Destroy)
	if err := p.start(); err != nil {
		return err
	}
	defer p.Clean(&err, func() error { return stage.Leave(p.comch.Shutdown, p.Conn) })
	p.Say("the server %q waits for a client on %s", p.comch.Name(), p.Rep.Info().PCI())

	ctx, cancel := p.Waiting()
	defer cancel()
	if err := p.Control.Run(ctx, func() bool { return p.started || p.Lost != nil }); err != nil {
		return p.Missed(err, "no client came, or it did not begin: start comch_data_path_high_speed_client; nothing came")
	}
	if !p.started {
		return p.Lost
	}
	if err := p.Receive(ctx); err != nil {
		return err
	}
	if err := p.Send(ctx); err != nil {
		return err
	}
	// The client says when to stop, and the server does it in the callback.
	if err := p.Control.Run(ctx, func() bool { return p.comch.State() == core.Idle || p.Lost != nil }); err != nil {
		return p.Missed(err, "the client did not end the test")
	}
	if !p.stopped {
		return p.Lost
	}
	if err := p.comch.Shutdown(ctx); err != nil { // no task is in the way
		return err
	}
	p.Tally(4, 0, 0) // two echoes, and a message each way
	return nil
}

// start connects and configures the server, and starts it: it runs at once.
func (p *server) start() error {
	if err := p.Control.Connect(&p.comch.Context); err != nil {
		return err
	}
	if err := p.Configure(p.comch); err != nil {
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

// connected takes the first client, and sends others away.
func (p *server) connected(c *comch.Connection, _ bool) {
	if p.Conn == nil {
		p.Conn = c
		p.Say("a client is there")
		return
	}
	p.Keep(p.comch.Disconnect(c))
}

// disconnected is told of the end of a connection.
func (p *server) disconnected(c *comch.Connection, _ bool) {
	if c == p.Conn {
		p.Say("the client is gone")
		p.Part()
	}
}

// message echoes the words of the client. After the last the server stops, at
// once: what was submitted before is delivered all the same.
func (p *server) message(c *comch.Connection, text []byte) {
	p.Say("received %q", text)
	switch {
	case c == p.Conn && string(text) == datapath.StartText && !p.started:
		p.started = true
		p.Tell(p.comch.AllocSend, datapath.StartText)
	case c == p.Conn && string(text) == datapath.StopText && p.started && !p.stopped:
		p.stopped = true
		p.Tell(p.comch.AllocSend, datapath.StopText)
		p.Want("stop", p.comch.Stop(), core.ErrInProgress)
	default:
		p.Keep(fmt.Errorf("the client sent %q, which means nothing now: %w", text, core.ErrUnexpected))
	}
}
