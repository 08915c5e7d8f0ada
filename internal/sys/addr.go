package sys

import "unsafe"

// Addr returns the address of the first byte of b, or 0 for a nil slice.
//
// The number stays true only for memory that does not move: memory outside
// the Go heap, and heap memory for as long as something refers to it. A slice
// that is kept in a structure is never on a goroutine's stack, which can move.
func Addr(b []byte) uintptr {
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}
