package comch

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/ipc"
)

// A Client talks to one server. The embedded core.Context is its life: connect
// it to an engine, start it, stop it. It is running while it is connected, and
// stops by itself when the server ends the connection or dies: see
// [Client.Err]. All methods belong to the goroutine of its engine.
type Client struct {
	control
	name string
	conn *Connection // of the last start
}

// NewClient makes a client on a host function, of the server with the name. The
// device stays open until Destroy. It answers core.ErrInvalidValue for a nil
// device and for a name that is empty, has a NUL, or is longer than MaxNameLen
// allows; and core.ErrNotSupported for a device that cannot have clients.
func NewClient(dev *device.Device, name string) (*Client, error) {
	if dev == nil {
		return nil, fmt.Errorf("comch: the device is nil: %w", core.ErrInvalidValue)
	}
	if err := errors.Join(checkName(name), ClientSupported(dev.Info())); err != nil {
		return nil, err
	}
	c := &Client{name: name}
	if err := c.init(dev, (*clientSide)(c), "comch client"); err != nil {
		return nil, err
	}
	return c, nil
}

// Destroy ends an idle client and lets go of its device. It answers
// core.ErrInUse while it is connected, or has producers or consumers of a
// connection that is over, and else core.ErrBadState when the context is not
// idle.
func (c *Client) Destroy() error { return c.destroy("client") }

// Name returns the name of the server.
func (c *Client) Name() string { return c.name }

// Connection returns the connection to the server. It answers core.ErrBadState
// when the client is not started; while it is starting the connection is being
// made.
func (c *Client) Connection() (*Connection, error) {
	if c == nil {
		return nil, fmt.Errorf("comch: the client is nil: %w", core.ErrInvalidValue)
	}
	if c.State() == core.Idle {
		return nil, fmt.Errorf("comch: the client is not started: %w", core.ErrBadState)
	}
	return c.conn, nil
}

// Err returns why the client could not connect, or stopped by itself, the last
// time: core.ErrNotFound when there is no server of the name, core.ErrFull when
// it has no place, core.ErrTimeOut when it does not answer,
// core.ErrUnsupportedVersion when it speaks another version, and what
// [Connection.Err] says when the connection was made and is over. It is nil
// while nothing is wrong.
func (c *Client) Err() error {
	if c.conn == nil {
		return nil
	}
	return c.conn.Err()
}

// clientSide is a Client with the methods that its control calls.
type clientSide Client

// start connects on a goroutine, which then is the attendant.
func (c *clientSide) start() error {
	ctx, cancel := context.WithCancel(context.Background())
	n := newConnection(&c.control)
	n.client, n.maxMessage, n.cancel = (*Client)(c), c.control.maxMessage, cancel
	c.conn = n
	c.workers.Add(1)
	go (*Client)(c).connect(ctx, n)
	return core.ErrInProgress
}

// connect looks for the server and does the handshake.
func (c *Client) connect(ctx context.Context, n *Connection) {
	defer c.leave()
	defer n.cancel()
	host := c.device.Info().PCI()
	conn, err := ipc.Dial(ctx, meetingPoint(host, c.name))
	if err == nil {
		err = n.shake(conn, n.introduce)
	}
	if err != nil {
		n.left.Store(true)
		n.advance(phaseDead, fmt.Errorf("comch: connect to server %q for %s: %w", c.name, host, explain(err)))
		return
	}
	n.attend()
}

// explain adds the code to an error of the handshake.
func explain(err error) error {
	switch {
	case errors.Is(err, ipc.ErrNobody):
		return fmt.Errorf("%w: %w", core.ErrNotFound, err)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("%w: it has not answered for %v: does it stand still?", core.ErrTimeOut, answerTime)
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("%w: %w", core.ErrNotSupported, err)
	case core.StatusOf(err) == core.ErrUnknown:
		return fmt.Errorf("%w: %w", core.ErrConnectionAborted, err)
	}
	return err
}

// stop gives up connecting. A connection that there is already ends like any
// other.
func (c *clientSide) stop() (done bool) {
	switch p := c.conn.phase(); {
	case p == phaseMaking:
		c.conn.Abort()
	case p == phaseOpen && len(c.conns) == 0:
		c.add(c.conn)
	}
	return false
}

func (c *clientSide) ready() bool { return c.connected() || c.stopped() }

// connected reports whether a start has succeeded.
func (c *clientSide) connected() bool {
	return c.State() == core.Starting && c.conn.phase() == phaseOpen
}

// stopped reports whether a start has failed, or a stop is over.
func (c *clientSide) stopped() bool {
	return (c.stopping || c.State() == core.Starting) && len(c.conns) == 0 && c.conn.phase() >= phaseEnded && c.workers.Load() == 0
}

// poll ends the start or the stop.
func (c *clientSide) poll() bool {
	switch {
	case c.connected():
		c.add(c.conn)
		c.Started()
	case c.stopped():
		if c.conn.seat != nil {
			c.conn.seat.leave()
		}
		c.stopping = false
		c.Stopped()
	default:
		return false
	}
	return true
}

// over stops a client whose connection has ended, if it is not stopping.
func (c *clientSide) over(*Connection) { c.Fault() }
