package comch

import (
	"fmt"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/shmq"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/mem"
)

// ConsumerSupported returns nil when the device can have consumers, else an
// error with core.ErrNotSupported. Like the other capability queries it needs
// no open device.
func ConsumerSupported(i *device.Info) error { return supported(i) }

// ConsumerMaxTasks returns how many receive tasks a consumer can have.
func ConsumerMaxTasks(i *device.Info) (uint32, error) { return maxFastTasks, supported(i) }

// ConsumerMaxBufSize returns how many bytes a receive can have.
func ConsumerMaxBufSize(i *device.Info) (uint32, error) { return maxFastBuf, supported(i) }

// ConsumerMaxBufListLen returns how many elements the list of a receive can
// have.
func ConsumerMaxBufListLen(i *device.Info) (uint32, error) { return maxRecvList, supported(i) }

// MaxConsumers returns how many consumers one side of a connection can have.
func MaxConsumers(i *device.Info) (uint32, error) { return maxSeats, supported(i) }

// MaxImmData returns how many bytes of immediate data a message can have.
func MaxImmData(i *device.Info) (uint32, error) { return maxImmData, supported(i) }

// A Consumer receives messages of the peer's producers into the buffers that
// it posts. The embedded core.Context is its life. All methods belong to the
// goroutine of its engine, which need not be that of the server or client.
//
// Its start is asynchronous: it runs when the peer has mapped its memory, all
// of the map, which the peer then can read and write at any time. Its stop is
// too: when the peer does not use the memory any more, the receives that were
// not filled are flushed.
type Consumer struct {
	core.Context
	conn  *Connection
	seat  *seat
	mmap  *mem.Map
	tasks core.TaskPool[PostRecv, *PostRecv]
	imm   int

	phase    atomic.Uint32 // a courtship: what the peer knows
	queue    *sys.Pages
	receiver *shmq.Receiver
	base     mem.Addr    // of the memory
	posted   []*PostRecv // by slot; nil for what is not in flight
	flushing int         // the slot that is flushed next
	closed   bool        // flushing has begun: nothing arrives any more
	wrong    []*PostRecv // submitted, and about to fail
	arrival  shmq.Arrival
}

// A courtship is what the peer knows of a consumer, and has said to it.
type courtship uint32

const (
	unknown   courtship = iota // not started
	offered                    // the peer was told
	accepted                   // the peer can reach it
	refused                    // the peer cannot
	withdrawn                  // the peer was told that it stops
	forgotten                  // the peer does not use its memory any more
)

// NewConsumer makes a consumer on an established connection, which it keeps
// until Destroy, for receives in memory of m. The map must be started, grant
// PCIReadWrite and be of memory that can be shared: see mem.AllocOptions.
//
// It answers core.ErrInvalidValue for a nil connection or map, core.ErrBadState
// for a connection that is not established or over, core.ErrNotPermitted for a
// map without the right, and core.ErrNoMemory when this side of the connection
// has MaxConsumers of them.
func NewConsumer(c *Connection, m *mem.Map) (*Consumer, error) {
	switch {
	case c == nil:
		return nil, fmt.Errorf("comch: make a consumer: the connection is nil: %w", core.ErrInvalidValue)
	case m == nil:
		return nil, fmt.Errorf("comch: make a consumer: the map is nil: %w", core.ErrInvalidValue)
	case m.Access()&mem.PCIReadWrite == 0:
		return nil, fmt.Errorf("comch: make a consumer: the map does not grant PCIReadWrite: %w", core.ErrNotPermitted)
	}
	k := &Consumer{conn: c, mmap: m, imm: maxImmData}
	k.Init((*consumerBackend)(k), "comch consumer")
	k.tasks.Init(&k.Context, "comch post receive")
	var err error
	if k.seat, err = c.join(&k.Context, seatConsumer); err != nil {
		return nil, fmt.Errorf("make a consumer: %w", err)
	}
	return k, nil
}

// Destroy ends an idle consumer. It answers core.ErrBadState when it is not
// idle.
func (k *Consumer) Destroy() error {
	if err := k.Context.Destroy(); err != nil {
		return err
	}
	k.seat.leave()
	return nil
}

// Connection returns the connection of the consumer.
func (k *Consumer) Connection() *Connection { return k.conn }

// ID returns what the peer's producers send to: unique among the consumers of
// this side of the connection, and neither 0 nor 0xffff.
func (k *Consumer) ID() uint16 { return k.seat.id }

// ConfigurePostRecv sets the callbacks for receives that were filled and that
// were not, and the number n of tasks that exist. It answers
// core.ErrInvalidValue for a nil callback and for an n that is not from 1 to
// ConsumerMaxTasks, and core.ErrBadState when the consumer is not idle.
func (k *Consumer) ConfigurePostRecv(ok, fail func(*PostRecv), n int) error {
	return k.tasks.Configure(ok, fail, n, maxFastTasks)
}

// SetImmDataLen sets how many bytes of immediate data a message can have:
// MaxImmData when it is not called. It answers core.ErrInvalidValue for more
// than that and for less than 0, and core.ErrBadState when the consumer is not
// idle.
func (k *Consumer) SetImmDataLen(n int) error {
	switch {
	case k.State() != core.Idle:
		return fmt.Errorf("comch: set the immediate data: the consumer is %v: %w", k.State(), core.ErrBadState)
	case n < 0 || n > maxImmData:
		return fmt.Errorf("comch: set the immediate data: %d bytes asked for, up to %d possible: %w", n, maxImmData, core.ErrInvalidValue)
	}
	k.imm = n
	return nil
}

// ImmDataLen returns what SetImmDataLen has set.
func (k *Consumer) ImmDataLen() int { return k.imm }

// Misses returns how often AllocPostRecv found no free task.
func (k *Consumer) Misses() uint64 { return k.tasks.Misses() }

// acknowledged is told whether the peer can reach the consumer. Attendant's
// goroutine.
func (k *Consumer) acknowledged(ok bool) {
	to := refused
	if ok {
		to = accepted
	}
	if k.phase.CompareAndSwap(uint32(offered), uint32(to)) {
		k.seat.notify()
	}
}

// withdrawn is told that the peer does not touch the consumer's memory any
// more. Attendant's goroutine.
func (k *Consumer) withdrawn() {
	if k.phase.CompareAndSwap(uint32(withdrawn), uint32(forgotten)) {
		k.seat.notify()
	}
}

func (k *Consumer) known() courtship { return courtship(k.phase.Load()) }
