package notify

import (
	"runtime"
	"testing"
	"time"
)

const (
	shortWait = eagerBelow - 1
	longWait  = eagerBelow
)

// atOnce is a Set that looks before its next wait.
func atOnce(t *testing.T) *Set {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("with one processor nobody looks")
	}
	s := newSet(t)
	s.eager.parked(shortWait)
	return s
}

func TestASetLooksAfterAShortWait(t *testing.T) {
	s := newSet(t)
	s.Signal()
	if s.look() {
		t.Error("a new Set looked")
	}
	s.eager.parked(longWait)
	if s.look() {
		t.Error("it looked after a long wait")
	}
	s = atOnce(t)
	s.Signal()
	if !s.look() {
		t.Error("it did not look after a short wait")
	}
	s.eager.parked(longWait)
	if s.look() {
		t.Error("it looked after a long wait behind short ones")
	}
}

// Looking in vain makes the next attempts rarer, up to a limit, and success
// makes them more frequent again.
func TestLookingInVainIsNotRepeated(t *testing.T) {
	s := atOnce(t)
	for want := 1; want < 4*mostDoubt; want = 2*want + 1 {
		start := time.Now()
		if s.look() {
			t.Fatal("readable without a signal")
		}
		if took := time.Since(start); took < eagerTime {
			t.Fatalf("it looked for %v, want %v", took, eagerTime)
		}
		waits := 0
		for ; s.eager.short > 0; waits++ {
			s.eager.parked(shortWait)
		}
		if waits != min(want, mostDoubt) {
			t.Fatalf("it looked again after %d short waits, want %d", waits, min(want, mostDoubt))
		}
	}
	s.Signal()
	for range 12 {
		if !s.look() {
			t.Fatal("it does not look any more")
		}
	}
	must(t, s.Clear())
	if s.look(); s.eager.short != 1 {
		t.Errorf("after success it waits for %d short waits, want 1", s.eager.short)
	}
}

func TestALookDoesNotHideAnInterrupt(t *testing.T) {
	s := atOnce(t)
	s.Interrupt()
	if err := s.Wait(); err != ErrInterrupted {
		t.Errorf("got %v, want an interrupt", err)
	}
	s.Resume()
	s.Signal()
	must(t, s.Wait())
}

// Whoever looks keeps a processor, so the last one is left to others.
func TestNobodyLooksOnTheLastProcessor(t *testing.T) {
	s := atOnce(t)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s.Signal()
	if s.look() {
		t.Error("it looked with one processor")
	}
	must(t, s.Wait())
}
