package pingpong

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/gantry-rdma/gantry/internal/notify"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

// A game is the state of the messages that go to and fro.
type game struct {
	e         *end
	sent      int // messages that are complete: those behind wait for a completion
	received  int
	posted    int // sends
	receives  int // posted and not used up
	pending   int // recvID and sendID that the next send waits for
	empty     int // times that the device was asked in vain
	progress  time.Time
	late      bool // the limit was over, and the device has been asked once more
	intervals intervals
	courtesy  notify.Courtesy
}

// play sends and receives all messages, the client first.
func (e *end) play(ctx context.Context) (*game, time.Duration, error) {
	g := &game{e: e, pending: recvID, receives: e.test.Depth}
	if e.ch != nil {
		e.cq.Arm(false)
	} else {
		runtime.LockOSThread() // else the poller may move to the CPU of the other end
		defer runtime.UnlockOSThread()
	}
	begin := time.Now()
	g.progress = begin
	if e.client {
		if err := g.post(); err != nil {
			return g, 0, err
		}
	}
	for g.sent < e.test.Iters || g.received < e.test.Iters {
		if err := g.turn(ctx); err != nil {
			return g, time.Since(begin), err
		}
	}
	return g, time.Since(begin), nil
}

// turn waits for completions and handles them.
func (g *game) turn(ctx context.Context) error {
	var wc [2]verbs.WC
	var n int
	var err error
	if g.e.ch != nil {
		if err = g.await(ctx); err == nil {
			n = g.e.cq.Poll(wc[:])
		}
	} else {
		n, err = g.spin(ctx, wc[:])
	}
	for ; n > 0 && err == nil; n = g.e.cq.Poll(wc[:]) {
		g.progress, g.late = time.Now(), false
		for i := range wc[:n] {
			if err = g.complete(&wc[i]); err != nil {
				return err
			}
		}
	}
	return err
}

// looks is how often a device is asked in vain from one look at the time, and at
// whether the user has had enough, to the next.
const looks = 1024

