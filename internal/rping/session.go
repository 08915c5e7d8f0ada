package rping

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/cm"
	"github.com/gantry-rdma/gantry/internal/notify"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

// What the original asks of a connection.
const (
	queueDepth = 16
	retryCount = 7
	rnrRetry   = 7
)

// What the work requests of a session are known by.
const (
	received = 1 << iota
	sent
	moved // READ or WRITE
)

// A session is one end of one connection. It belongs to one goroutine; the one
// that runs the desk calls happened.
type session struct {
	t      *Test
	desk   *desk
	id     *cm.ID
	ctx    context.Context // of the connection: its cause says why it ended
	end    context.CancelCauseFunc
	events chan cm.Event

	ch *verbs.CompChannel
	cq *verbs.CQ
	qp *verbs.QP
	mr *verbs.MR
	// mem begins with the message that comes in. The text is at textAt, and at a
	// client what comes back is behind it.
	mem []byte

	done int    // completions that were not waited for yet
	bad  error  // the first one in error
	last advert // that came in

	begin  time.Time
	result Result
	undo   []func() error
}

// textAt is where the text begins, on a line of its own.
const textAt = 64

// newSession makes a session and makes it known to the desk. It owns id.
func newSession(ctx context.Context, t *Test, d *desk, id *cm.ID) *session {
	s := &session{t: t, desk: d, id: id, events: make(chan cm.Event, 4)}
	s.ctx, s.end = context.WithCancelCause(ctx)
	d.enter(s)
	return s
}

// then adds to what close undoes.
func (s *session) then(f func() error) { s.undo = append(s.undo, f) }

// close gives all up, in the opposite order.
func (s *session) close() error {
	s.end(nil)
	s.desk.leave(s)
	err := patient(s.id.Close)
	if errors.Is(err, verbs.EBUSY) && s.qp != nil {
		err = patient(s.qp.Destroy)
	}
	errs := []error{err}
	for i := len(s.undo) - 1; i >= 0; i-- {
		errs = append(errs, patient(s.undo[i]))
	}
	return errors.Join(errs...)
}

// patient gives a peer time to take its packets.
func patient(f func() error) (err error) {
	for range 100 {
		if err = f(); !errors.Is(err, verbs.EBUSY) {
			return err
		}
		notify.Nap(10 * time.Millisecond)
	}
	return err
}

// equip makes what the session works with: memory of so many bytes behind the
// message, and a queue pair with a receive posted.
func (s *session) equip(room int) (err error) {
	dev := s.desk.ch.Device()
	pd := dev.AllocPD()
	s.then(pd.Dealloc)
	s.mem = make([]byte, textAt+room)
	access := verbs.AccessLocalWrite | verbs.AccessRemoteRead | verbs.AccessRemoteWrite
	if s.mr, err = pd.RegMR(s.mem, access); err != nil {
		return fmt.Errorf("register the memory of the texts: %w", err)
	}
	s.then(s.mr.Dereg)
	if s.ch, err = dev.CreateCompChannel(); err != nil {
		return fmt.Errorf("make a completion channel: %w", err)
	}
	s.then(s.ch.Close)
	if s.cq, err = dev.CreateCQ(2*queueDepth, s.ch, nil); err != nil {
		return fmt.Errorf("make a completion queue: %w", err)
	}
	s.then(s.cq.Destroy)
	s.cq.Arm(false)
	s.qp, err = s.id.CreateQP(pd, verbs.QPInit{
		Type: verbs.RC, SendCQ: s.cq, RecvCQ: s.cq,
		Cap: verbs.QPCap{MaxSendWR: queueDepth, MaxRecvWR: 2, MaxSendSGE: 1, MaxRecvSGE: 1, MaxInline: advertLen},
	})
	if err != nil {
		return fmt.Errorf("make a queue pair: %w", err)
	}
	return s.postRecv()
}

