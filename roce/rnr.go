package roce

// An RNRTimer is the 5-bit code of a time that a requester waits after a
// receiver-not-ready NAK. Code 0 is not the shortest time but the longest.
type RNRTimer uint8

// rnrMicroseconds has the time of each code (IBTA Vol 1, 9.7.5.2.8).
var rnrMicroseconds = [32]uint32{
	655360, 10, 20, 30, 40, 60, 80, 120, 160, 240, 320, 480, 640, 960, 1280, 1920,
	2560, 3840, 5120, 7680, 10240, 15360, 20480, 30720,
	40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
}

// RNRTimerFor returns the code of the shortest time that is not shorter than
// the given microseconds, or that of the longest, code 0, if none is.
func RNRTimerFor(microseconds int) RNRTimer {
	for code := RNRTimer(1); code < 32; code++ {
		if code.Microseconds() >= microseconds {
			return code
		}
	}
	return 0
}

// Microseconds returns the time in microseconds: 10 to 655360. Only the low 5
// bits of t count.
func (t RNRTimer) Microseconds() int { return int(rnrMicroseconds[t&31]) }

// Nanoseconds returns the time in nanoseconds.
func (t RNRTimer) Nanoseconds() int64 { return int64(rnrMicroseconds[t&31]) * 1000 }
