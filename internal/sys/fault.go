package sys

import "runtime/debug"

// Copy copies min(len(dst), len(src)) bytes and survives memory that is not
// there: a mapped file that somebody truncated, a page that the file system
// could not provide. Then ok is false, n is 0, and the contents of dst are
// undefined.
//
// It costs a few nanoseconds more than copy and does not allocate. Any
// goroutine may call it; only its own faults are caught.
func Copy(dst, src []byte) (n int, ok bool) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		// Looking for a panic is the dear part: leave it out when all went well.
		debug.SetPanicOnFault(before)
		if !ok {
			dropFault(recover())
		}
	}()
	return copy(dst, src), true
}

// Guard runs f and reports whether it came through without a memory fault.
//
// A fault ends f where it stands; what f did before stays done. Every other
// panic goes on to the caller: a nil pointer is a bug, not missing memory.
// Only faults on the calling goroutine are caught.
func Guard(f func()) (ok bool) {
	before := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(before)
		if !ok {
			dropFault(recover())
		}
	}()
	f()
	return true
}

// dropFault sends everything on its way that is not a fault. The runtime
// promises that the error of a fault on an address has a method Addr. A fault
// within the first page, which is a nil pointer, has none; and nil means that
// the goroutine is ending.
func dropFault(r any) {
	_, fault := r.(interface {
		RuntimeError()
		Addr() uintptr
	})
	if r != nil && !fault {
		panic(r)
	}
}
