package core

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/trace"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// A lockedBuffer is a log that a test may read while it is written.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestWatchdogReportsAnEngineThatIsNotProgressed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEngine(t)
		f := newFake(t, e, 2, freeIt, freeIt)
		var out lockedBuffer
		reports := func() int {
			synctest.Wait()
			return strings.Count(out.String(), "not progressed")
		}
		log := slog.New(slog.NewTextHandler(&out, nil))
		wantErr(t, "no time", e.SetWatchdog(log, 0), ErrInvalidValue)
		wantErr(t, "start", f.Start(), nil)
		wantErr(t, "submit", f.alloc(t).Submit(), nil)
		wantErr(t, "watch", e.SetWatchdog(log, time.Second), nil) // counts what is in flight already
		<-time.After(900 * time.Millisecond)
		if got := reports(); got != 0 {
			t.Errorf("%d reports before the time is over", got)
		}
		<-time.After(5 * time.Second)
		if got := reports(); got != 1 || !strings.Contains(out.String(), "inflight=1") {
			t.Errorf("%d reports of one stall, want 1: %s", got, out.String())
		}
		drain(e)
		<-time.After(5 * time.Second) // nothing in flight, nothing to report
		wantErr(t, "submit", f.alloc(t).Submit(), nil)
		<-time.After(2 * time.Second)
		if got := reports(); got != 2 {
			t.Errorf("%d reports of two stalls, want 2", got)
		}
		f.Warn("a source is empty", "task", 3)
		if want := `msg="a source is empty" context=fake task=3`; !strings.Contains(out.String(), want) {
			t.Errorf("log %q lacks %q", out.String(), want)
		}
		if !f.Watched() {
			t.Error("the context does not know that it is watched")
		}
		wantErr(t, "stop watching", e.SetWatchdog(nil, 0), nil)
		f.Warn("nobody hears this")
		if strings.Contains(out.String(), "nobody") {
			t.Error("a watchdog that was stopped wrote")
		}
	})
}

func TestWatchdogReportsReportsThatNeverCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newTestEngine(t)
		f := newFake(t, e, 2, freeIt, freeIt)
		var out lockedBuffer
		wantErr(t, "watch", e.SetWatchdog(slog.New(slog.NewTextHandler(&out, nil)), time.Second), nil)
		wantErr(t, "start", f.Start(), nil)
		wantErr(t, "submit", f.alloc(t).SubmitFlags(SubmitFlush|SubmitOptimizeReports), nil)
		for range 100 {
			<-time.After(20 * time.Millisecond)
			e.Progress()
		}
		synctest.Wait()
		if got := strings.Count(out.String(), "SubmitOptimizeReports"); got != 1 {
			t.Errorf("%d reports, want 1: %s", got, out.String())
		}
		if err := f.Stop(); err != ErrInProgress {
			t.Errorf("stop: %v", err)
		}
		drain(e)
		wantErr(t, "destroy", f.Destroy(), nil)
		wantErr(t, "destroy the engine", e.Destroy(), nil)
	})
}

// The range of a task goes into the trace as a task of runtime/trace, while a
// trace is being written, and only for tasks that ask for it.
func TestProfilingRangesAreInTheTrace(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 4, freeIt, freeIt)
	wantErr(t, "start", f.Start(), nil)
	j := f.alloc(t)
	wantErr(t, "submit", j.SubmitFlags(SubmitFlush|SubmitRangeProfiling), nil)
	if j.span != nil {
		t.Error("a range without a trace")
	}
	drain(e)
	name := filepath.Join(t.TempDir(), "trace")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	wantErr(t, "trace", trace.Start(file), nil)
	for range 3 {
		wantErr(t, "submit", f.alloc(t).SubmitFlags(SubmitFlush|SubmitRangeProfiling), nil)
	}
	wantErr(t, "submit", f.alloc(t).Submit(), nil)
	drain(e)
	trace.Stop()
	// Go builds the tool when it is first used.
	out, err := child.Within(t, 5*time.Minute, "go", "tool", "trace", "-d=parsed", name).CombinedOutput()
	if err != nil {
		t.Fatalf("go tool trace: %v\n%s", err, out)
	}
	for _, event := range []string{"TaskBegin", "TaskEnd"} {
		if got := strings.Count(string(out), event); got != 3 {
			t.Errorf("the trace has %d %s events, want 3", got, event)
		}
	}
	if !strings.Contains(string(out), `"fake job"`) {
		t.Error("the trace does not name the task type")
	}
}
