package perf

import (
	"context"
	"errors"
	"fmt"

	"github.com/gantry-rdma/gantry/internal/notify"
	"github.com/gantry-rdma/gantry/verbs"
)

// arm has the next completion raise an event.
func (e *rcEnd) arm() {
	e.scq.Arm(false)
	e.rcq.Arm(false)
}

// wait blocks until there is a completion. It arms first, and looks once more.
func (e *rcEnd) wait(ctx context.Context) error {
	e.arm()
	if e.step() || e.complete() || e.failed != nil {
		return nil
	}
	outer := ctx
	if e.lossy { // what it waits for may be lost
		var end context.CancelFunc
		ctx, end = context.WithTimeout(ctx, lossyNap)
		defer end()
	}
	cq, err := e.ch.Get(ctx)
	if err != nil {
		if ctx.Err() != nil && outer.Err() == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	cq.Ack(1)
	return nil
}

// An eitherWait waits for both ends of a process at once. Where they need each
// other, who waits for one of them alone may wait for ever: for messages that the
// other one has no receives for, or does not post.
type eitherWait struct {
	ends [2]*rcEnd
	set  *notify.Set
	stop func() bool
}

// needEachOther reports whether the ends do: both send, or there may be more
// messages under way than receives.
func (t *RCTest) needEachOther() bool {
	sends := t.SendDepth
	if t.SRQ {
		sends *= t.QPs
	}
	return t.Both || !t.oneSided() && t.RecvDepth < 2*sends
}

// newEitherWait returns nil if a need not wait for an end of its process so.
func newEitherWait(ctx context.Context, a *rcEnd, peer rcPeer) (w *eitherWait, err error) {
	b, near := peer.(rcLocal)
	if !near || !a.test.Events || a.lossy || !a.test.needEachOther() {
		return nil, nil
	}
	s, err := notify.New()
	if err != nil {
		return nil, fmt.Errorf("wait for the events of two ends: %w", err)
	}
	w = &eitherWait{ends: [2]*rcEnd{a, b.e}, set: s}
	for _, e := range w.ends {
		fd, err := e.ch.FD()
		if err == nil {
			err = s.Add(fd)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("wait for the events of two ends: %w", err), s.Close())
		}
	}
	w.stop = context.AfterFunc(ctx, s.Interrupt)
	return w, nil
}

// close gives it up; nil: there is nothing to give up.
func (w *eitherWait) close() error {
	if w == nil {
		return nil
	}
	w.stop()
	return w.set.Close()
}

// useful reports whether it is to be waited so: both ends have something to do.
func (w *eitherWait) useful() bool {
	return w != nil && !w.ends[0].complete() && !w.ends[1].complete()
}

// wait blocks until an end has a completion. It arms first, and looks once more.
func (w *eitherWait) wait(ctx context.Context) error {
	did := false
	for _, e := range w.ends {
		e.arm()
		did = e.step() || e.complete() || e.failed != nil || did
	}
	for !did {
		for _, e := range w.ends {
			switch cq, err := e.ch.TryGet(); {
			case err == nil:
				cq.Ack(1)
				did = true
			case !errors.Is(err, verbs.EAGAIN):
				return err
			}
		}
		if !did && w.set.Wait() != nil {
			return context.Cause(ctx)
		}
	}
	return nil
}
