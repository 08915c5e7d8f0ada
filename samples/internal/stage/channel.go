package stage

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
)

// What a channel is configured with.
const (
	channelMessage = 1024 // bytes
	channelQueue   = 8    // messages
	channelTasks   = 8
)

// A Channel carries a few messages between the samples of a pair, for those
// that have something else to show: see the comch_ctrl_path samples for what it
// does. The DPU is the server.
type Channel struct {
	engine *core.Engine
	end    end
	conn   *comch.Connection
	got    [][]byte
	lost   bool
	err    error // of sends
}

// An end is a comch.Server or a comch.Client.
type end interface {
	ConfigureSend(ok, fail func(*comch.Send), n int) error
	SetMessageFunc(func(*comch.Connection, []byte)) error
	SetMaxMessage(n int) error
	SetRecvQueue(n int) error
	AllocSend(*comch.Connection, []byte) (*comch.Send, error)
	Start() error
	State() core.State
	Shutdown(context.Context) error
	Destroy() error
}

// Open makes this side's end of the channel with the name, and waits until the
// other one is there.
func (s *Stage) Open(ctx context.Context, e *core.Engine, name string) (*Channel, error) {
	c := &Channel{engine: e}
	life, err := c.make(s, name)
	if err != nil {
		return nil, err
	}
	core.KeepFirst(&err, e.Connect(life))
	core.KeepFirst(&err, c.end.ConfigureSend(c.sent, c.sent, channelTasks))
	core.KeepFirst(&err, c.end.SetMessageFunc(c.received))
	core.KeepFirst(&err, c.end.SetMaxMessage(channelMessage))
	core.KeepFirst(&err, c.end.SetRecvQueue(channelQueue))
	if err == nil {
		err = c.meet(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// make makes a server or a client.
func (c *Channel) make(s *Stage, name string) (*core.Context, error) {
	if s.Rep == nil {
		k, err := comch.NewClient(s.Device, name)
		if err != nil {
			return nil, err
		}
		c.end = k
		k.SetStateFunc(func(_ *core.Context, _, next core.State) {
			if next == core.Running {
				c.conn, _ = k.Connection() // which a running client has
			}
		})
		return &k.Context, nil
	}
	v, err := comch.NewServer(s.Device, s.Rep, name)
	if err != nil {
		return nil, err
	}
	c.end = v
	return &v.Context, v.SetConnectionFuncs(
		func(n *comch.Connection, _ bool) {
			if c.conn == nil { // a second client is not the other half of the pair
				c.conn = n
			}
		},
		func(n *comch.Connection, _ bool) { c.lost = c.lost || n == c.conn })
}

// meet starts the end, and waits for a connection.
func (c *Channel) meet(ctx context.Context) error {
	err := c.end.Start()
	if err != nil && !errors.Is(err, core.ErrInProgress) {
		return err
	}
	k, isClient := c.end.(*comch.Client)
	if !isClient {
		return c.engine.Run(ctx, func() bool { return c.conn != nil })
	}
	if err := c.engine.Run(ctx, func() bool { return k.State() == core.Running || k.State() == core.Idle }); err != nil {
		return err
	}
	if k.State() == core.Idle {
		return k.Err()
	}
	return nil
}

func (c *Channel) sent(t *comch.Send) {
	core.KeepFirst(&c.err, t.Status().Err())
	core.KeepFirst(&c.err, t.Free())
}

// received takes a message, unless it is a stranger's.
func (c *Channel) received(n *comch.Connection, b []byte) {
	if n == c.conn {
		c.got = append(c.got, append([]byte(nil), b...))
	}
}

// Send sends a message. It is delivered even if the channel is closed now.
func (c *Channel) Send(b []byte) error {
	t, err := c.end.AllocSend(c.conn, b)
	if err != nil {
		return err
	}
	return t.Submit()
}

// Recv waits for the next message.
func (c *Channel) Recv(ctx context.Context) ([]byte, error) {
	if err := c.engine.Run(ctx, func() bool { return len(c.got) > 0 || c.Lost() }); err != nil {
		return nil, err
	}
	if len(c.got) == 0 {
		return nil, fmt.Errorf("the other process ended: %w", core.ErrConnectionReset)
	}
	b := c.got[0]
	c.got = c.got[1:]
	return b, nil
}

// Lost reports whether the other process is gone.
func (c *Channel) Lost() bool { return c.lost || c.end.State() != core.Running }

// Close ends the channel.
func (c *Channel) Close() error {
	err := Leave(c.end.Shutdown, c.conn)
	core.KeepFirst(&err, c.end.Destroy())
	core.KeepFirst(&err, c.err)
	return err
}
