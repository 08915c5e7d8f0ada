package comch

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/shmq"
)

// The capabilities of the fast path, on every device that has it.
const (
	maxFastTasks = 8192            // of one producer or consumer
	maxFastBuf   = shmq.MaxLength  // bytes of a message
	maxSendList  = 64              // elements of the list of a send
	maxRecvList  = 1               // elements of the list of a receive
	maxReceives  = shmq.MaxDepth   // that a peer may announce for one consumer
	maxImmData   = shmq.MaxImmData // bytes of immediate data
	smallMessage = 4 << 10         // bytes up to which a message is sent within Submit
	stepBytes    = 4 << 10         // copied in one step of the budget of Poll
)

// ProducerSupported returns nil when the device can have producers, else an
// error with core.ErrNotSupported. Like the other capability queries it needs
// no open device.
func ProducerSupported(i *device.Info) error { return supported(i) }

// ProducerMaxTasks returns how many send tasks a producer can have.
func ProducerMaxTasks(i *device.Info) (uint32, error) { return maxFastTasks, supported(i) }

// ProducerMaxBufSize returns how many bytes a message can have.
func ProducerMaxBufSize(i *device.Info) (uint32, error) { return maxFastBuf, supported(i) }

// ProducerMaxBufListLen returns how many elements the list of a send can have.
func ProducerMaxBufListLen(i *device.Info) (uint32, error) { return maxSendList, supported(i) }

// MaxProducers returns how many producers one side of a connection can have.
func MaxProducers(i *device.Info) (uint32, error) { return maxSeats, supported(i) }

// A Producer sends messages to the consumers of its peer, straight into the
// buffers that they have posted. The embedded core.Context is its life; its
// start is synchronous. All methods belong to the goroutine of its engine,
// which need not be that of the server or client.
//
// A send is accepted when its consumer has a receive posted, else Submit
// answers core.ErrAgain. Receives become known without any progress, so Submit
// may be tried in a loop. A program that would rather wait arms its engine
// after an ErrAgain: Progress then reports true, without a completion, when it
// is worth trying again.
//
// What was accepted is sent, also when the producer is stopped. Messages of one
// producer reach a consumer in the order of their submits.
type Producer struct {
	core.Context
	conn  *Connection
	seat  *seat
	tasks core.TaskPool[ProducerSend, *ProducerSend]

	line    []*ProducerSend // a ring: submitted and not reported, in this order
	first   int             // of the ring
	length  int             // of the ring
	copying int             // how many of these are to be copied

	hungry  []*remote // what submits were refused for since the last wait
	waiting bool      // armed for these
}

// NewProducer makes a producer on an established connection, which it keeps
// until Destroy. It answers core.ErrInvalidValue for a nil connection,
// core.ErrBadState for one that is not established or over, and
// core.ErrNoMemory when this side of it has MaxProducers of them.
func NewProducer(c *Connection) (*Producer, error) {
	if c == nil {
		return nil, fmt.Errorf("comch: make a producer: the connection is nil: %w", core.ErrInvalidValue)
	}
	p := &Producer{conn: c, hungry: make([]*remote, 0, maxSeats)}
	p.Init((*producerBackend)(p), "comch producer")
	p.tasks.Init(&p.Context, "comch producer send")
	var err error
	if p.seat, err = c.join(&p.Context, seatProducer); err != nil {
		return nil, fmt.Errorf("make a producer: %w", err)
	}
	return p, nil
}

// Destroy ends an idle producer. It answers core.ErrBadState when it is not
// idle.
func (p *Producer) Destroy() error {
	if err := p.Context.Destroy(); err != nil {
		return err
	}
	p.seat.leave()
	return nil
}

// Connection returns the connection of the producer.
func (p *Producer) Connection() *Connection { return p.conn }

// ID returns the number that the peer's consumers see: unique among the
// producers of this side of the connection, and neither 0 nor 0xffff.
func (p *Producer) ID() uint16 { return p.seat.id }

// ConfigureSend sets the callbacks for messages that were sent and that were
// not, and the number n of tasks that exist. It answers core.ErrInvalidValue
// for a nil callback and for an n that is not from 1 to ProducerMaxTasks, and
// core.ErrBadState when the producer is not idle.
func (p *Producer) ConfigureSend(ok, fail func(*ProducerSend), n int) error {
	return p.tasks.Configure(ok, fail, n, maxFastTasks)
}

