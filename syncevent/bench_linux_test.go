package syncevent

import (
	"context"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/notify"
)

func init() {
	roles["echo"] = playEcho
	roles["late"] = playLate
}

const (
	waitVariable  = "GANTRY_SYNCEVENT_TEST_WAIT"
	pauseVariable = "GANTRY_SYNCEVENT_TEST_PAUSE"
)

// playEcho answers every odd value with the next, until the owner is gone.
func playEcho(p *peer) error {
	e, err := p.imported()
	if err != nil {
		return err
	}
	if err := e.Start(); err != nil {
		return err
	}
	w := waits[0]
	if os.Getenv(waitVariable) == waits[1].name {
		w = waits[1]
	}
	for i := uint64(1); w.wait(e, context.Background(), Equal, i, all) == nil; i += 2 {
		_ = e.Set(i + 1)
	}
	return e.Destroy()
}

// playLate sets the value to the time of day, after a pause each time that it
// is told to.
func playLate(p *peer) error {
	pause, err := time.ParseDuration(os.Getenv(pauseVariable))
	if err != nil {
		return err
	}
	e, err := p.imported()
	if err != nil {
		return err
	}
	if err := e.Start(); err != nil {
		return err
	}
	for {
		p.line()
		notify.Nap(pause)
		_ = e.Set(uint64(time.Now().UnixNano()))
	}
}

// BenchmarkProcesses is a round between two processes, which
// wait in the same way.
func BenchmarkProcesses(b *testing.B) {
	for _, w := range waits {
		b.Run(w.name, func(b *testing.B) {
			d := openDevice(b)
			e, x := share(b, d, true)
			p := startProcess(b, "echo", waitVariable+"="+w.name)
			p.export(x)
			i := uint64(0)
			for b.Loop() {
				_ = e.Set(i + 1)
				i += 2
				_ = w.wait(e, b.Context(), Equal, i, all)
			}
		})
	}
}

// BenchmarkWakeUp is how late a blocked engine sees a value that another
// process sets, by how long it has been waiting.
func BenchmarkWakeUp(b *testing.B) {
	for _, pause := range []time.Duration{0, 100 * time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		b.Run(pause.String(), func(b *testing.B) {
			d := openDevice(b)
			r := newRig(b, newShared(b, d, true))
			p := startProcess(b, "late", pauseVariable+"="+pause.String())
			p.export(export(b, r.Event, d))
			late := make([]time.Duration, 0, 1000)
			for b.Loop() {
				r.done = r.done[:0]
				before, _ := r.Get()
				r.waitFor(1, NotEqual, before, all)
				p.say("go")
				for len(r.done) == 0 {
					want(b, "request", r.engine.RequestNotification(), nil)
					if !r.engine.Progress() {
						want(b, "wait", r.engine.Wait(b.Context()), nil)
					}
					want(b, "clear", r.engine.ClearNotification(), nil)
					r.progress()
				}
				late = append(late, time.Since(time.Unix(0, int64(r.done[0].value))))
			}
			slices.Sort(late)
			b.ReportMetric(float64(late[len(late)/2].Microseconds()), "us-p50")
			b.ReportMetric(float64(late[len(late)*99/100].Microseconds()), "us-p99")
		})
	}
}

// BenchmarkLongWait is what a second costs in which an engine waits for another
// process in vain.
func BenchmarkLongWait(b *testing.B) {
	r := newRig(b, newShared(b, openDevice(b), true))
	_ = export(b, r.Event, openDevice(b))
	r.waitFor(1, Equal, 1, all)
	cpu := func() time.Duration {
		var u syscall.Rusage
		want(b, "getrusage", syscall.Getrusage(syscall.RUSAGE_SELF, &u), nil)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before, seconds := cpu(), 0.0
	for b.Loop() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		want(b, "run", r.engine.Run(ctx, nil), context.DeadlineExceeded)
		cancel()
		seconds++
	}
	b.ReportMetric((cpu()-before).Seconds()*100/seconds, "cpu-%")
}