// spin polls until there is a completion. Between two messages of a peer that is
// fast there are fewer looks than that, so they are counted over all messages.
func (g *game) spin(ctx context.Context, wc []verbs.WC) (int, error) {
	for {
		if n := g.e.cq.Poll(wc); n > 0 {
			return n, nil
		}
		g.courtesy.Turn()
		if g.empty++; g.empty%looks != 0 {
			continue
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		if time.Since(g.progress) > g.e.test.Limit {
			if err := g.limitOver(); err != nil {
				return 0, err
			}
		}
	}
}

// limitOver gives up when it is called for the second time. An end that had no
// CPU for as long as the limit looks once more: what it waits for may be there.
func (g *game) limitOver() error {
	if g.late {
		return g.stalled()
	}
	g.late = true
	return nil
}

// await parks until the completion queue has an event, and arms it again.
func (g *game) await(ctx context.Context) error {
	limited, cancel := context.WithDeadline(ctx, g.progress.Add(g.e.test.Limit))
	defer cancel()
	q, err := g.e.ch.Get(limited)
	switch {
	case err == nil:
		q.Ack(1)
		q.Arm(false)
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return g.limitOver()
	}
	return fmt.Errorf("wait for a completion: %w", err)
}

// complete handles one completion, and sends when its turn has come: when the
// answer to the last message is there, and the completion if it has one.
func (g *game) complete(wc *verbs.WC) error {
	if wc.Status != verbs.WCSuccess && g.proved(wc) {
		g.sent = g.posted
		return nil
	}
	if wc.Status != verbs.WCSuccess {
		return g.failed(wc)
	}
	if wc.ID == sendID {
		g.sent = g.posted // of those before it, too
	} else if err := g.arrived(wc); err != nil {
		return err
	}
	g.pending &^= int(wc.ID)
	if g.pending != 0 || g.posted == g.e.test.Iters {
		return nil
	}
	return g.post()
}

// proved reports whether a failure does not matter: the client has the answer to
// its last message, so that one has arrived. Its acknowledgement was lost, and an
// original has ended when it has all that it wants: nobody gives it again.
func (g *game) proved(wc *verbs.WC) bool {
	n := g.e.test.Iters
	return g.e.client && g.received == n && (wc.Status == verbs.WCRetryExc || g.sent == n)
}

// arrived handles a message.
func (g *game) arrived(wc *verbs.WC) error {
	e := g.e
	if got := int(wc.ByteLen) - e.grh; got != e.test.Size {
		return rendezvous.Errorf(rendezvous.ErrPeer, "message %d has %d bytes, and this end's have %d: give both ends the same --size",
			g.received+1, got, e.test.Size)
	}
	if e.checker != nil {
		if err := e.checker.check(e.message(), g.received); err != nil {
			return err
		}
	}
	if e.test.Times {
		g.intervals.add(time.Now())
	}
	g.received++
	if g.receives--; g.receives > 1 {
		return nil
	}
	err := e.postRecvs(e.test.Depth - g.receives)
	g.receives = e.test.Depth
	return err
}

// postRecvs posts n receives, which all share one memory: only one message is
// under way.
func (e *end) postRecvs(n int) error {
	wr := verbs.RecvWR{ID: recvID, SG: []verbs.SGE{e.mr.SGE(0, e.grh+e.test.Size)}}
	for range n {
		if _, err := e.qp.PostRecv(wr); err != nil {
			return fmt.Errorf("post a receive: %w", err)
		}
	}
	return nil
}

// post sends the next message. The memory is that of the last one, which may not
// be complete yet. The answer to it is there, so the peer has it: if it is sent
// again, nobody looks at the contents any more.
func (g *game) post() error {
	e := g.e
	if e.client && e.checker != nil {
		e.checker.known[0].fill(e.mem[e.send:], g.posted)
	}
	wr := verbs.SendWR{
		ID: sendID, Opcode: verbs.WRSend, SG: []verbs.SGE{e.mr.SGE(e.send, e.test.Size)},
	}
	pending := recvID
	if n := g.posted + 1; n%e.test.Moderation == 0 || n == e.test.Iters {
		wr.Flags, pending = verbs.Signaled, recvID|sendID
	}
	if e.test.Type == verbs.UD {
		wr.AH, wr.RemoteQPN, wr.RemoteQKey = e.ah, e.peer.QPN, qkey
	}
	if _, err := e.qp.PostSend(wr); err != nil {
		return fmt.Errorf("post message %d: %w", g.posted+1, err)
	}
	g.posted++
	g.pending = pending
	return nil
}

// How long an end of RC stays when it has all that it wants: the other end may
// miss an acknowledgement, and then asks again.
const (
	lingerLeast = 150 * time.Millisecond // without a packet: two timeouts of the originals
	lingerQuiet = time.Second            // the same at most, however long the timeout is
	lingerMost  = 2 * time.Second        // in all
	lingerLook  = 5 * time.Millisecond   // that one look in vain stands for, at most
)

// linger answers what the other end may still ask.
func (e *end) linger(ctx context.Context) {
	begin := time.Now()
	s := silence{lasts: max(min(2*e.test.timeout(), lingerQuiet), lingerLeast), last: begin, seen: e.dev.Counter("rcvd_pkts")}
	for ctx.Err() == nil && s.last.Sub(begin) < lingerMost {
		if !e.dev.Drive(0) {
			notify.Nap(time.Millisecond)
		}
		if s.over(time.Now(), e.dev.Counter("rcvd_pkts")) {
			return
		}
	}
}

// A silence is the time in which no packet comes. Of the time from one look to the
// next only a little counts: where this end gets no CPU for long, the other may
// have none either, and what it has asked meanwhile is there when this one looks.
type silence struct {
	lasts, heard time.Duration
	last         time.Time // of the looks
	seen         uint64    // packets
}

// over is called after each look. It reports whether the silence has lasted.
func (s *silence) over(now time.Time, packets uint64) bool {
	s.heard += min(now.Sub(s.last), lingerLook)
	if packets != s.seen {
		s.heard = 0
	}
	s.last, s.seen = now, packets
	return s.heard >= s.lasts
}
