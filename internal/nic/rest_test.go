package nic

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
)

// A poller that helps lets workers run seldom, one that does not with each poll in
// vain.
func TestWhoHelpsRestsSeldom(t *testing.T) {
	const polls = 4 * restEvery
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, helps := range []bool{false, true} {
		c := &CQ{d: &Device{linkFD: -1}}
		c.d.helped.Store(helps)
		var turns atomic.Int32
		var done atomic.Bool
		var worker sync.WaitGroup
		worker.Go(func() { // takes a turn whenever the poller rests
			for ; !done.Load(); turns.Add(1) {
				runtime.Gosched()
			}
		})
		runtime.Gosched()
		turns.Store(0)
		for range polls {
			c.Rest()
		}
		got := int(turns.Load())
		done.Store(true)
		worker.Wait()
		if least, most := polls/2, 2*polls; !helps && (got < least || got > most) {
			t.Errorf("workers had %d turns in %d polls of a program that does not help, want %d to %d", got, polls, least, most)
		}
		if most := 3 * polls / restEvery; helps && (got == 0 || got > most) {
			t.Errorf("workers had %d turns in %d polls of a program that helps, want 1 to %d", got, polls, most)
		}
	}
}
