package ring

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
	"pgregory.net/rapid"
)

// A fifo is what both rings are.
type fifo[T any] interface {
	Push(T) bool
	Pop() (T, bool)
	Len() int
	Empty() bool
	Cap() int
}

func makers[T any]() map[string]func(int) fifo[T] {
	return map[string]func(int) fifo[T]{
		"SPSC": func(n int) fifo[T] { return NewSPSC[T](n) },
		"MPMC": func(n int) fifo[T] { return NewMPMC[T](n) },
	}
}

func forEach[T any](t *testing.T, f func(t *testing.T, make func(int) fifo[T])) {
	for name, make := range makers[T]() {
		t.Run(name, func(t *testing.T) { f(t, make) })
	}
}

func TestCapacityIsTheNextPowerOfTwo(t *testing.T) {
	forEach(t, func(t *testing.T, make func(int) fifo[byte]) {
		for n, want := range map[int]int{-1: 2, 0: 2, 1: 2, 2: 2, 3: 4, 4: 4, 5: 8, 1000: 1024, 1024: 1024} {
			if got := make(n).Cap(); got != want {
				t.Errorf("got capacity %d for %d, want %d", got, n, want)
			}
		}
	})
	if got := round(MaxCapacity + 1); got != MaxCapacity {
		t.Errorf("got %d above the limit, want %d", got, MaxCapacity)
	}
}

// Random pushes and pops behave as on a slice. Starting just below the point
// where the positions wrap shows that they may.
func TestRingsBehaveLikeAQueue(t *testing.T) {
	forEach(t, func(t *testing.T, make func(int) fifo[int]) {
		rapid.Check(t, func(t *rapid.T) {
			r := make(rapid.IntRange(0, 20).Draw(t, "n"))
			if rapid.Bool().Draw(t, "wrap") {
				startAt(r, ^uint64(0)-5)
			}
			var model []int
			next := 0
			t.Repeat(map[string]func(*rapid.T){
				"push": func(t *rapid.T) {
					next++
					if got, want := r.Push(next), len(model) < r.Cap(); got != want {
						t.Fatalf("got push %v with %d of %d, want %v", got, len(model), r.Cap(), want)
					} else if got {
						model = append(model, next)
					}
				},
				"pop": func(t *rapid.T) {
					v, ok := r.Pop()
					if ok != (len(model) > 0) {
						t.Fatalf("got pop %v with %d values", ok, len(model))
					}
					if !ok {
						return
					}
					if v != model[0] {
						t.Fatalf("got %d, want %d", v, model[0])
					}
					model = model[1:]
				},
				"": func(t *rapid.T) {
					if r.Len() != len(model) || r.Empty() != (len(model) == 0) {
						t.Fatalf("got length %d, empty %v, want %d", r.Len(), r.Empty(), len(model))
					}
				},
			})
		})
	})
}

// startAt moves an unused ring to a position.
func startAt(r fifo[int], pos uint64) {
	switch r := r.(type) {
	case *SPSC[int]:
		pos &^= r.mask
		r.head.Store(pos)
		r.tail.Store(pos)
		r.seen, r.free = pos, pos
	case *MPMC[int]:
		pos &^= r.mask
		r.head.Store(pos)
		r.tail.Store(pos)
		for k := range r.cells {
			r.cells[k].turn.Store(pos + uint64(k))
		}
	}
}

func TestARingForgetsWhatWasPopped(t *testing.T) {
	s, m := NewSPSC[*int](4), NewMPMC[*int](4)
	for range 4 {
		s.Push(new(int))
		m.Push(new(int))
	}
	for k := range 4 {
		s.Pop()
		m.Pop()
		if s.cells[k] != nil || m.cells[k].value != nil {
			t.Fatal("got a reference to a popped value, want none")
		}
	}
}

// A message is plain memory, so a hand-over without order is a race.
type message struct{ producer, number int }

func TestSPSCHandsOverInOrder(t *testing.T) {
	const total = 100_000
	for _, size := range []int{2, 64} {
		r := NewSPSC[*message](size)
		var wg sync.WaitGroup
		wg.Go(func() {
			for n := range total {
				for m := (&message{number: n}); !r.Push(m); {
					runtime.Gosched()
				}
			}
		})
		for n := 0; n < total; {
			m, ok := r.Pop()
			if !ok {
				runtime.Gosched()
				continue
			}
			if m.number != n {
				t.Fatalf("got %d, want %d", m.number, n)
			}
			n++
		}
		wg.Wait()
		if !r.Empty() || r.Len() != 0 {
			t.Errorf("got length %d, want 0", r.Len())
		}
	}
}

func TestMPMCLosesAndRepeatsNothing(t *testing.T) {
	const producers, consumers, each = 4, 3, 20_000
	for _, size := range []int{2, 64} {
		r := NewMPMC[*message](size)
		var wg sync.WaitGroup
		for p := range producers {
			wg.Go(func() {
				for n := range each {
					for m := (&message{p, n}); !r.Push(m); {
						runtime.Gosched()
					}
				}
			})
		}
		var taken, sum atomic.Int64
		for range consumers {
			wg.Go(func() {
				last := [producers]int{}
				for taken.Load() < producers*each {
					m, ok := r.Pop()
					if !ok {
						runtime.Gosched()
						continue
					}
					taken.Add(1)
					sum.Add(int64(m.number))
					if m.number+1 <= last[m.producer] {
						t.Errorf("got %d after %d of producer %d, want order", m.number, last[m.producer]-1, m.producer)
					}
					last[m.producer] = m.number + 1
				}
			})
		}
		wg.Wait()
		if got, want := sum.Load(), int64(producers*each*(each-1)/2); got != want {
			t.Errorf("got sum %d, want %d", got, want)
		}
		if got := r.Len(); got != 0 {
			t.Errorf("got length %d, want 0", got)
		}
	}
}

func TestLenStaysWithinTheRing(t *testing.T) {
	r := NewMPMC[int](4)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for !stop.Load() {
				r.Push(1)
				r.Pop()
			}
		})
	}
	for range 20_000 {
		if n := r.Len(); n < 0 || n > r.Cap() {
			t.Errorf("got length %d, want 0 to %d", n, r.Cap())
			break
		}
	}
	stop.Store(true)
	wg.Wait()
}

func TestPushAndPopAllocateNothing(t *testing.T) {
	forEach(t, func(t *testing.T, make func(int) fifo[[4]uint64]) {
		r := make(8)
		allocs.None(t, func() {
			r.Push([4]uint64{1})
			r.Pop()
			r.Pop()
		})
	})
}
