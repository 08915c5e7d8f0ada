//go:build linux

package core

import (
	"context"
	"errors"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// readable asks the kernel about fd, without waiting.
func readable(t *testing.T, fd int) bool {
	t.Helper()
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	if err != nil && err != unix.EINTR {
		t.Fatal(err)
	}
	return n > 0
}

func notificationFD(t *testing.T, e *Engine) int {
	t.Helper()
	fd, err := e.FD()
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func TestDescriptorIsReadableWheneverArmedAndReady(t *testing.T) {
	for _, mode := range []EventMode{ProgressSelective, ProgressAll} {
		e := newTestEngine(t)
		f := newFake(t, e, 4, freeIt, freeIt)
		fd := notificationFD(t, e)
		wantErr(t, "mode", e.SetEventMode(mode), nil)
		wantErr(t, "start", f.Start(), nil)
		wantErr(t, "submit", f.alloc(t).Submit(), nil)
		if readable(t, fd) {
			t.Error("readable without a request")
		}
		wantErr(t, "request", e.RequestNotification(), nil)
		if !readable(t, fd) {
			t.Error("not readable although a task was ready before the request")
		}
		wantErr(t, "clear", e.ClearNotification(), nil)
		if readable(t, fd) {
			t.Error("readable after clear")
		}
		drain(e)
		wantErr(t, "request", e.RequestNotification(), nil)
		if readable(t, fd) {
			t.Error("readable with nothing to do")
		}
		wantErr(t, "submit", f.alloc(t).Submit(), nil)
		if !readable(t, fd) {
			t.Error("not readable although a task became ready after the request")
		}
		if drain(e) == 0 {
			t.Error("progress between request and clear did nothing")
		}
		wantErr(t, "clear", e.ClearNotification(), nil)
		if got := notificationFD(t, e); got != fd {
			t.Errorf("the descriptor changed from %d to %d", fd, got)
		}
		wantErr(t, "shut down", f.Shutdown(t.Context()), nil)
		wantErr(t, "destroy", f.Destroy(), nil)
		wantErr(t, "destroy the engine", e.Destroy(), nil)
	}
}

// What only Progress can do makes the descriptor readable too: the last step
// to idle, a start that goes on, a report that is due.
func TestStateWorkMakesTheDescriptorReadable(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 2, func(*job) {}, freeIt)
	fd := notificationFD(t, e)
	f.asyncStart = true
	wantErr(t, "start", f.Start(), ErrInProgress)
	wantErr(t, "request", e.RequestNotification(), nil)
	if !readable(t, fd) {
		t.Error("not readable while starting")
	}
	wantErr(t, "clear", e.ClearNotification(), nil)
	drain(e)
	j := f.alloc(t)
	wantErr(t, "stop", f.Stop(), ErrInProgress)
	wantErr(t, "request", e.RequestNotification(), nil)
	if readable(t, fd) {
		t.Error("readable although a task is not freed")
	}
	freeIt(j)
	if !readable(t, fd) {
		t.Error("not readable although the step to idle is due")
	}
	if !e.Progress() || f.State() != Idle {
		t.Errorf("the context is %v, want idle", f.State())
	}
}

// The six-line loop of an event-driven program, with completions made by
// another goroutine at the worst of moments: it must never hang.
func TestNoWakeUpIsLost(t *testing.T) {
	for _, mode := range []EventMode{ProgressSelective, ProgressAll} {
		const rounds = 30_000
		e := newTestEngine(t)
		r := newRelay(t, e)
		wantErr(t, "mode", e.SetEventMode(mode), nil)
		fd := notificationFD(t, e)
		var got atomic.Int64
		go func() {
			for i := int64(0); i < rounds; i++ {
				for got.Load() < i { // one at a time: each must wake the engine
				}
				r.ready.Add(1)
				r.Notify()
			}
		}()
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		for got.Load() < rounds {
			for e.Progress() {
				got.Add(1)
			}
			if got.Load() == rounds {
				break
			}
			wantErr(t, "request", e.RequestNotification(), nil)
			n, err := unix.Poll(poll, 10_000)
			if err != nil && err != unix.EINTR {
				t.Fatal(err)
			}
			if n == 0 {
				t.Fatalf("mode %d: asleep with %d of %d done and %d ready", mode, got.Load(), rounds, r.ready.Load())
			}
			wantErr(t, "clear", e.ClearNotification(), nil)
		}
	}
}

// A relay is a backend whose work is done elsewhere: ready counts what Poll
// may take.
type relay struct {
	Context
	ready atomic.Int64
	taken int
}

type relayBackend relay

func newRelay(t *testing.T, e *Engine) *relay {
	r := new(relay)
	r.Init((*relayBackend)(r), "relay")
	wantErr(t, "connect", e.Connect(&r.Context), nil)
	wantErr(t, "start", r.Start(), nil)
	return r
}

func (r *relayBackend) Start() error       { return nil }
func (r *relayBackend) Stop() error        { return nil }
func (r *relayBackend) Submit(*Task) error { return nil }
func (r *relayBackend) Check(*Task) error  { return nil }
func (r *relayBackend) Flush()             {}
func (r *relayBackend) Arm() bool          { return r.ready.Load() > 0 }
func (r *relayBackend) Poll(int) bool {
	if r.ready.Load() == 0 {
		return false
	}
	r.ready.Add(-1)
	r.taken++
	return true
}

func TestWaitEndsWithItsContext(t *testing.T) {
	e := newTestEngine(t)
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	wantErr(t, "wait", e.Wait(ctx), why)
	late, stop := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer stop()
	wantErr(t, "wait", e.Wait(late), context.DeadlineExceeded)
	r := newRelay(t, e)
	wantErr(t, "request", e.RequestNotification(), nil)
	go func() { r.ready.Add(1); r.Notify() }()
	wantErr(t, "wait", e.Wait(t.Context()), nil)
	wantErr(t, "run", e.Run(ctx, nil), why)
}

func TestRunServesWhatOthersMakeReady(t *testing.T) {
	e := newTestEngine(t)
	r := newRelay(t, e)
	const n = 2000
	go func() {
		for i := range n {
			for i%100 == 0 && pollers.Load() > 0 { // let Run fall asleep now and then
				runtime.Gosched()
			}
			r.ready.Add(1)
			r.Notify()
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	err := e.Run(ctx, func() bool { return r.taken == n })
	wantErr(t, "run", err, nil)
	if got := pollers.Load(); got != 0 {
		t.Errorf("%d pollers left", got)
	}
	if e.onlyEvents() {
		t.Error("Run left the engine armed")
	}
}

func TestSelectiveModeLeavesOutContextsWithoutAnEvent(t *testing.T) {
	e := newTestEngine(t)
	silent, loud := newRelay(t, e), newRelay(t, e)
	wantErr(t, "request", e.RequestNotification(), nil)
	silent.ready.Add(1) // became ready, but has no event of its own
	loud.ready.Add(1)
	loud.Notify()
	if !e.Progress() || loud.ready.Load() != 0 || e.Progress() {
		t.Error("want exactly the context with an event to be progressed")
	}
	wantErr(t, "clear", e.ClearNotification(), nil)
	if !e.Progress() || silent.ready.Load() != 0 {
		t.Error("the other one was lost by clear")
	}
}

func TestDescriptorsAndTimersOfBackendsWake(t *testing.T) {
	e := newTestEngine(t)
	r := newRelay(t, e)
	fd := notificationFD(t, e)
	rd, wr, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	defer wr.Close()
	wantErr(t, "watch", r.Watch(int(rd.Fd())), nil)
	if readable(t, fd) {
		t.Error("readable before anything was written")
	}
	if _, err := wr.Write([]byte{1}); err != nil {
		t.Fatal(err)
	}
	wantErr(t, "wait", e.Wait(t.Context()), nil)
	wantErr(t, "unwatch", r.Unwatch(int(rd.Fd())), nil)
	if readable(t, fd) {
		t.Error("readable although the pipe is not watched any more")
	}
	wantErr(t, "watch a bad one", r.Watch(-1), ErrOperatingSystem)
	start := time.Now()
	wantErr(t, "timer", r.WakeAfter(2*time.Millisecond), nil)
	wantErr(t, "wait", e.Wait(t.Context()), nil)
	if d := time.Since(start); d < 2*time.Millisecond {
		t.Errorf("woke after %v, want 2ms or more", d)
	}
	wantErr(t, "clear", e.ClearNotification(), nil)
	if readable(t, fd) {
		t.Error("readable after the timer was cleared")
	}

	// The earliest deadline counts, whoever asks last, until the next clear.
	start = time.Now()
	wantErr(t, "timer", r.WakeAfter(2*time.Millisecond), nil)
	wantErr(t, "a later timer", r.WakeAfter(time.Minute), nil)
	wantErr(t, "wait", e.Wait(t.Context()), nil)
	wantErr(t, "clear", e.ClearNotification(), nil)
	if d := time.Since(start); d > 30*time.Second {
		t.Errorf("woke after %v: the later deadline won", d)
	}
	wantErr(t, "timer", r.WakeAfter(time.Minute), nil)
	wantErr(t, "an earlier timer", r.WakeAfter(time.Millisecond), nil)
	wantErr(t, "wait", e.Wait(t.Context()), nil)
	wantErr(t, "clear", e.ClearNotification(), nil)
	wantErr(t, "timer", r.WakeAfter(time.Millisecond), nil)
	wantErr(t, "clear", e.ClearNotification(), nil)
	<-time.After(2 * time.Millisecond)
	if readable(t, fd) {
		t.Error("readable by a timer that was cleared before it expired")
	}
}

// A signal that is late, because its goroutine was interrupted between its two
// steps, makes the descriptor readable once for nothing, and not for ever.
func TestALateSignalIsTakenBack(t *testing.T) {
	e := newTestEngine(t)
	fd := notificationFD(t, e)
	wantErr(t, "request", e.RequestNotification(), nil)
	if !e.wanted.CompareAndSwap(armed, fired) { // the first step
		t.Fatal("the engine is not armed")
	}
	wantErr(t, "clear", e.ClearNotification(), nil)
	wantErr(t, "request", e.RequestNotification(), nil)
	e.set.Signal() // the second step
	wantErr(t, "wait", e.Wait(t.Context()), nil)
	wantErr(t, "clear", e.ClearNotification(), nil)
	if readable(t, fd) {
		t.Error("readable for ever")
	}
}
