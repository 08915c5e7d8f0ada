package comch

import (
	"fmt"

	"github.com/gantry-rdma/gantry/core"
)

// A backend is a control with the methods that core calls.
type backend struct{ *control }

var _ core.Backend = backend{}

// Start checks that everything is there that the side needs.
func (b backend) Start() error {
	switch {
	case b.sends.Size() == 0:
		return fmt.Errorf("no send tasks are configured: %w", core.ErrInitialization)
	case b.onMessage == nil:
		return fmt.Errorf("no message function is set: %w", core.ErrInitialization)
	}
	if len(b.incoming) < b.control.maxMessage {
		b.incoming = make([]byte, b.control.maxMessage)
	}
	b.stopping = false
	return b.side.start()
}

// Stop lets the connections end, each when what was sent on it is delivered.
func (b backend) Stop() error {
	if b.side.stop() {
		return nil
	}
	for _, c := range b.conns {
		c.closing = true
	}
	b.stopping = true
	return core.ErrInProgress
}

// Check is the full check of TrySubmit.
func (b backend) Check(t *core.Task) error { return b.sends.Of(t).check() }

// Submit puts the message into the queue of the peer, if there is room.
func (b backend) Submit(t *core.Task) error {
	s := b.sends.Of(t)
	s.written = false
	if s.conn.shut() {
		b.refused.push(s)
	} else {
		s.conn.send(s)
	}
	b.Notify() // it is up to Poll to report it
	return nil
}

// Flush does nothing: a message is on its way as soon as there is room.
func (b backend) Flush() {}

// Poll serves the connections in turn.
func (b backend) Poll(int) bool {
	if b.side.poll() {
		return true
	}
	if t := b.refused.pop(); t != nil {
		b.Complete(&t.Task, core.ErrConnectionReset)
		return true
	}
	for range b.conns {
		if b.turn >= len(b.conns) {
			b.turn = 0
		}
		c := b.conns[b.turn]
		b.turn++
		if c.poll() {
			return true // and touch nothing: the callback may have changed the list
		}
	}
	return false
}

// Arm lets the doorbells of all connections wake the engine.
func (b backend) Arm() bool {
	ready := b.side.ready() || b.refused.first != nil
	for _, c := range b.conns {
		ready = c.arm() || ready
	}
	return ready
}
