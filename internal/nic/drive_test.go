package nic

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
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
