package comch

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
)

// A Send is a task that sends one message to the peer of a connection. It is
// submitted, freed and asked for its status by the methods of core.Task.
//
// It succeeds when the message is in the peer's receive queue, and fails with
// core.ErrConnectionReset when the connection is over before that. Until then
// the message must not be changed.
type Send struct {
	core.Task
	conn    *Connection
	message []byte

	next    *Send // in the queue of its connection
	written bool  // the message is in the peer's queue
}

// AllocSend takes a task from the pool, for a message to the peer of c. The
// message may be empty. It answers core.ErrInvalidValue for a connection that
// is not one of this context and for a message that is longer than
// [Connection.MaxMessage], core.ErrBadState when the context is not running,
// and core.ErrNoMemory when all tasks are out: progress gives them back.
func (k *control) AllocSend(c *Connection, message []byte) (*Send, error) {
	if c == nil || c.owner != k || len(message) > c.maxMessage {
		return nil, core.ErrInvalidValue
	}
	t, err := k.sends.Alloc()
	if err != nil {
		return nil, err
	}
	t.conn, t.message = c, message
	return t, nil
}

// Connection returns the connection that the message goes over.
func (t *Send) Connection() *Connection { return t.conn }

// Message returns the message.
func (t *Send) Message() []byte { return t.message }

// SetMessage sets another message, for the next submit. It answers
// core.ErrBadState while the task is in flight, and core.ErrInvalidValue for
// a message that is too long.
func (t *Send) SetMessage(message []byte) error {
	switch {
	case !t.Owned():
		return core.ErrBadState
	case len(message) > t.conn.maxMessage:
		return core.ErrInvalidValue
	}
	t.message = message
	return nil
}

// check is the full check of TrySubmit. What a task asks for was checked when
// it was set; what is left is whether there still is a peer.
func (t *Send) check() error {
	if t.conn.shut() {
		return fmt.Errorf("comch: send %d bytes: the connection is %v: %w", len(t.message), t.conn.phase(), core.ErrConnectionReset)
	}
	return nil
}

// A sendQueue is a list of tasks, first in, first out.
type sendQueue struct{ first, last *Send }

func (q *sendQueue) push(t *Send) {
	t.next = nil
	if q.first == nil {
		q.first = t
	} else {
		q.last.next = t
	}
	q.last = t
}

func (q *sendQueue) pop() *Send {
	t := q.first
	if t != nil {
		q.first, t.next = t.next, nil
	}
	return t
}
