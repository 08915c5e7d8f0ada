package link

import "testing"

// A lateSender sends at the moment at which the receiver has looked for the
// last time before it says that it waits.
type lateSender struct {
	g     gate
	looks int
	until int // looks that find nothing
}

func (l *lateSender) ready() bool {
	l.looks++
	if l.looks == spins+1 {
		l.g.signal()
	}
	return l.looks > l.until
}

func TestAFrameBetweenTheLookAndTheWaitIsSeen(t *testing.T) {
	l := lateSender{until: spins + 1}
	l.g.init()
	done := make(chan bool)
	go func() {
		l.g.await(&l)
		close(done)
	}()
	within(t, done, "the end of the wait")
}

func TestATokenThatIsLeftOverEndsNoWait(t *testing.T) {
	l := lateSender{until: spins + 2}
	l.g.init()
	l.g.wake <- struct{}{}
	l.g.await(&l)
	if l.looks <= l.until {
		t.Errorf("returned after %d looks, before it was ready", l.looks)
	}
}
