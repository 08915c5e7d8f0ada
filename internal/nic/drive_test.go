package nic

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
)

// A socket is a script that has to be asked for packets.
type socket struct {
	*script
	asked int
}

func (s *socket) Pollable() (fd int, ok bool) { return 0, true } // nobody looks at it

func (s *socket) Recv(frames []*frame.Frame) int {
	s.asked++
	return s.script.Recv(frames)
}

func TestWhatIsPostedLeavesBeforeTheSocketIsAsked(t *testing.T) {
	b := newBench(t)
	s := &socket{script: b.s}
	b.d.link, b.d.linkFD = s, 0
	b.d.driveIdle() // the queue pair is new
	s.asked = 0
	b.d.Drive(0)
	if s.asked != 1 {
		t.Fatalf("an idle device asked its socket %d times in a drive, want once", s.asked)
	}
	b.q.send.wake()
	b.d.Drive(0) // of one round
	if s.asked != 1 {
		t.Error("the socket was asked before what is due was done")
	}
	for n := 1; n < 4; n++ { // there is always something due
		b.q.send.wake()
		b.d.Drive(0)
		b.q.send.wake()
		b.d.Drive(0)
		if s.asked != 1+n {
			t.Fatalf("%d drives asked the socket %d times, want each other one", 2*n, s.asked-1)
		}
	}
	b.q.send.wake()
	b.d.driveIdle()
	if s.asked < 5 {
		t.Error("a drive that does all there is to do did not ask the socket")
	}
}

// Those that are woken together are let in a few at a time, and all of them
// before whoever is woken later.
func TestManyThatAreWokenAllHaveTheirTurn(t *testing.T) {
	a, b := newEnds(t, nil)
	var all []*half
	for range 3*dueRuns + 5 {
		q, err := a.d.NewQP(QPConfig{PD: a.pd, Transport: a.q.transport, SendCQ: a.sq, RecvCQ: a.rq, SendDepth: 1})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &q.send.half)
	}
	a.d.driveIdle()
	for _, h := range all {
		h.wake()
	}
	c := a.d.circle
	for rounds := 0; c.woken != nil || c.posted.top.Load() != nil; rounds++ {
		if rounds > len(all)/dueRuns {
			t.Fatalf("after %d rounds some of %d wait yet", rounds, len(all))
		}
		b.q.send.wake() // one that comes again and again
		a.d.Drive(0)
		for _, h := range all {
			if h.posted.Load() && h.list != listNone {
				t.Fatal("a half is due whose wakes are not seen any more")
			}
		}
	}
	for i, h := range all {
		if h.posted.Load() || h.list != listNone {
			t.Errorf("half %d had no turn", i)
		}
	}
}

func TestAnIdleCircleReadsNoClockAndMissesNothing(t *testing.T) {
	a, b := newEnds(t, nil)
	c := a.d.circle
	quiet := func() bool { return c.settled() && !c.wanted() }
	a.d.driveIdle()
	if !quiet() {
		t.Fatal("an idle circle has something to do")
	}
	c.now = 0
	if a.d.Drive(0); c.now != 0 {
		t.Error("an idle circle has read the clock")
	}
	a.d.timers.schedule(&a.q.send.half, 1)
	if quiet() {
		t.Error("a deadline is missed")
	}
	a.d.driveIdle()
	b.q.send.wake()
	if quiet() {
		t.Error("a wake is missed")
	}
	if c.woken = c.posted.take(); quiet() {
		t.Error("a half that was taken from the stack is missed")
	}
	if c.gather(); quiet() {
		t.Error("a half that is due is missed")
	}
	a.d.driveIdle()
	b.q.recv.disable()
	a.post(t, qp.OpSend, 1, 64, b)
	a.d.exclusively(func() {
		a.d.far = nil
		c.gather()
		c.exec(c.due.pop(), 16)
		deadline := a.d.timers.next.Swap(0)
		if quiet() {
			t.Error("a packet in the outbox is missed")
		}
		a.d.tx.send()
		a.d.far = b.d
		if quiet() {
			t.Error("a packet on the link is missed")
		}
		a.d.timers.next.Store(deadline)
	})
	b.q.recv.enable()
}

// The time that a drive works with is that of this drive.
func TestADriveKnowsWhatTimeItIs(t *testing.T) {
	a, b := newEnds(t, nil)
	a.d.driveIdle()
	c := a.d.circle
	longAgo := func() { c.now = 1 }
	a.d.exclusively(longAgo)
	b.receive(t, 1)
	a.post(t, qp.OpSend, 1, 64, b)
	a.d.Drive(0)
	if c.now != 0 {
		t.Error("a clock was read for a message that went whole")
	}
	a.d.exclusively(longAgo)
	before := instant()
	a.post(t, qp.OpRead, 1, 64, b) // waits for an answer
	a.d.Drive(0)
	if c.now < before {
		t.Error("a drive worked with the time of an earlier one")
	}
}

// In a circle that was calm when the drive began, no device is looked at, but for
// those that a half has stirred.
func TestWhatStirsACalmCircleIsLookedAt(t *testing.T) {
	a, b := newEnds(t, nil)
	c := a.d.circle
	a.d.driveIdle()
	b.receive(t, 1)
	a.post(t, qp.OpSend, 1, 64, b)
	if a.d.Drive(0); !c.calm || b.rq.ended(t) != 1 || a.sq.ended(t) != 1 {
		t.Error("a message that went whole has stirred a circle, or did not go")
	}
	a.d.exclusively(func() { a.d.far, b.d.far = nil, nil }) // packets go by the link
	a.cut = true
	b.receive(t, 1)
	a.post(t, qp.OpSend, 1, 64, b)
	if a.d.Drive(0); a.d.tx.n != 0 || b.d.bare.Empty() {
		t.Error("a packet did not leave with the drive in which it was sent")
	}
	a.d.driveIdle()
	if b.rq.ended(t) != 1 || a.sq.ended(t) != 1 {
		t.Error("a message that went by the link did not arrive")
	}
}