// Misses returns how often AllocSend found no free task.
func (p *Producer) Misses() uint64 { return p.tasks.Misses() }

// producerBackend is Producer with the methods that core calls.
type producerBackend Producer

var _ core.Backend = (*producerBackend)(nil)

// Start makes room for the configured number of tasks.
func (b *producerBackend) Start() error {
	n := b.tasks.Size()
	switch {
	case n == 0:
		return fmt.Errorf("no send tasks are configured: %w", core.ErrInitialization)
	case b.conn.gone():
		return fmt.Errorf("the connection is %v: %w", b.conn.phase(), core.ErrConnectionReset)
	}
	if len(b.line) != n {
		b.line = make([]*ProducerSend, n)
	}
	b.first, b.length, b.copying = 0, 0, 0
	b.seat.begin()
	return nil
}

// Stop has nothing to flush: every task in the line has its receive, and is
// sent. Poll does that without being woken.
func (b *producerBackend) Stop() error {
	b.hungry, b.waiting = b.hungry[:0], false
	b.seat.end()
	return nil
}

// Check is the full check of TrySubmit.
func (b *producerBackend) Check(t *core.Task) error { return b.tasks.Of(t).check((*Producer)(b)) }

// Submit claims a receive, and sends what is small at once.
func (b *producerBackend) Submit(t *core.Task) error {
	if b.conn.gone() {
		return core.ErrConnectionReset
	}
	s := b.tasks.Of(t)
	if b.begin(s) == starved {
		return core.ErrAgain
	}
	at := b.first + b.length
	if at >= len(b.line) {
		at -= len(b.line)
	}
	b.line[at] = s
	b.length++
	return nil
}

// begin says how far s came: to its end at once, if it can never be sent.
func (b *producerBackend) begin(s *ProducerSend) start {
	s.from = b.seat.id
	if s.measure(b.conn) != fine {
		return s.end(core.ErrInvalidValue)
	}
	r := b.conn.remote(s.to)
	if r == nil {
		return s.end(b.conn.absent())
	}
	came := r.begin(s, b.copying == 0 && s.size <= smallMessage)
	switch came {
	case starved:
		b.starve(r)
	case claimed:
		b.copying++
	}
	return came
}

// starve remembers that a submit was refused for want of receives.
func (b *producerBackend) starve(r *remote) {
	for _, h := range b.hungry {
		if h == r {
			return
		}
	}
	if len(b.hungry) == cap(b.hungry) {
		b.hungry = b.hungry[:0] // consumers that are gone, by now: start anew
	}
	b.hungry = append(b.hungry, r)
}

// Flush does nothing: Submit has done everything that cannot wait.
func (b *producerBackend) Flush() {}

// Poll copies some of the first task in the line, and reports it when it is
// over.
func (b *producerBackend) Poll(budget int) bool {
	if b.seat.armed {
		b.seat.settle(b.rung)
	}
	if b.length == 0 {
		return b.waiting && b.fed()
	}
	s := b.line[b.first]
	if !s.over {
		if b.conn.gone() {
			s.end(core.ErrConnectionReset)
		} else {
			s.remote.advance(s, budget*stepBytes)
		}
		if !s.over {
			return true
		}
		b.copying--
	}
	b.line[b.first] = nil
	if b.first++; b.first == len(b.line) {
		b.first = 0
	}
	b.length--
	s.giveBack()
	b.Complete(&s.Task, s.result)
	return true
}

// fed reports whether one of the submits that were refused is worth another
// try, once.
func (b *producerBackend) fed() bool {
	for _, r := range b.hungry {
		if b.conn.gone() || r.fed() {
			b.hungry, b.waiting = b.hungry[:0], false
			return true
		}
	}
	return false
}

// rung reports whether the peer has taken an arm word that Arm has set.
func (b *producerBackend) rung() bool {
	for _, r := range b.hungry {
		if r.rung() {
			return true
		}
	}
	return false
}

// Arm asks to be woken by the next receives of the consumers that had none.
func (b *producerBackend) Arm() bool {
	if b.length > 0 {
		return true
	}
	if len(b.hungry) == 0 {
		return false
	}
	b.waiting = true
	ready := !b.seat.arm()
	for _, r := range b.hungry {
		ready = r.want() || ready
	}
	return ready || b.conn.gone()
}
