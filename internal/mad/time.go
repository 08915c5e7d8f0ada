package mad

// MaxTimeout is the largest code of a time.
const MaxTimeout = 31

// Nanoseconds returns the time that a code of 5 bits stands for: 4.096
// microseconds times two to that power. Code 20 is 4.3 seconds, and 31, the
// largest, 2.4 hours.
func Nanoseconds(code uint8) int64 { return 4096 << (code & MaxTimeout) }

// Timeout returns the code of the shortest time that is not shorter than so many
// nanoseconds, or the largest code.
func Timeout(nanoseconds int64) uint8 {
	code := uint8(0)
	for code < MaxTimeout && Nanoseconds(code) < nanoseconds {
		code++
	}
	return code
}
