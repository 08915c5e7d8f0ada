package notify

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Where messages come every few microseconds, going to sleep is dearer than
// waiting: a CPU that has gone idle takes several microseconds to wake, and one
// that does not sleep needs none. So a Set whose waits are short looks at its
// descriptor for a moment before it parks.
const (
	// eagerTime is how long it looks.
	eagerTime = 20 * time.Microsecond
	// eagerBelow is how short a wait must be for the next to begin so.
	eagerBelow = 2 * eagerTime
	// mostDoubt is how many short waits it takes at most to try again after
	// looking was in vain. Where both sides share a CPU it always is: the one
	// that looks keeps the other from running.
	mostDoubt = 1 << 10
)

// An eagerness is what a Set knows of its waits.
type eagerness struct {
	doubt int // short waits that it takes to try again, the next time
	short int // short waits that are missing until then
}

// looking is how many goroutines of the process look at their descriptors.
var looking atomic.Int32

// look looks at the descriptor for a moment, if that is worth it, and reports
// whether it is readable. One processor at least stays free of it.
func (s *Set) look() (readable bool) {
	e := &s.eager
	if e.short > 0 {
		return false
	}
	if int(looking.Add(1)) < runtime.GOMAXPROCS(0) {
		for end := time.Now().Add(eagerTime); !readable && time.Now().Before(end); {
			readable = s.Readable()
		}
	}
	looking.Add(-1)
	if readable {
		e.doubt /= 2
	} else {
		e.doubt = min(2*e.doubt+1, mostDoubt)
		e.short = e.doubt
	}
	return readable
}

// parked learns from a wait that was not spent with looking.
func (e *eagerness) parked(d time.Duration) {
	switch {
	case d >= eagerBelow:
		e.short = max(e.short, 1)
	case e.short > 0:
		e.short--
	}
}
