package comch

import (
	"fmt"
	"sync"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/shmq"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// A remote is a consumer of the peer, as producers here see it: the queue with
// its posted receives, and the memory that they are in.
//
// Many producers, each on its own goroutine, send to one remote. What a message
// does to the queue happens under mu; a long copy is made outside of it and
// counted, so that the mappings stay until it is over.
type remote struct {
	id   uint16
	imm  int // most bytes of immediate data
	conn *Connection

	mu      sync.Mutex
	sender  *shmq.Sender
	memory  []byte
	pages   [2]*sys.Pages // of the queue and the memory
	copies  int           // copies that are being made outside of mu
	last    *sync.Cond    // the last of them ended
	retired bool          // nothing of the above exists any more, or soon will not
}

// newRemote takes over both mappings, on success and on failure.
func newRemote(c *Connection, o offer, queue, memory *sys.Pages) (*remote, error) {
	r := &remote{id: o.id, imm: int(o.imm), conn: c, memory: memory.Bytes(), pages: [2]*sys.Pages{queue, memory}}
	r.last = sync.NewCond(&r.mu)
	var err error
	if r.sender, err = shmq.NewSender(queue.Bytes(), int(o.receives), o.memory); err != nil {
		r.free()
		return nil, fmt.Errorf("comch: consumer %d: %w", o.id, err)
	}
	return r, nil
}

// retire waits until no producer is inside a copy, which is not long, and gives
// the mappings back. Tasks that have claimed a receive fail at their next turn.
func (r *remote) retire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retired {
		return
	}
	r.retired = true
	for r.copies > 0 {
		r.last.Wait()
	}
	r.free()
}

func (r *remote) free() {
	for _, p := range r.pages {
		_ = p.Free() // nothing can be done about it, and nobody uses it
	}
	r.sender, r.memory = nil, nil
}

// A start is how far the submit of a task came.
type start uint8

const (
	starved start = iota // no receive is posted
	claimed              // it has a receive, and is to be copied
	over                 // it has ended, and says how
)

// begin claims a receive for t, and sends the message at once if now says so.
// Only a task that was claimed has its buffers lent.
func (r *remote) begin(t *ProducerSend, now bool) start {
	r.mu.Lock()
	if r.retired {
		r.mu.Unlock()
		return t.end(r.conn.absent())
	}
	place, ok, err := r.sender.Peek()
	if !ok {
		r.mu.Unlock()
		if err == nil {
			return starved
		}
		r.conn.drop(fmt.Errorf("comch: consumer %d: %w", r.id, err))
		return t.end(core.ErrConnectionReset)
	}
	if t.size > place.Length || int(t.immLen) > r.imm {
		r.mu.Unlock()
		return t.end(core.ErrTooBig)
	}
	if !t.lend() {
		r.mu.Unlock()
		return t.end(core.ErrInvalidValue)
	}
	r.sender.Claim()
	t.remote, t.place = r, place
	if !now {
		r.mu.Unlock()
		return claimed
	}
	wake := r.publish(t, t.copy(r.memory[place.Off:], t.size))
	r.mu.Unlock()
	if wake {
		r.conn.ring()
	}
	return over
}

// advance copies at most n bytes of t, which is claimed, and ends it with the
// last of them.
func (r *remote) advance(t *ProducerSend, n int) {
	r.mu.Lock()
	if r.retired {
		r.mu.Unlock()
		t.end(r.conn.absent())
		return
	}
	r.copies++
	to := r.memory[t.place.Off:]
	r.mu.Unlock()

	ok := t.copy(to, min(n, t.size-t.copied))

	r.mu.Lock()
	if r.copies--; r.copies == 0 && r.retired {
		r.last.Broadcast()
	}
	wake := false
	switch {
	case r.retired:
		t.end(r.conn.absent())
	case !ok || t.copied == t.size:
		wake = r.publish(t, ok)
	}
	r.mu.Unlock()
	if wake {
		r.conn.ring()
	}
}

// absent is the status of a task whose consumer is not there: because it has
// stopped or never was, or because the whole connection is over.
func (c *Connection) absent() core.Status {
	if c.gone() {
		return core.ErrConnectionReset
	}
	return core.ErrNotFound
}

// publish ends t: it tells the consumer of the message, or, if memory was not
// there to be copied, that the receive comes back unused. The caller holds mu,
// and then wakes the peer if publish says so.
func (r *remote) publish(t *ProducerSend, ok bool) (wake bool) {
	if ok {
		r.sender.Arrive(t.place.Slot, t.size, t.from, t.imm[:t.immLen])
		t.end(core.Success)
	} else {
		r.sender.Void(t.place.Slot)
		t.end(core.ErrIOFailed)
	}
	return r.sender.Receiver().Take()
}

// want asks the peer to wake this side for the next receive that it posts, and
// reports whether there is one already, or none will ever come.
func (r *remote) want() (ready bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.retired {
		return true
	}
	r.sender.Wait().Set()
	return r.sender.Credit()
}

// fed is want without asking for anything.
func (r *remote) fed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.retired || r.sender.Credit()
}

// rung reports whether the peer has taken what want asked for.
func (r *remote) rung() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.retired || r.sender.Wait().Taken()
}
