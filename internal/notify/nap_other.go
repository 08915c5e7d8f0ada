//go:build !linux

package notify

import (
	"runtime"
	"time"
)

// Nap pauses the calling goroutine for about d.
func Nap(d time.Duration) { time.Sleep(d) }

// Yield lets another goroutine run.
func Yield() { runtime.Gosched() }
