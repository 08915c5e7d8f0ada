//go:build race

package sys

import (
	"runtime"
	"unsafe"
)

// ordered stands for all sockets. What was done before something was sent has
// happened before what is done after it was received, and the race detector,
// which does not see raw system calls, is told so: more than is true, for it
// does not know which socket is connected to which.
var ordered byte

func sent()     { runtime.RaceReleaseMerge(unsafe.Pointer(&ordered)) }
func received() { runtime.RaceAcquire(unsafe.Pointer(&ordered)) }
