package nic

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// drawer owns the frames of these tests.
type drawer struct{ back int }

func (d *drawer) FrameBack(*frame.Frame) { d.back++ }

func (d *drawer) frame(o roce.Opcode) *frame.Frame {
	f := &frame.Frame{Owner: d, Peer: there}
	f.HeadLen = uint8(roce.Build((*[roce.HeadSize]byte)(&f.Head), o).Len())
	return f
}

func newOutboxOn(t *testing.T) (*outbox, *script, *drawer) {
	s := new(script)
	o := newOutbox(s)
	t.Cleanup(o.close)
	return o, s, new(drawer)
}

// left returns what was sent so far.
func (s *script) left() []roce.Opcode {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.sent)
}

func wantSent(t *testing.T, s *script, want ...roce.Opcode) {
	t.Helper()
	if got := s.left(); !slices.Equal(got, want) {
		t.Errorf("sent %v, want %v", got, want)
	}
}

func TestAnAcknowledgementLeavesBehindTheNextRequest(t *testing.T) {
	o, s, d := newOutboxOn(t)
	if !o.keep(d.frame(roce.RCAck)) || o.keep(d.frame(roce.RCAck)) {
		t.Error("want one acknowledgement kept, and one refused")
	}
	wantSent(t, s)
	if n := o.send([]*frame.Frame{d.frame(roce.RCSendOnly)}, false); n != 1 {
		t.Errorf("took %d requests, want 1", n)
	}
	wantSent(t, s, roce.RCSendOnly, roce.RCAck)
	if o.full.Load() || d.back != 2 {
		t.Errorf("%d frames are back, want 2", d.back)
	}
}

func TestAnswersStayInOrder(t *testing.T) {
	o, s, d := newOutboxOn(t)
	o.keep(d.frame(roce.RCAck))
	if n := o.send([]*frame.Frame{d.frame(roce.RCAtomicAck)}, true); n != 1 {
		t.Errorf("took %d answers, want 1", n)
	}
	wantSent(t, s, roce.RCAck, roce.RCAtomicAck)
}

func TestAnAnswerWaitsForTheOneBeforeIt(t *testing.T) {
	o, s, d := newOutboxOn(t)
	o.keep(d.frame(roce.RCAck))
	s.full = true
	if n := o.send([]*frame.Frame{d.frame(roce.RCAtomicAck)}, true); n != 0 {
		t.Errorf("took %d answers while the link is full, want 0", n)
	}
	if n := o.send([]*frame.Frame{d.frame(roce.RCSendOnly)}, false); n != 0 || !o.full.Load() {
		t.Errorf("took %d requests while the link is full, want 0", n)
	}
	s.full = false
	o.age()
	wantSent(t, s)
	o.age()
	wantSent(t, s, roce.RCAck)
}

func TestWhatIsKeptLeavesWhenNobodyDrives(t *testing.T) {
	o, s, d := newOutboxOn(t)
	for n := range 3 {
		if !o.keep(d.frame(roce.RCAck)) {
			t.Fatal("an empty outbox keeps nothing")
		}
		for end := time.Now().Add(10 * time.Second); len(s.left()) == n; runtime.Gosched() {
			if time.Now().After(end) {
				t.Fatalf("acknowledgement %d did not leave", n)
			}
		}
	}
}

func TestAClosedOutboxIsEmpty(t *testing.T) {
	o, s, d := newOutboxOn(t)
	o.keep(d.frame(roce.RCAck))
	s.full = true
	o.close()
	if s.full = false; !o.full.Load() || o.keep(d.frame(roce.RCAck)) {
		t.Error("a closed outbox lost what it kept, or keeps more")
	}
	o.close()
	wantSent(t, s, roce.RCAck)
}
