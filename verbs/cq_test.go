package verbs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/gantry-rdma/gantry/verbs"
	"github.com/gantry-rdma/gantry/work"
)

// eventRig has a completion channel for what a receives.
func eventRig(t *testing.T, da, db *Device) (*rig, *CompChannel, *CQ) {
	t.Helper()
	s := standard()
	r := newRig(t, da, db, s)
	ch := must(da.CreateCompChannel())(t)
	cq := must(da.CreateCQ(16, ch, "mine"))(t)
	if err := r.a.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	r.a.qp = must(r.a.pd.CreateQP(QPInit{Type: RC, SendCQ: r.a.scq, RecvCQ: cq, Cap: s.cap}))(t)
	if err := r.b.qp.Modify(QPAttr{State: StateReset}, AttrState); err != nil {
		t.Fatal(err)
	}
	connect(t, s, da, db, r.a.qp, r.b.qp)
	t.Cleanup(func() {
		if err := errors.Join(r.a.qp.Destroy(), cq.Destroy(), ch.Close()); err != nil {
			t.Error(err)
		}
	})
	return r, ch, cq
}

func patience(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func TestAnArmedQueueRaisesOneEvent(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r, ch, cq := eventRig(t, da, db)
		for range 3 {
			cq.Arm(false)
			r.a.recv(RecvWR{}, RecvWR{})
			r.b.send(SendWR{Opcode: WRSend}, SendWR{Opcode: WRSend, Flags: Signaled})
			got, err := ch.Get(patience(t))
			if err != nil || got != cq || got.User() != "mine" {
				t.Fatalf("got queue %p and error %v, want %p", got, err, cq)
			}
			cq.Ack(1)
			r.b.good(r.b.scq)
			r.a.good(cq)
			r.a.good(cq)
			if got, err := ch.TryGet(); err != EAGAIN {
				t.Errorf("got queue %p and error %v, want EAGAIN: it was armed once", got, err)
			}
		}
	})
}

func TestSolicitedArmingSkipsTheOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		r, ch, cq := eventRig(t, da, db)
		cq.Arm(true)
		r.a.recv(RecvWR{}, RecvWR{})
		r.b.send(SendWR{Opcode: WRSend, Flags: Signaled})
		r.b.good(r.b.scq)
		r.a.good(cq)
		if _, err := ch.TryGet(); err != EAGAIN {
			t.Errorf("got error %v, want EAGAIN: nothing was solicited", err)
		}
		r.b.send(SendWR{Opcode: WRSend, Flags: Signaled | Solicited})
		if got, err := ch.Get(patience(t)); err != nil || got != cq {
			t.Errorf("got queue %p and error %v, want %p", got, err, cq)
		}
		cq.Ack(1)
	})
}

// Whoever arms, polls once more, and then waits, misses nothing.
func TestNoEventIsLost(t *testing.T) {
	onEach(t, func(t *testing.T, x work.Executor) {
		da, db := pair(t, x)
		r, ch, cq := eventRig(t, da, db)
		const n = 1000
		failed := new(testing.T)
		go func() {
			var wc [4]WC
			for range n {
				for {
					if _, err := r.b.qp.PostSend(SendWR{Opcode: WRSend, Flags: Signaled}); err == nil {
						break
					}
					r.b.scq.Poll(wc[:])
				}
				r.b.scq.Poll(wc[:])
			}
		}()
		_ = failed
		var wc [4]WC
		for posted, got := 0, 0; got < n; {
			for posted < n && posted-got < 8 {
				r.a.recv(RecvWR{})
				posted++
			}
			k := cq.Poll(wc[:])
			if got += k; k > 0 {
				continue
			}
			cq.Arm(false)
			if k = cq.Poll(wc[:]); k > 0 {
				got += k
				continue
			}
			if _, err := ch.Get(patience(t)); err != nil {
				t.Fatalf("got error %v after %d of %d", err, got, n)
			}
			cq.Ack(1)
		}
		for ch2, err := ch.TryGet(); err == nil; ch2, err = ch.TryGet() {
			ch2.Ack(1)
		}
	})
}

func TestAWaitEndsWithItsContext(t *testing.T) {
	everywhere(t, func(t *testing.T, da, db *Device) {
		_, ch, _ := eventRig(t, da, db)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := ch.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want the context's", err)
		}
		if _, err := ch.Get(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got error %v, want the context's again", err)
		}
	})
}

func TestCloseEndsAWait(t *testing.T) {
	for _, x := range []work.Executor{work.NewInline(), work.NewWorkqueue(1)} {
		da, _ := pair(t, x)
		ch := must(da.CreateCompChannel())(t)
		done := make(chan error)
		for range 2 {
			go func() { _, err := ch.Get(context.Background()); done <- err }()
		}
		if err := ch.Close(); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := <-done; !errors.Is(err, EBADF) {
				t.Errorf("got error %v, want EBADF", err)
			}
		}
	}
}

func TestEventsHaveToBeAcknowledged(t *testing.T) {
	da, db := pair(t, work.NewInline())
	r, ch, cq := eventRig(t, da, db)
	cq.Arm(false)
	r.a.recv(RecvWR{})
	r.b.send(SendWR{Opcode: WRSend})
	if _, err := ch.Get(patience(t)); err != nil {
		t.Fatal(err)
	}
	if err := r.a.qp.Destroy(); err != nil {
		t.Fatal(err)
	}
	if err := cq.Destroy(); !errors.Is(err, EBUSY) {
		t.Errorf("got error %v, want EBUSY", err)
	}
	cq.Ack(1)
	r.a.qp = r.a.newQP(standard()) // for the end of the test
}

func TestResizeKeepsWhatIsInTheQueue(t *testing.T) {
	da, db := pair(t, work.NewInline())
	s := standard()
	s.cqe = 8
	r := newRig(t, da, db, s)
	for i := range uint64(6) {
		r.b.recv(RecvWR{ID: i})
		r.a.send(SendWR{ID: i, Opcode: WRSend, Flags: Signaled})
		r.a.good(r.a.scq)
	}
	until(t, "all receives", func() bool { return !db.Drive(0) && !da.Drive(0) })
	if err := r.b.cq.Resize(4); !errors.Is(err, EINVAL) {
		t.Errorf("got error %v for a queue that is too small, want EINVAL", err)
	}
	for i := range uint64(2) {
		if wc := r.b.good(r.b.cq); wc.ID != i {
			t.Errorf("got receive %d, want %d", wc.ID, i)
		}
	}
	if err := r.b.cq.Resize(100); err != nil || r.b.cq.Cap() != 128 {
		t.Errorf("got %d entries and error %v, want 128", r.b.cq.Cap(), err)
	}
	for i := uint64(2); i < 6; i++ {
		if wc := r.b.good(r.b.cq); wc.ID != i {
			t.Errorf("got receive %d, want %d", wc.ID, i)
		}
	}
}

func TestPollWrapsAroundTheRing(t *testing.T) {
	da, db := pair(t, work.NewInline())
	s := standard()
	s.cqe = 8
	r := newRig(t, da, db, s)
	next, wc := uint64(0), make([]WC, 16)
	for i := range uint64(50) {
		for k := range uint64(5) {
			r.a.send(SendWR{ID: 5*i + k, Opcode: WRRDMAWrite, Flags: Signaled})
		}
		for want := next + 5; next < want; {
			for _, c := range wc[:r.a.scq.Poll(wc)] {
				if c.ID != next {
					t.Fatalf("got completion %d, want %d", c.ID, next)
				}
				next++
			}
		}
	}
}
