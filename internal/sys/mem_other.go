//go:build !linux

package sys

import (
	"errors"
	"os"
	"syscall"
)

// AllocPages takes n bytes of zeroed, page-aligned memory from the Go heap.
// Huge is only a wish and has no effect here; shareable memory is unsupported.
func AllocPages(n int, o PagesOptions) (*Pages, error) {
	if n <= 0 {
		return nil, failed("alloc", n, syscall.EINVAL)
	}
	if o.Shareable {
		return nil, errors.ErrUnsupported
	}
	page := os.Getpagesize()
	size, ok := roundUp(n, page)
	if !ok {
		return nil, failed("alloc", n, syscall.ENOMEM)
	}
	raw, err := heap(size, page)
	if err != nil {
		return nil, failed("alloc", n, err)
	}
	skip := -int(Addr(raw)) & (page - 1)
	return &Pages{mem: raw[skip : skip+n : skip+n], raw: raw, fd: -1}, nil
}

// heap makes a slice of size bytes with room to align it. A size that no
// address space has makes the runtime panic, which is an answer like any other.
func heap(size, align int) (b []byte, err error) {
	defer func() {
		if recover() != nil {
			err = syscall.ENOMEM
		}
	}()
	return make([]byte, size+align-1), nil
}

// Seal is unsupported: there is no shareable memory.
func (p *Pages) Seal(bool) error { return errors.ErrUnsupported }

// MapFile is unsupported.
func MapFile(*os.File, int64, int, bool) (*Pages, error) {
	return nil, errors.ErrUnsupported
}

// Free gives the memory back to the collector.
func (p *Pages) Free() error {
	p.mem, p.raw = nil, nil
	return nil
}
