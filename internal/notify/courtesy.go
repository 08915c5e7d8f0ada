package notify

import "time"

// A Courtesy tells a goroutine that polls when to let others have its CPU. Where
// pollers outnumber the CPUs, whoever waits for an answer keeps the one that has
// it from running, and the kernel lets who spins run for milliseconds.
//
// A yield that another thread made use of comes back late. Then the next is due
// with the next idle turn: the two share a CPU, and take turns as coroutines do.
// A yield that nobody made use of costs as much as an idle turn, and makes the
// next one rarer.
//
// The zero Courtesy is ready. It belongs to one goroutine.
type Courtesy struct {
	every int // idle turns from one yield to the next
	idle  int // since the last one
}

const (
	rarest = 64               // turns from yield to yield of who has a CPU to itself
	used   = time.Microsecond // a yield that takes longer let another thread run
)

// Turn is called after each turn that found nothing to do.
func (c *Courtesy) Turn() {
	if c.idle++; c.idle < c.every {
		return
	}
	start := time.Now()
	Yield()
	c.yielded(time.Since(start))
}

// yielded learns from a yield that took so long.
func (c *Courtesy) yielded(d time.Duration) {
	c.idle = 0
	if d > used {
		c.every = 1
	} else {
		c.every = min(2*c.every+1, rarest)
	}
}
