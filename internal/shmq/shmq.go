package shmq

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/sys"
)

// line is how far apart, in bytes, the words of different writers are.
const line = 128

// ErrViolation says that the peer wrote what it may not.
var ErrViolation = errors.New("the peer broke the rules of the queue")

// violation returns an ErrViolation that says how. It happens once per queue,
// so it may allocate.
func violation(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrViolation, fmt.Sprintf(format, args...))
}

// An Arm is a shared word by which one side asks the other to wake it.
type Arm struct{ word *atomic.Uint64 }

// Set asks to be woken. Look at the queue once more after it, before waiting.
func (a Arm) Set() { a.word.Store(1) }

// Take reports whether the other side asked to be woken, and then answers no
// until it asks again. Call it after publishing; it costs one load.
func (a Arm) Take() bool { return a.word.Load() != 0 && a.word.Swap(0) != 0 }

// Taken reports whether the other side has taken what Set asked for: it is
// waking this side, or is about to.
func (a Arm) Taken() bool { return a.word.Load() == 0 }

// words returns the memory as words, if it has n bytes or more.
func words(mem []byte, n int) ([]atomic.Uint64, error) {
	if len(mem) < n {
		return nil, fmt.Errorf("a queue of %d bytes does not fit into %d", n, len(mem))
	}
	w, ok := sys.Words(mem[:n])
	if !ok {
		return nil, errors.New("the memory of a queue is not aligned to 8 bytes")
	}
	return w, nil
}

// roundUp returns the power of two that is n or the next above, from low on.
func roundUp(n, low int) int {
	size := low
	for size < n {
		size *= 2
	}
	return size
}
