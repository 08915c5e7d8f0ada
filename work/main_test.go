package work

import (
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// makers are the executors that the contract holds for.
var makers = []func() Executor{
	func() Executor { return NewInline() },
	func() Executor { return NewTasklet() },
	func() Executor { return NewWorkqueue(1) },
	func() Executor { return NewWorkqueue(2) },
	func() Executor { return NewWorkqueue(4) },
}

// forEach runs a test of the contract over every executor.
func forEach(t *testing.T, f func(t *testing.T, x Executor)) {
	for _, make := range makers {
		x := make()
		t.Run(x.String(), func(t *testing.T) {
			defer x.Close()
			f(t, x)
		})
	}
}

// until lets x work until cond holds.
func until(t *testing.T, x Executor, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); {
		if in, ok := x.(*Inline); !ok || !in.Drive(0) {
			runtime.Gosched()
		}
		if time.Now().After(end) {
			t.Fatal("got nothing for 20 s, want the condition to hold")
		}
	}
}

// drive drives x, if it is inline, on a goroutine of its own until the test
// ends: for runs that block.
func drive(t *testing.T, x Executor) {
	in, ok := x.(*Inline)
	if !ok {
		return
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
				if !in.Drive(0) {
					runtime.Gosched()
				}
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
}

// settled reports whether nothing of i is queued or running.
func settled(i *Item) func() bool {
	return func() bool { s := i.State(); return s == Idle || s == Drained || s == Invalid }
}

// checkCounts checks what must hold for an item that has settled.
func checkCounts(t *testing.T, i *Item) {
	t.Helper()
	if got, want := i.Done(), i.Scheduled(); got != want {
		t.Errorf("got %d done in state %v, want %d as scheduled", got, i.State(), want)
	}
}

func checkState(t *testing.T, i *Item, want State) {
	t.Helper()
	if got := i.State(); got != want {
		t.Errorf("got state %v, want %v", got, want)
	}
}
