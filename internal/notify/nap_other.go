//go:build !linux

package notify

import "time"

// Nap pauses the calling goroutine for about d.
func Nap(d time.Duration) { time.Sleep(d) }
