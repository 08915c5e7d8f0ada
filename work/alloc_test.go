package work

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
)

func TestWakeAndDriveAllocateNothing(t *testing.T) {
	x := NewInline()
	defer x.Close()
	runs := 0
	var a, b Item
	a.Init(x, func(int) bool { runs++; b.Wake(); return runs%3 == 0 })
	b.Init(x, func(int) bool { return false })
	allocs.None(t, func() {
		a.Wake()
		a.WakePublished()
		if x.Ready() {
			x.Drive(0)
		}
	})
}

func TestWakeOfAWorkerAllocatesNothing(t *testing.T) {
	for _, x := range []Executor{NewTasklet(), NewWorkqueue(2)} {
		t.Run(x.String(), func(t *testing.T) {
			defer x.Close()
			var i Item
			i.Init(x, func(int) bool { return false })
			wake := func() {
				i.Wake()
				until(t, x, settled(&i))
			}
			// The runtime itself takes some memory to park a goroutine, until
			// its caches on each CPU are full: a few hundred times at most.
			for range 20_000 {
				wake()
			}
			allocs.None(t, wake)
		})
	}
}

func TestWorkqueueDriveAllocatesNothing(t *testing.T) {
	x := NewWorkqueue(1)
	defer x.Close()
	b := newBlocker(t, x, false)
	b.Wake()
	<-b.entered
	defer func() { b.release <- struct{}{} }()
	var i Item
	i.Init(x, func(int) bool { return false })
	allocs.None(t, func() {
		i.Wake()
		x.Drive(0)
	})
}

func TestDisableAndEnableAllocateNothing(t *testing.T) {
	x := NewInline()
	defer x.Close()
	var i Item
	i.Init(x, func(int) bool { return false })
	allocs.None(t, func() {
		i.Disable()
		i.Enable()
	})
}
