package comch

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/shmq"
	"github.com/gantry-rdma/gantry/mem"
)

// A PostRecv is a task that receives one message into the room behind the data
// of a buf, to which it is added. It is submitted, freed and asked for its
// status by the methods of core.Task.
//
// It fails with core.ErrFlushed when the consumer is stopped, with
// core.ErrConnectionReset when the connection is over, and with
// core.ErrInvalidValue for what TrySubmit would refuse.
type PostRecv struct {
	core.Task
	buf  *mem.Buf
	lent bool
	got  shmq.Arrival
}

// AllocPostRecv takes a task from the pool, for a message into buf, which must
// be of the consumer's map; nil is for a message of immediate data only. It
// answers core.ErrBadState when the consumer is not running and
// core.ErrNoMemory when all tasks are out.
func (k *Consumer) AllocPostRecv(buf *mem.Buf) (*PostRecv, error) {
	t, err := k.tasks.Alloc()
	if err != nil {
		return nil, err
	}
	t.buf, t.got = buf, shmq.Arrival{}
	return t, nil
}

// Buf returns the buf that is received into.
func (t *PostRecv) Buf() *mem.Buf { return t.buf }

// SetBuf sets the buf that is received into. It answers core.ErrBadState while
// the task is in flight.
func (t *PostRecv) SetBuf(b *mem.Buf) error {
	if !t.Owned() {
		return core.ErrBadState
	}
	t.buf = b
	return nil
}

// ProducerID returns the number of the producer whose message it was, 0 before
// a message came.
func (t *PostRecv) ProducerID() uint16 { return t.got.From }

// Len returns how many bytes of data came: those that were added to the buf.
func (t *PostRecv) Len() int { return t.got.Length }

// Imm returns the immediate data, until the task is submitted again or freed;
// nil for none.
func (t *PostRecv) Imm() []byte {
	n := t.got.ImmLen
	if n == 0 {
		return nil
	}
	return t.got.Imm[:n:n]
}

// A flaw is what is wrong with a receive.
type flaw uint8

const (
	usable flaw = iota
	outside
	listed
	full
	huge
)

// measure finds what is wrong with t.
func (t *PostRecv) measure(k *Consumer) flaw {
	b := t.buf
	switch {
	case b == nil:
		return usable
	case b.Map() != k.mmap:
		return outside
	case b.InList():
		return listed
	case b.Tail() == 0:
		return full
	case b.Tail() > maxFastBuf:
		return huge
	}
	return usable
}

// check is the full check of TrySubmit.
func (t *PostRecv) check(k *Consumer) error {
	var text string
	switch t.measure(k) {
	case outside:
		text = "the buf has no references, or is not of the consumer's map"
	case listed:
		text = fmt.Sprintf("the buf is in a list, and %d element is possible", maxRecvList)
	case full:
		text = "the buf has no room behind its data (reset its data length to use it again)"
	case huge:
		text = fmt.Sprintf("the buf has %d bytes of room, %d are possible", t.buf.Tail(), maxFastBuf)
	}
	if text == "" && !t.lend() {
		text = "the buf is in use by a task in flight"
	}
	t.giveBack()
	switch {
	case text != "":
		return fmt.Errorf("comch post receive: %s: %w", text, core.ErrInvalidValue)
	case k.conn.gone():
		return fmt.Errorf("comch post receive: the connection is %v: %w", k.conn.phase(), core.ErrConnectionReset)
	}
	return nil
}

// lend takes the buf for the time that t is in flight.
func (t *PostRecv) lend() bool {
	t.lent = t.buf != nil && t.buf.LendToWrite() == nil
	return t.lent || t.buf == nil
}

// giveBack ends the loan.
func (t *PostRecv) giveBack() {
	if t.lent {
		t.lent = false
		t.buf.Return()
	}
}
