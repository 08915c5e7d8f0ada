package notify

import (
	"time"

	"golang.org/x/sys/unix"
)

// Nap holds the calling thread for about d. It goes to the kernel directly:
// Go's timers are late by up to a millisecond when they are shorter than one.
func Nap(d time.Duration) {
	ts := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&ts, nil) // an early end by a signal is as good
}

// Yield lets another thread run that waits for the CPU of the caller. It costs
// some 300 ns when there is none.
func Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
