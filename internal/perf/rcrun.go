package perf

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/notify"
)

// An rcPeer is the other end of a measurement, as the client sees it.
type rcPeer interface {
	// announce tells it of a slice before memory changes hands, and begin
	// lets it begin.
	announce(n int, each bool) error
	begin(n int, each bool)
	// step does some of its work, if that is done in this process, and reports
	// whether there was any.
	step() (did bool)
	// fault returns why it cannot go on.
	fault() error
	// moved reports whether all its messages of a slice are done, if that is
	// known; complete also whether the fences behind them are.
	moved() bool
	complete() bool
	// settle reports whether it waits for nothing more, now that all was sent.
	settle() bool
	// arrival says what has come to it in the last slice, over UC and UD.
	arrival() arrival
	// handOver is that of its end.
	handOver()
	// behind reports whether it has to answer, in this process, before anything
	// arrives at the client.
	behind(a *rcEnd) bool
	// wait blocks until something arrives at it, if that is in this process.
	wait(ctx context.Context) error
	// verify compares its memory with what has been sent.
	verify() error
	// report returns how many messages it has verified, and its counters.
	report() (verified uint64, t traffic, err error)
}

// An rcLocal is an end in the same process.
type rcLocal struct{ e *rcEnd }

func (l rcLocal) announce(int, bool) error       { return nil }
func (l rcLocal) begin(n int, each bool)         { l.e.begin(n, each) }
func (l rcLocal) fault() error                   { return l.e.failed }
func (l rcLocal) moved() bool                    { return l.e.moved() }
func (l rcLocal) complete() bool                 { return l.e.complete() }
func (l rcLocal) handOver()                      { l.e.handOver() }
func (l rcLocal) wait(ctx context.Context) error { return l.e.wait(ctx) }
func (l rcLocal) settle() bool                   { return l.e.settle() }
func (l rcLocal) arrival() arrival               { return l.e.arrival() }
func (l rcLocal) verify() error                  { return l.e.verify() }

func (l rcLocal) behind(a *rcEnd) bool {
	f := &l.e.flows[0]
	if l.e.lossy {
		return l.e.echoes && f.high < a.flows[0].posted
	}
	return l.e.echoes && f.got < a.flows[0].posted
}

// step is for ends that have completions to take. What else there is to do is
// done by the device, which the client drives too.
func (l rcLocal) step() bool {
	if l.e.complete() {
		return false
	}
	return l.e.step()
}

func (l rcLocal) report() (uint64, traffic, error) {
	return l.e.verified, l.e.port.traffic(), nil
}

// An rcRun is a client with its peer while they measure.
type rcRun struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	a      *rcEnd
	b      rcPeer

	slots  []byte                  // memory in which messages arrive, or that is like it
	turns  int                     // timed slices so far
	counts bool                    // slices count allocations
	allocs float64                 // the least of a message in a slice
	trips  *hdrhistogram.Histogram // round trips, of a latency
	posted int                     // messages of the last slice
	lost   int                     // of them, over UC and UD
	sent   int                     // messages of the slices that count
	gone   int                     // of them those that are lost
	asked  int                     // how often late was asked
	usual  time.Duration           // the time of a trip, over UC and UD
	either *eitherWait             // or nil
	guard  guard                   // it waits while nothing happens
	over   sync.WaitGroup          // who watches that
	failed error
}

func newRun(ctx context.Context, a *rcEnd, b rcPeer) *rcRun {
	r := &rcRun{a: a, b: b, slots: a.region}
	if near, ok := b.(rcLocal); ok && !a.test.pulls() {
		r.slots = near.e.region
	}
	if a.test.IsLatency() {
		r.trips = newLatencies()
	}
	r.ctx, r.cancel = context.WithCancelCause(ctx)
	var err error
	r.either, err = newEitherWait(r.ctx, a, b)
	r.fail(err)
	r.over.Go(func() { r.watch(silence(&a.test)) })
	return r
}

// close ends what a run has set going.
func (r *rcRun) close() {
	r.cancel(nil)
	r.over.Wait()
	_ = r.either.close() // of its own descriptors
}

// fail ends the measurement.
func (r *rcRun) fail(err error) {
	core.KeepFirst(&r.failed, err)
	if err != nil {
		r.cancel(err)
	}
}

// untilFailed is what a slice takes that did not take place: long enough for
// nobody to try a longer one.
const untilFailed = time.Second

// slice moves at least n messages, in all, and verifies the last of them, or
// each. It returns how many there were.
func (r *rcRun) slice(n int, each bool) (did int, took time.Duration) {
	flows := len(r.a.flows)
	per := max(1, (n+flows-1)/flows)
	if r.failed != nil {
		return n, untilFailed
	}
	if each && r.a.test.Op == "write_bw" { // none is overwritten before it is verified
		per = min(per, r.a.layout.slots)
	}
	if r.begin(per, each); r.failed != nil {
		return n, untilFailed
	}
	did = per * flows
	if r.a.test.Both {
		did *= 2
	}
	r.posted, r.lost = did, 0
	if !r.counts {
		took = r.move(per)
	} else {
		before := mallocs()
		took = r.move(per)
		r.allocs = min(r.allocs, float64(mallocs()-before)/float64(did))
	}
	r.finish()
	if r.a.lossy && r.failed == nil {
		return r.arrived(did, took)
	}
	return did, took
}

