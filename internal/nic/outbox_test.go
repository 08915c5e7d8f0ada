package nic

import (
	"slices"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/qp"
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

func newOutboxOn() (*outbox, *script, *drawer) {
	s := new(script)
	o := &outbox{link: s, timer: time.NewTimer(time.Hour)}
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
	o, s, d := newOutboxOn()
	o.add(d.frame(roce.RCAck), true)
	o.keep(roce.RCAck, 0)
	if o.n != 0 || o.kept == nil {
		t.Error("want the acknowledgement kept")
	}
	o.add(d.frame(roce.RCSendOnly), false)
	if !o.send() {
		t.Error("want all sent")
	}
	wantSent(t, s, roce.RCSendOnly, roce.RCAck)
	if o.kept != nil || d.back != 2 {
		t.Errorf("%d frames are back, want 2", d.back)
	}
}

func TestOnlyOneAcknowledgementIsKept(t *testing.T) {
	o, _, d := newOutboxOn()
	o.add(d.frame(roce.RCReadResponseOnly), true)
	if o.keep(roce.RCAck, 0); o.kept != nil {
		t.Error("kept an answer that is no acknowledgement")
	}
	o.add(d.frame(roce.RCAck), true)
	if o.keep(roce.RCAck, 0); o.kept == nil || o.n != 1 {
		t.Error("want the acknowledgement kept")
	}
	first := o.kept
	o.add(d.frame(roce.RCSendOnly), false)
	if o.keep(roce.RCSendOnly, 0); o.kept != first || o.n != 2 {
		t.Error("kept two")
	}
}

func TestAnswersStayInOrder(t *testing.T) {
	o, s, d := newOutboxOn()
	o.add(d.frame(roce.RCAck), true)
	o.keep(roce.RCAck, 0)
	o.add(d.frame(roce.RCAtomicAck), true)
	o.send()
	wantSent(t, s, roce.RCAck, roce.RCAtomicAck)
}

func TestWhatALinkDoesNotTakeStaysInOrder(t *testing.T) {
	o, s, d := newOutboxOn()
	o.add(d.frame(roce.RCAck), true)
	o.keep(roce.RCAck, 0)
	s.full = true
	o.add(d.frame(roce.RCSendOnly), false)
	if o.send() || o.n != 2 {
		t.Errorf("%d frames wait for a link that is full, want 2", o.n)
	}
	o.add(d.frame(roce.RCAtomicAck), true)
	s.full = false
	o.send()
	wantSent(t, s, roce.RCSendOnly, roce.RCAck, roce.RCAtomicAck)
}

func TestWhatIsKeptLeavesWithTheNextDrive(t *testing.T) {
	o, _, d := newOutboxOn()
	if o.add(d.frame(roce.RCAck), true); o.age() {
		t.Error("what is not kept is to leave late")
	}
	if o.keep(roce.RCAck, 0); o.age() {
		t.Error("what is kept is to leave with its own drive")
	}
	if !o.age() {
		t.Error("what is kept is to stay for another drive")
	}
}

func TestAClosedOutboxIsEmptyAndKeepsNothing(t *testing.T) {
	o, s, d := newOutboxOn()
	o.add(d.frame(roce.RCAck), true)
	o.keep(roce.RCAck, 0)
	o.close()
	wantSent(t, s, roce.RCAck)
	o.add(d.frame(roce.RCAck), true)
	if o.keep(roce.RCAck, 0); o.kept != nil {
		t.Error("a closed outbox keeps a frame")
	}
	o.expire(0) // a timer that was under way
}

// While the program drives, the timer looks less and less often. After it has
// found that the program does not, it looks early.
func TestTheTimerIsSeldomAsLongAsTheProgramDrives(t *testing.T) {
	const ms = qp.Instant(time.Millisecond)
	o, s, d := newOutboxOn()
	keep := func(at qp.Instant) {
		o.add(d.frame(roce.RCAck), true)
		o.keep(roce.RCAck, at)
	}
	for n, want := range []time.Duration{1, 2, 4, 8, 8} {
		now := qp.Instant(n) * 10 * ms
		keep(now)
		if o.pause != want*time.Millisecond {
			t.Errorf("look %d: got a pause of %v, want %d ms", n, o.pause, want)
		}
		o.send() // with what the program had to send
		o.expire(now + 5*ms)
	}
	keep(100 * ms)
	o.expire(104 * ms)
	if n := len(s.left()); n != 6 || o.pause != lateness {
		t.Errorf("%d acknowledgements left, and the pause is %v; want 6, and the shortest", n, o.pause)
	}
	o.expire(105 * ms)
	if o.armed {
		t.Error("the timer goes on without traffic")
	}
}

// The frames of a half that stops are taken out, those of others stay.
func TestTheFramesOfAHalfAreTakenOut(t *testing.T) {
	b := newBench(t)
	other := b.newQP(t)
	b.s.mu.Lock()
	b.s.full = true
	b.s.mu.Unlock()
	for _, q := range []*QP{b.q, other, b.q} {
		b.d.exclusively(func() {
			f := q.recv.Frame()
			f.HeadLen = uint8(roce.Build((*[roce.HeadSize]byte)(&f.Head), roce.RCAck).Len())
			q.recv.Emit(f)
		})
	}
	b.q.recv.discard()
	if n := b.d.tx.n; n != 1 || b.d.tx.frames[0].Owner.(*outFrame).half != &other.recv.half {
		t.Errorf("%d frames are left, want that of the other queue pair", n)
	}
	if !b.q.recv.idle(0) || other.recv.idle(0) && other.recv.idle(1) {
		t.Error("want the frames that were taken out back, and the other one out")
	}
}
