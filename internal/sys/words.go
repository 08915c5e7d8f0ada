package sys

import (
	"sync/atomic"
	"unsafe"
)

// Words returns the memory of b as words of 8 bytes that several threads or
// processes may use at the same time: as many as fit, in the byte order of the
// machine. It reports false, and no words, when b does not start at a multiple
// of 8 bytes.
//
// The words are the bytes of b, and are good for as long as b is. Memory of any
// kind will do: mapped, or of the heap, where tests can let the race detector
// see it.
func Words(b []byte) (w []atomic.Uint64, ok bool) {
	if Addr(b)%8 != 0 {
		return nil, false
	}
	return unsafe.Slice((*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/8), true
}