func (s *session) postRecv() error {
	if _, err := s.qp.PostRecv(verbs.RecvWR{ID: received, SG: []verbs.SGE{s.mr.SGE(0, textAt)}}); err != nil {
		return s.refused("post a receive", err)
	}
	return nil
}

// send posts a message. Its bytes are copied: they are the peer's to take for as
// long as its acknowledgement is out.
func (s *session) send(a advert) error {
	b := a.bytes()
	return s.post("post a message", verbs.SendWR{
		ID: sent, Opcode: verbs.WRSend, Flags: verbs.Signaled | verbs.Inline, Data: b[:],
	})
}

// move posts a READ or a WRITE between the text and the memory of the peer.
func (s *session) move(op verbs.Opcode, a advert, n int) error {
	return s.post("post a READ or WRITE", verbs.SendWR{
		ID: moved, Opcode: op, Flags: verbs.Signaled, SG: []verbs.SGE{s.mr.SGE(textAt, n)},
		RemoteAddr: a.addr, RKey: a.rkey,
	})
}

func (s *session) post(what string, wr verbs.SendWR) error {
	if _, err := s.qp.PostSend(wr); err != nil {
		return s.refused(what, err)
	}
	return nil
}

// refused explains an error of a queue: the connection may have ended meanwhile.
func (s *session) refused(what string, err error) error {
	if s.ctx.Err() != nil {
		return context.Cause(s.ctx)
	}
	return fmt.Errorf("%s: %w", what, err)
}

// wait waits for completions, for the limit at most. What has completed counts,
// even if the connection has ended since.
func (s *session) wait(need int, what string) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.t.Limit)
	defer cancel()
	for {
		if err := s.drain(); err != nil {
			return err
		}
		if s.done&need == need {
			s.done &^= need
			return nil
		}
		if s.bad != nil {
			return s.bad
		}
		q, err := s.ch.Get(ctx)
		switch {
		case err == nil:
			q.Ack(1)
			q.Arm(false)
		case s.ctx.Err() != nil:
			return context.Cause(s.ctx)
		case ctx.Err() != nil:
			return s.silent(what)
		default:
			return fmt.Errorf("wait for a completion: %w", err)
		}
	}
}

// drain takes the completions that are there.
func (s *session) drain() error {
	var wc [4]verbs.WC
	for n := s.cq.Poll(wc[:]); n > 0; n = s.cq.Poll(wc[:]) {
		for i := range wc[:n] {
			c := &wc[i]
			switch {
			case s.bad != nil: // what follows an error is flushed
			case c.Status != verbs.WCSuccess:
				s.bad = s.failed(c)
			case c.ID != received:
				s.done |= int(c.ID)
			default:
				if err := s.arrived(c); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// arrived takes a message, and makes room for the next one before the peer can
// send it.
func (s *session) arrived(c *verbs.WC) error {
	if c.ByteLen != advertLen {
		return rendezvous.Errorf(rendezvous.ErrPeer, "a message of %d bytes has come, and those of rping have %d: is rping at the other end", c.ByteLen, advertLen)
	}
	if s.done&received != 0 {
		return rendezvous.Errorf(rendezvous.ErrPeer, "two messages have come where rping sends one, and waits")
	}
	s.last = advertOf(s.mem)
	s.done |= received
	return s.postRecv()
}

// text returns the text of a size.
func (s *session) text(size int) []byte { return s.mem[textAt:][:size] }

// note notes that a ping has come to its end.
func (s *session) note(size int) {
	r := &s.result
	r.Count++
	r.Size = max(r.Size, size)
	r.Verified = s.t.Check
	r.Seconds = time.Since(s.begin).Seconds()
}

// leave ends the connection and lets the peer know, which may take a moment.
func (s *session) leave() error {
	if err := s.id.Disconnect(); err != nil {
		return fmt.Errorf("disconnect: %w", err)
	}
	select {
	case <-s.ctx.Done():
	case <-time.After(min(s.t.Limit, farewell)):
	}
	return nil
}

// farewell is how long a peer may take to answer that the connection is over.
const farewell = 2 * time.Second
