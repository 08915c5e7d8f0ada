package comch

import (
	"context"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

// waits arms the engine, parks on its descriptor until something happens, and
// progresses until done. It polls nowhere.
func (r *fastRig) waits(ctx context.Context, e *core.Engine, done func() bool) error {
	for !done() {
		if err := e.RequestNotification(); err != nil {
			return err
		}
		if err := e.Wait(ctx); err != nil {
			return err
		}
		if err := e.ClearNotification(); err != nil {
			return err
		}
		for e.Progress() {
		}
	}
	return nil
}

// A producer and a consumer that never poll send messages back and forth: the
// consumer sleeps until one arrives, the producer until a receive is posted.
func TestBothSidesSleepAndWake(t *testing.T) {
	const messages = 2000
	for name, m := range map[string]core.EventMode{"selective": core.ProgressSelective, "all": core.ProgressAll} {
		t.Run(name, func(t *testing.T) {
			r := newFastRig(t)
			receiving, sending := r.newEngine(), r.newEngine()
			r.want("mode", receiving.SetEventMode(m), nil)
			r.want("mode", sending.SetEventMode(m), nil)
			in := r.newSink(0, receiving, 1, 4096)
			out := r.newSource(1, sending, 1, 4096)
			in.start()
			ctx := r.background()
			received := 0
			in.onRecv = func(t *PostRecv) {
				if received++; received < messages {
					in.again(t)
				} else {
					in.drop(t)
				}
			}
			in.post(0, 64)
			failed := make(chan error, 1)
			go func() {
				failed <- r.waits(ctx, receiving, func() bool { return received == messages })
			}()
			task := out.task(0, 64, "", in.ID())
			out.onSent = func(*ProducerSend) {}
			refused := 0
			for i := range messages {
				for task.Submit() == core.ErrAgain {
					refused++
					tries := 0
					r.want("wait for a receive", r.waits(ctx, sending, func() bool { tries++; return tries > 1 }), nil)
				}
				r.want("wait for the completion", r.waits(ctx, sending, func() bool { return out.sent > i }), nil)
			}
			r.want("receive", <-failed, nil)
			out.drop(task)
			if refused == 0 {
				t.Error("the producer never waited for a receive")
			}
		})
	}
}

// An engine that waits and a doorbell that nobody rings: it sleeps. After
// traffic, too, nothing is left that would keep it awake.
func TestIdleEngineSleeps(t *testing.T) {
	r := newFastRig(t)
	e := r.newEngine()
	in := r.newSink(0, e, 4, 4096)
	out := r.newSource(0, e, 4, 4096)
	back := r.newSink(1, r.engine[1], 4, 4096)
	forth := r.newSource(1, r.engine[1], 4, 4096)
	in.start()
	back.start()
	got := 0
	in.onRecv = func(t *PostRecv) { got++; in.drop(t) }
	for i := range 5 {
		refused := out.task(0, 8, "", back.ID())
		r.want("submit", refused.Submit(), core.ErrAgain)
		out.drop(refused)
		in.post(0, 8)
		r.want("arm", e.RequestNotification(), nil)
		r.want("submit", forth.task(0, 8, "", in.ID()).Submit(), nil)
		r.want("wait", e.Wait(r.background()), nil)
		r.want("clear", e.ClearNotification(), nil)
		r.until("arrived", func() bool { return got == i+1 }, e)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	wakes := 0
	for ctx.Err() == nil {
		r.want("arm", e.RequestNotification(), nil)
		if e.Wait(ctx) == nil {
			wakes++
		}
		r.want("clear", e.ClearNotification(), nil)
		e.ProgressBatch(100)
	}
	if wakes > 20 {
		t.Errorf("%d wake-ups while nothing happened", wakes)
	}
}

// Two producers on engines of their own wait for the same consumer; both are
// woken, whoever empties the doorbell first.
func TestDoorbellIsSharedWithoutLosses(t *testing.T) {
	const messages = 1000
	r := newFastRig(t)
	receiving := r.newEngine()
	in := r.newSink(0, receiving, 2, 4096)
	in.start()
	ctx := r.background()
	received := 0
	in.onRecv = func(t *PostRecv) {
		if received++; received <= 2*messages-2 {
			in.again(t)
		} else {
			in.drop(t)
		}
	}
	in.post(0, 64)
	in.post(64, 64)
	failed := make(chan error, 2)
	for range 2 {
		e := r.newEngine()
		out := r.newSource(1, e, 1, 4096)
		task := out.task(0, 64, "", in.ID())
		out.onSent = func(*ProducerSend) {}
		r.Cleanup(func() { out.drop(task) })
		go func() {
			for i := range messages {
				for task.Submit() == core.ErrAgain {
					tries := 0
					if err := r.waits(ctx, e, func() bool { tries++; return tries > 1 }); err != nil {
						failed <- err
						return
					}
				}
				if err := r.waits(ctx, e, func() bool { return out.sent > i }); err != nil {
					failed <- err
					return
				}
			}
			failed <- nil
		}()
	}
	r.want("receive", r.waits(ctx, receiving, func() bool { return received == 2*messages }), nil)
	r.want("send", <-failed, nil)
	r.want("send", <-failed, nil)
}

// What happened before an engine is armed wakes it, though nobody rang: a
// receive that was posted since the submit that was refused, and a message that
// arrived.
func TestArmingLooksOnceMore(t *testing.T) {
	r := newFastRig(t)
	receiving, sending := r.newEngine(), r.newEngine()
	in := r.newSink(0, receiving, 1, 4096)
	out := r.newSource(1, sending, 1, 4096)
	in.start()
	task := out.task(0, 10, "", in.ID())
	r.want("submit", task.Submit(), core.ErrAgain)
	in.post(0, 10)
	wakes := func(e *core.Engine) {
		t.Helper()
		r.want("arm", e.RequestNotification(), nil)
		r.want("wait", e.Wait(r.background()), nil)
		r.want("clear", e.ClearNotification(), nil)
		if !e.Progress() {
			t.Error("woken for nothing")
		}
	}
	wakes(sending)
	if out.sent != 0 || sending.Progress() {
		t.Error("more than a hint to try again")
	}
	r.want("submit", task.Submit(), nil)
	got := 0
	in.onRecv = func(t *PostRecv) { got++; in.drop(t) }
	wakes(receiving)
	if got != 1 {
		t.Errorf("%d messages came, want 1", got)
	}
}
