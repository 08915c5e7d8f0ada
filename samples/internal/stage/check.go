package stage

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/dma"
)

// Check counts a task that succeeded, and compares every byte of its
// destination with its User.
func (s *Stage) Check(t *dma.Memcpy) {
	s.Completed++
	got, want := t.Dst().Data(), byte(t.User)
	if len(got) != Size {
		s.Keep(fmt.Errorf("task %d: the destination has %d bytes of data, want %d: %w",
			t.User, len(got), Size, core.ErrUnexpected))
		return
	}
	if i := slices.IndexFunc(got, func(b byte) bool { return b != want }); i >= 0 {
		s.Keep(fmt.Errorf("task %d: byte %d of the destination is %#x, want %#x: %w",
			t.User, i, got[i], want, core.ErrUnexpected))
	}
}

// Count counts a task that did not succeed: as flushed if its context was
// stopped before it ran, else as failed.
func (s *Stage) Count(t *dma.Memcpy) {
	if errors.Is(t.Status(), core.ErrFlushed) {
		s.Flushed++
	} else {
		s.Failed++
	}
}

// Fail counts a task that should have succeeded, and keeps its status.
func (s *Stage) Fail(t *dma.Memcpy) {
	s.Count(t)
	s.Keep(fmt.Errorf("task %d: %w", t.User, t.Status()))
}

// Back returns how many tasks came back, each time counted.
func (s *Stage) Back() int { return s.Completed + s.Failed + s.Flushed }

// Saw notes a transition of a context. It is the state callback, or is called
// by it.
func (s *Stage) Saw(_ *core.Context, prev, next core.State) {
	s.States = append(s.States, prev.String()+">"+next.String())
}

// Tally ends the counting: it keeps an error unless so many tasks came back each
// way, and tells how it went.
func (s *Stage) Tally(completed, failed, flushed int) {
	s.Say("%d completed, %d failed, %d flushed", s.Completed, s.Failed, s.Flushed)
	if s.Completed != completed || s.Failed != failed || s.Flushed != flushed {
		s.Keep(fmt.Errorf("%d tasks completed, %d failed and %d were flushed; want %d, %d and %d: %w",
			s.Completed, s.Failed, s.Flushed, completed, failed, flushed, core.ErrUnexpected))
	}
}

// Settle is Tally after copies that were all compared.
func (s *Stage) Settle(completed, failed, flushed int) {
	s.Tally(completed, failed, flushed)
	if s.err == nil {
		s.Say("every byte that was copied is as expected")
	}
}

// Want keeps an error unless err is want, or wraps it.
func (s *Stage) Want(what string, err, want error) {
	if !errors.Is(err, want) {
		s.Keep(fmt.Errorf("%s: got %v, want %v", what, err, want))
	}
}
