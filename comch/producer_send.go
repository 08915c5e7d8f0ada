package comch

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/shmq"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/mem"
)

// A ProducerSend is a task that sends the data of a buf list, or immediate
// data, or both, to a consumer of the peer. It is submitted, freed and asked
// for its status by the methods of core.Task.
//
// It succeeds when the message is in the consumer's buffer. It fails with
// core.ErrTooBig, and leaves the receive posted, when the message is longer than
// the buffer or the immediate data longer than the consumer takes; with
// core.ErrNotFound when the consumer does not exist or has stopped; with
// core.ErrConnectionReset when the connection is over; with core.ErrIOFailed
// when memory was not there; and with core.ErrInvalidValue for what TrySubmit
// would refuse.
type ProducerSend struct {
	core.Task
	buf    *mem.Buf
	to     uint16
	from   uint16
	immLen uint8
	imm    [maxImmData]byte

	// While it is in flight:
	over   bool        // nothing is left to do but to report it
	lent   bool        // buf is
	result core.Status // once it is over
	size   int         // bytes of data
	copied int         // bytes of these
	at     *mem.Buf    // the element that is copied next
	off    int         // bytes of its data that are copied
	remote *remote
	place  shmq.Receive
}

// AllocSend takes a task from the pool, for the data of buf, which may be nil,
// and for immediate data, which is copied and may be nil too, to the consumer
// with the identifier to. It answers core.ErrInvalidValue for immediate data
// longer than MaxImmData, core.ErrBadState when the producer is not running,
// and core.ErrNoMemory when all tasks are out.
func (p *Producer) AllocSend(buf *mem.Buf, imm []byte, to uint16) (*ProducerSend, error) {
	if len(imm) > maxImmData {
		return nil, core.ErrInvalidValue
	}
	t, err := p.tasks.Alloc()
	if err != nil {
		return nil, err
	}
	t.buf, t.to = buf, to
	t.immLen = uint8(copy(t.imm[:], imm))
	return t, nil
}

// Buf returns the head of the list that is sent.
func (t *ProducerSend) Buf() *mem.Buf { return t.buf }

// ConsumerID returns the identifier of the consumer.
func (t *ProducerSend) ConsumerID() uint16 { return t.to }

// Imm returns the immediate data; nil for none.
func (t *ProducerSend) Imm() []byte {
	if t.immLen == 0 {
		return nil
	}
	return t.imm[:t.immLen:t.immLen]
}

// SetBuf sets the head of the list that is sent. It answers core.ErrBadState
// while the task is in flight.
func (t *ProducerSend) SetBuf(b *mem.Buf) error {
	if !t.Owned() {
		return core.ErrBadState
	}
	t.buf = b
	return nil
}

// SetConsumerID sets whom it is sent to. It answers core.ErrBadState while the
// task is in flight.
func (t *ProducerSend) SetConsumerID(id uint16) error {
	if !t.Owned() {
		return core.ErrBadState
	}
	t.to = id
	return nil
}

// SetImm copies the immediate data; nil for none. It answers
// core.ErrBadState while the task is in flight, and core.ErrInvalidValue for
// more than MaxImmData.
func (t *ProducerSend) SetImm(imm []byte) error {
	switch {
	case !t.Owned():
		return core.ErrBadState
	case len(imm) > maxImmData:
		return core.ErrInvalidValue
	}
	t.immLen = uint8(copy(t.imm[:], imm))
	return nil
}

// wrong is what is wrong with a task, whoever it is sent to.
type wrong uint8

const (
	fine wrong = iota
	nothing
	tooMany
	tooMuch
	stopped
	elsewhere
)

// measure finds how much t sends, and what is wrong with that. It makes t ready
// for its way.
func (t *ProducerSend) measure(c *Connection) wrong {
	t.over, t.lent, t.remote = false, false, nil
	t.size, t.copied, t.at, t.off = 0, 0, t.buf, 0
	n := 0
	var known *mem.Map
	for b := t.buf; b != nil; b = b.Next() {
		n++
		t.size += b.DataLen()
		m := b.Map()
		if m == known {
			continue
		}
		switch {
		case m == nil || !m.Started():
			return stopped
		case !m.HasDevice(c.owner.device):
			return elsewhere
		}
		known = m
	}
	switch {
	case t.size == 0 && t.immLen == 0:
		return nothing
	case n > maxSendList:
		return tooMany
	case t.size > maxFastBuf:
		return tooMuch
	}
	return fine
}

// check is the full check of TrySubmit.
func (t *ProducerSend) check(p *Producer) error {
	var text string
	switch t.measure(p.conn) {
	case nothing:
		text = "there is neither data nor immediate data (a buf taken by address has no data: set it)"
	case tooMany:
		text = fmt.Sprintf("the list has more than %d elements", maxSendList)
	case tooMuch:
		text = fmt.Sprintf("%d bytes, %d are possible", t.size, maxFastBuf)
	case stopped:
		text = "a buf has no references, or is of a map that is not started"
	case elsewhere:
		text = "a buf is of a map without the device of this connection"
	}
	if text == "" && !t.lend() {
		text = "the buf has no references, is not the head of its list, or is being written by a task in flight"
	}
	t.giveBack()
	if text != "" {
		return fmt.Errorf("comch producer send: %s: %w", text, core.ErrInvalidValue)
	}
	r := p.conn.remote(t.to)
	switch {
	case p.conn.gone():
		return fmt.Errorf("comch producer send: the connection is %v: %w", p.conn.phase(), core.ErrConnectionReset)
	case r == nil:
		return fmt.Errorf("comch producer send: the peer has no consumer %d: %w", t.to, core.ErrNotFound)
	case int(t.immLen) > r.imm:
		return fmt.Errorf("comch producer send: %d bytes of immediate data, consumer %d takes %d: %w", t.immLen, t.to, r.imm, core.ErrTooBig)
	}
	return nil
}

// lend takes the list for the time that t is in flight.
func (t *ProducerSend) lend() bool {
	t.lent = t.buf != nil && t.buf.Lend() == nil
	return t.lent || t.buf == nil
}

// giveBack ends the loan.
func (t *ProducerSend) giveBack() {
	if t.lent {
		t.lent = false
		t.buf.Return()
	}
	t.remote = nil
}

// end says how t went. It is reported when its turn comes.
func (t *ProducerSend) end(s core.Status) start {
	t.over, t.result = true, s
	return over
}

// copy copies the next n bytes of t to their place in the receive buffer to.
// It reports false if memory was not there.
func (t *ProducerSend) copy(to []byte, n int) (ok bool) {
	for n > 0 {
		from := t.at.Data()[t.off:]
		k := min(len(from), n)
		if k > 0 {
			if _, ok := sys.Copy(to[t.copied:t.copied+k], from[:k]); !ok {
				return false
			}
		}
		n -= k
		t.copied += k
		if t.off += k; k == len(from) {
			t.at, t.off = t.at.Next(), 0
		}
	}
	return true
}
