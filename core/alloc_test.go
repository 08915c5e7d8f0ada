package core

import (
	"context"
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
)

func TestDataPathAllocatesNothing(t *testing.T) {
	e := newTestEngine(t)
	f := newFake(t, e, 4, freeIt, freeIt)
	wantErr(t, "start", f.Start(), nil)
	allocs.None(t, func() {
		j, _ := f.jobs.Alloc()
		_ = j.Submit()
		e.Progress()
	})
	allocs.None(t, func() {
		j, _ := f.jobs.Alloc()
		_ = j.SubmitFlags(SubmitOptimizeReports)
		k, _ := f.jobs.Alloc()
		_ = k.TrySubmit()
		e.ProgressBatch(4)
	})
	allocs.None(t, func() { // an empty pool and a wrong state are answers too
		var taken [4]*job
		for i := range taken {
			taken[i], _ = f.jobs.Alloc()
		}
		_, _ = f.jobs.Alloc()
		for _, j := range taken {
			_ = j.Free()
			_ = j.Submit()
		}
	})
	allocs.None(t, func() { e.Progress() })
}

func TestWaitingAllocatesNothing(t *testing.T) {
	e := newTestEngine(t)
	if _, err := e.FD(); StatusOf(err) == ErrNotSupported {
		t.Skip("no pollable descriptor on this system")
	}
	f := newFake(t, e, 4, freeIt, freeIt)
	wantErr(t, "start", f.Start(), nil)
	allocs.None(t, func() {
		_ = e.RequestNotification()
		j, _ := f.jobs.Alloc()
		_ = j.Submit()
		_ = e.Wait(context.Background())
		_ = e.ClearNotification()
		e.Progress()
	})
}

func BenchmarkIdleProgress(b *testing.B) {
	e := newTestEngine(b)
	newFake(b, e, 1, freeIt, freeIt)
	if err := e.contexts[0].Start(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		e.Progress()
	}
}

func BenchmarkTaskRoundTrip(b *testing.B) {
	e := newTestEngine(b)
	f := newFake(b, e, 1, freeIt, freeIt)
	if err := f.Start(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		j, _ := f.jobs.Alloc()
		_ = j.Submit()
		e.Progress()
	}
}
