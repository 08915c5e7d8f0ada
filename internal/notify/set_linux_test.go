package notify

import (
	"errors"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newSet(t *testing.T) *Set {
	t.Helper()
	s, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestSignalIsALevelUntilClear(t *testing.T) {
	s := newSet(t)
	if s.Readable() {
		t.Error("readable from the start")
	}
	for range 3 {
		s.Signal()
	}
	for range 2 {
		must(t, s.Wait())
		if !s.Readable() {
			t.Error("a look made it quiet")
		}
	}
	if n, err := s.TakeSignals(); n != 3 || err != nil {
		t.Errorf("got %d signals back and error %v, want 3", n, err)
	}
	if s.Readable() {
		t.Error("one clear did not take back every signal")
	}
	must(t, s.Clear()) // nothing to clear is fine
}

// The counter of an eventfd has an end. A signal beyond it must neither block
// nor make the set quiet.
func TestSignalsNeverBlock(t *testing.T) {
	s := newSet(t)
	for range 1000 {
		s.Signal()
	}
	if !s.Readable() {
		t.Error("not readable after a thousand signals")
	}
	must(t, s.Clear())
	if s.Readable() {
		t.Error("readable after clear")
	}
}

func TestWaitWakesOnASignalFromAnotherGoroutine(t *testing.T) {
	s := newSet(t)
	for range 1000 {
		go s.Signal()
		must(t, s.Wait())
		must(t, s.Clear())
	}
}

func TestAddedDescriptorsMakeItReadable(t *testing.T) {
	s := newSet(t)
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	defer w.Close()
	fd := int(r.Fd())
	must(t, s.Add(fd))
	if err := s.Add(fd); err == nil {
		t.Error("the same descriptor was added twice")
	}
	_, err = w.Write([]byte("x"))
	must(t, err)
	must(t, s.Wait())
	must(t, s.Clear())
	if !s.Readable() {
		t.Error("clear read a descriptor that is not its own")
	}
	must(t, s.Remove(fd))
	if s.Readable() {
		t.Error("readable by a descriptor that was removed")
	}
	if err := s.Remove(fd); err == nil {
		t.Error("a descriptor was removed twice")
	}
}

func TestTimerFiresOnce(t *testing.T) {
	s := newSet(t)
	begin := time.Now()
	must(t, s.SetTimer(time.Hour))
	must(t, s.SetTimer(3*time.Millisecond)) // the last one counts
	must(t, s.Wait())
	if d := time.Since(begin); d < 3*time.Millisecond || d > 10*time.Second {
		t.Errorf("woke after %v, want 3ms", d)
	}
	must(t, s.Clear())
	if s.Readable() {
		t.Error("readable after the timer was cleared")
	}
	must(t, s.SetTimer(-time.Second))
	must(t, s.Wait()) // what is due already is due at once
	must(t, s.Clear())
	must(t, s.SetTimer(time.Nanosecond))
	must(t, s.StopTimer())
	must(t, s.Clear())
	if s.Readable() {
		t.Error("readable by a timer that was stopped")
	}
}

func TestInterruptEndsWaitsUntilResume(t *testing.T) {
	s := newSet(t)
	done := make(chan error)
	go func() { done <- s.Wait() }()
	s.Interrupt()
	if err := <-done; !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v, want %v", err, ErrInterrupted)
	}
	if err := s.Wait(); !errors.Is(err, ErrInterrupted) {
		t.Errorf("a later wait: got %v, want %v", err, ErrInterrupted)
	}
	s.Resume()
	s.Signal()
	must(t, s.Wait())
}

func TestDescriptorIsStable(t *testing.T) {
	s := newSet(t)
	fd := s.FD()
	s.Signal()
	must(t, s.Wait())
	must(t, s.Clear())
	if got := s.FD(); got != fd || fd < 0 {
		t.Errorf("descriptor %d, then %d", fd, got)
	}
}

func TestWaitingAllocatesNothing(t *testing.T) {
	s := newSet(t)
	allocs.None(t, func() {
		s.Signal()
		_ = s.Wait()
		_ = s.Clear()
	})
}

func TestNapLastsAsLongAsItSays(t *testing.T) {
	begin := time.Now()
	Nap(2 * time.Millisecond)
	if d := time.Since(begin); d < 2*time.Millisecond {
		t.Errorf("napped for %v, want 2ms or more", d)
	}
}
