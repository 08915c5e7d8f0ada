package comch

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
)

// A control is what a server and a client have in common: the control path of
// one context, over any number of connections.
type control struct {
	core.Context
	device *device.Device
	side   side
	sends  core.TaskPool[Send, *Send]

	onMessage     func(*Connection, []byte)
	onNew, onGone func(*Connection, uint16)
	maxMessage    int
	answerTime    time.Duration // how long a peer may take to answer
	recvQueue     int
	tenants       atomic.Int32 // producers and consumers of all connections
	workers       atomic.Int32 // goroutines that run for this context
	conns         []*Connection
	turn          int       // whose, in conns
	refused       sendQueue // submitted to a connection that was over
	incoming      []byte    // the message that is being delivered
	stopping      bool      // Stop was called, and Stopped was not
}

// A side is what only a server or only a client does.
type side interface {
	start() error
	stop() (done bool)  // before the connections are closed; done if there is nothing to wait for
	poll() (did bool)   // what is not about one connection
	ready() bool        // whether poll would do something
	over(c *Connection) // c has ended, and all else there was to report is reported
}

func (k *control) init(dev *device.Device, s side, label string) error {
	if err := dev.Hold(); err != nil {
		return fmt.Errorf("comch: %w", err)
	}
	k.device, k.side = dev, s
	k.maxMessage, k.recvQueue, k.answerTime = defaultMessage, defaultRecvQueue, answerTime
	k.Init(backend{k}, label)
	k.sends.Init(&k.Context, label+" send")
	return nil
}

// Device returns the device of the context.
func (k *control) Device() *device.Device { return k.device }

// ConfigureSend sets the callbacks for messages that were sent and that were
// not, and the number n of tasks that exist. It answers core.ErrInvalidValue
// for a nil callback and for an n that is not from 1 to MaxSendTasks, and
// core.ErrBadState when the context is not idle.
func (k *control) ConfigureSend(ok, fail func(*Send), n int) error {
	return k.sends.Configure(ok, fail, n, maxSendTasks)
}

// Misses returns how often AllocSend found no free task.
func (k *control) Misses() uint64 { return k.sends.Misses() }

// SetMessageFunc sets the function that is given every message that comes in,
// on the engine's goroutine. The bytes are only good until it returns. There
// must be one. It answers core.ErrInvalidValue for nil and core.ErrBadState
// when the context is not idle.
func (k *control) SetMessageFunc(f func(c *Connection, message []byte)) error {
	if err := k.configurable("message function", f != nil); err != nil {
		return err
	}
	k.onMessage = f
	return nil
}

// SetConsumerFuncs sets the functions that are told, on the engine's goroutine,
// of a consumer that the peer has started, and of one that is gone. Its
// identifier is what producers send to. It answers core.ErrInvalidValue if one
// is nil and core.ErrBadState when the context is not idle.
func (k *control) SetConsumerFuncs(started, expired func(c *Connection, id uint16)) error {
	if err := k.configurable("consumer function", started != nil && expired != nil); err != nil {
		return err
	}
	k.onNew, k.onGone = started, expired
	return nil
}

// SetMaxMessage sets how many bytes a message can have: 4080 when it is not
// called. The smaller number of the two sides counts. It answers
// core.ErrInvalidValue for an n that is not from 1 to MaxMessage, and
// core.ErrBadState when the context is not idle.
func (k *control) SetMaxMessage(n int) error {
	return k.setLimit(&k.maxMessage, "longest message", n, maxMessage)
}

// MaxMessage returns what SetMaxMessage has set. What counts for a connection
// is [Connection.MaxMessage].
func (k *control) MaxMessage() int { return k.maxMessage }

// SetRecvQueue sets how many messages of one peer can wait to be received: 1024
// when it is not called. The errors are those of SetMaxMessage.
func (k *control) SetRecvQueue(n int) error {
	return k.setLimit(&k.recvQueue, "receive queue", n, maxRecvQueue)
}

// RecvQueue returns what SetRecvQueue has set.
func (k *control) RecvQueue() int { return k.recvQueue }

func (k *control) setLimit(to *int, what string, n, limit int) error {
	if err := k.configurable(what, true); err != nil {
		return err
	}
	if n < 1 || n > limit {
		return fmt.Errorf("comch: set the %s: %d asked for, 1 to %d possible: %w", what, n, limit, core.ErrInvalidValue)
	}
	*to = n
	return nil
}

func (k *control) configurable(what string, given bool) error {
	switch {
	case !given:
		return fmt.Errorf("comch: set the %s: it is nil: %w", what, core.ErrInvalidValue)
	case k.State() != core.Idle:
		return fmt.Errorf("comch: set the %s: the context is %v: %w", what, k.State(), core.ErrBadState)
	}
	return nil
}

// destroy ends the context.
func (k *control) destroy(what string) error {
	if n := k.tenants.Load(); n > 0 {
		return fmt.Errorf("comch: destroy the %s: %d producers and consumers are not destroyed: %w", what, n, core.ErrInUse)
	}
	if n := len(k.conns); n > 0 && k.State() != core.Idle {
		return fmt.Errorf("comch: destroy the %s: it has %d connections: %w", what, n, core.ErrInUse)
	}
	if err := k.Context.Destroy(); err != nil {
		return err
	}
	k.device.Drop()
	return nil
}

// add takes a connection that is established among those that are served.
func (k *control) add(c *Connection) {
	c.maxMessage = c.agreed
	k.conns = append(k.conns, c)
}

// remove undoes add.
func (k *control) remove(c *Connection) {
	i := slices.Index(k.conns, c)
	k.conns = slices.Delete(k.conns, i, i+1)
	if k.turn > i {
		k.turn--
	}
}

// leave says that a goroutine which ran for this context is about to end. It
// touches nothing afterwards.
func (k *control) leave() {
	if k.workers.Add(-1) == 0 {
		k.Notify()
	}
}
