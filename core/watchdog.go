package core

import (
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// A watchdog looks after one engine from a goroutine of its own. It reports
// an engine that has work and is not progressed, which is the first thing to
// look for when nothing seems to happen. It exists only when it is asked for.
type watchdog struct {
	log   *slog.Logger
	after time.Duration
	work  atomic.Int64  // tasks in flight
	put   atomic.Int64  // of these, completed with a report that was put off
	done  atomic.Uint64 // tasks completed
	beats atomic.Uint64 // Progress calls
	quit  chan struct{}
	gone  sync.WaitGroup
}

// SetWatchdog starts a watchdog: log hears of an engine that has tasks in
// flight but was not progressed for the time after, of reports that were put
// off and that nothing will bring, and of what contexts warn of. A nil log
// stops it. Off by default; Destroy stops it too.
func (e *Engine) SetWatchdog(log *slog.Logger, after time.Duration) error {
	if err := e.usable("set the watchdog"); err != nil {
		return err
	}
	if log != nil && after <= 0 {
		return fmt.Errorf("set the watchdog: a time of %v, more than 0 needed: %w", after, ErrInvalidValue)
	}
	e.watchdog.stop()
	e.watchdog = nil
	if log == nil {
		return nil
	}
	w := &watchdog{log: log, after: after, quit: make(chan struct{})}
	for _, c := range e.contexts {
		w.work.Add(int64(c.inflight))
		w.put.Add(int64(c.parked.len))
	}
	w.gone.Go(w.run)
	e.watchdog = w
	return nil
}

func (w *watchdog) stop() {
	if w != nil {
		close(w.quit)
		w.gone.Wait()
	}
}

// A stall is a condition that has held for some time. It is told once.
type stall struct {
	msg   string
	since time.Time
	told  bool
}

// look reports s when it has held for w.after, and forgets it when it is over.
func (w *watchdog) look(s *stall, now time.Time, holds bool, work int64) {
	switch {
	case !holds:
		*s = stall{msg: s.msg, since: now}
	case !s.told && now.Sub(s.since) >= w.after:
		s.told = true
		w.log.Warn(s.msg, "inflight", work, "for", now.Sub(s.since).Round(time.Millisecond))
	}
}

// run looks four times in the time after which it reports.
func (w *watchdog) run() {
	tick := time.NewTicker(max(w.after/4, time.Millisecond))
	defer tick.Stop()
	unattended := stall{since: time.Now(), msg: "a progress engine with tasks in flight is not progressed: call Progress or Run"}
	put := stall{since: time.Now(), msg: "no report is left to come: submit a task without SubmitOptimizeReports"}
	beats, done := w.beats.Load(), w.done.Load()
	for {
		select {
		case <-w.quit:
			return
		case now := <-tick.C:
			b, d, work := w.beats.Load(), w.done.Load(), w.work.Load()
			w.look(&unattended, now, work > 0 && b == beats, work)
			w.look(&put, now, work > 0 && work == w.put.Load() && d == done, work)
			beats, done = b, d
		}
	}
}
