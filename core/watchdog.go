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
	beats atomic.Uint64 // Progress calls
	quit  chan struct{}
	done  sync.WaitGroup
}

// SetWatchdog starts a watchdog: log hears of an engine that has tasks in
// flight but was not progressed for the time after, of tasks that do not
// complete while it is progressed, and of what contexts warn of. A nil log
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
	w.work.Store(int64(e.Inflight()))
	w.done.Go(w.run)
	e.watchdog = w
	return nil
}

func (w *watchdog) stop() {
	if w != nil {
		close(w.quit)
		w.done.Wait()
	}
}

// run looks once every quarter of the time, and reports a stall once.
func (w *watchdog) run() {
	tick := time.NewTicker(max(w.after/4, time.Millisecond))
	defer tick.Stop()
	since, last, told := time.Now(), w.beats.Load(), false
	for {
		select {
		case <-w.quit:
			return
		case now := <-tick.C:
			beats, work := w.beats.Load(), w.work.Load()
			if work == 0 || beats != last {
				since, last, told = now, beats, false
				continue
			}
			if !told && now.Sub(since) >= w.after {
				told = true
				w.log.Warn("a progress engine with tasks in flight is not progressed: call Progress or Run",
					"inflight", work, "idle_for", now.Sub(since).Round(time.Millisecond))
			}
		}
	}
}