// begin begins a slice at both ends.
func (r *rcRun) begin(per int, each bool) {
	r.fail(r.b.announce(per, each))
	r.handOver()
	r.b.begin(per, each)
	r.a.begin(per, each)
}

// handOver lets the memory change hands, if somebody verifies it.
func (r *rcRun) handOver() {
	if r.a.test.fenced() && r.failed == nil {
		r.b.handOver()
		r.a.handOver()
		r.fail(r.drive(func() bool { return r.a.fences == 0 }))
	}
}

// move moves per messages on each flow.
func (r *rcRun) move(per int) time.Duration {
	start := time.Now()
	if r.a.test.IsLatency() {
		r.alternate(per)
	} else {
		r.fail(r.drive(r.moved))
	}
	return time.Since(start)
}

// moved reports whether the messages of a slice are done.
func (r *rcRun) moved() bool { return r.a.moved() && r.b.moved() }

// finish brings both ends to rest and verifies what they have.
func (r *rcRun) finish() {
	if r.failed != nil {
		return
	}
	r.b.complete() // it has to know before memory changes hands
	r.handOver()
	r.fail(r.drive(func() bool { return r.b.settle() && r.a.settle() && r.b.complete() && r.a.complete() }))
	if r.failed == nil {
		r.fail(r.a.verify())
	}
	if r.failed == nil {
		r.fail(r.b.verify())
	}
}

// looks is how many idle steps pass between two looks at the context.
const looks = 1 << 10

// drive lets both ends work until done reports true.
func (r *rcRun) drive(done func() bool) error {
	for idle := 0; !done(); {
		did := r.a.step()
		if did && done() { // the other end has nothing to do then
			break
		}
		did = r.b.step() || did
		if r.a.failed != nil {
			return r.a.failed
		}
		if did || r.a.help() {
			r.guard.over()
			idle = 0
			continue
		}
		if err := r.b.fault(); err != nil {
			return err
		}
		if idle++; idle%looks == 0 {
			if r.guard.wait(); r.ctx.Err() != nil {
				return context.Cause(r.ctx)
			}
		}
		if err := r.rest(idle); err != nil {
			return err
		}
	}
	r.guard.over()
	if r.a.failed != nil {
		return r.a.failed
	}
	return r.b.fault()
}

// rest is what the client does when there is nothing for it to do.
func (r *rcRun) rest(idle int) error {
	var next interface{ wait(context.Context) error }
	switch {
	case !r.a.test.Events:
	case r.b.behind(r.a):
		next = r.b
	case r.either.useful():
		r.guard.wait()
		return r.either.wait(r.ctx)
	case !r.a.complete():
		next = r.a
	case !r.b.complete():
		next = r.b
	}
	if next == nil {
		r.a.spin(idle)
		return nil
	}
	r.guard.wait()
	return next.wait(r.ctx)
}

// A poller that has found nothing for some turns, about 50 microseconds, lets
// goroutines that do the work have its processor. Yielding would not do: the
// runtime looks at the network only when nothing else wants to run, and a
// goroutine that yields always does. Where the other end is another process,
// which needs a CPU as well, it does so sooner: what is in flight takes longer
// than a nap then, but for a latency; and what nobody holds back is lost.
const (
	spinTurns      = 256
	spinTurnsApart = 32
	spinNap        = 20 * time.Microsecond
	// A poller that does all the work itself never naps. Seldom does it let
	// other goroutines run: with more than one processor that wakes a thread,
	// which goes on with the poller itself, on a CPU that another one may need.
	aloneTurns = 1 << 13
)

// help does some of the device's work, where a poller is to.
func (e *rcEnd) help() bool { return e.port.helps && e.port.dev.Drive(0) }

// spin is an idle turn of an end that polls. On an inline executor nobody but
// the poller does any work, so nobody is waited for.
func (e *rcEnd) spin(idle int) {
	switch {
	case e.test.Executor == "inline":
		if e.complete() { // it polls no more, and the other end may ask once more
			e.port.dev.Drive(0)
		}
		if e.courtesy.Turn(); idle%aloneTurns == 0 {
			runtime.Gosched() // to whoever reads the exchange
		}
	case idle > spinTurns, idle > spinTurnsApart && e.port.remote && !e.test.IsLatency() && !e.lossy:
		notify.Nap(spinNap)
	}
}

// holdThread keeps the calling goroutine on its thread until release, if it is to
// poll and does all the work itself. A goroutine that wakes, or that the runtime
// preempts, may go on with any thread: on the CPU where the other end polls, while
// its own is idle, until the kernel has noticed.
func (t *RCTest) holdThread() (release func()) {
	if t.Executor != "inline" || t.Events {
		return func() {}
	}
	runtime.LockOSThread()
	return runtime.UnlockOSThread
}

// mallocs returns how often the process has allocated.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}
