package probe

import (
	"errors"
	"os"

	"github.com/gantry-rdma/gantry/internal/sys"
)

// Memfd tries memory that other processes could map: it must be sealable, so
// that they cannot change its size.
func Memfd() error {
	p, err := sys.AllocPages(1, sys.PagesOptions{Shareable: true})
	if err != nil {
		return err
	}
	return errors.Join(p.Seal(true), p.Free())
}

// HugePage tries to get one page of 2 MiB, and reports whether it came.
func HugePage() (bool, error) {
	p, err := sys.AllocPages(2<<20, sys.PagesOptions{Huge: true})
	if err != nil {
		return false, err
	}
	return p.Huge(), p.Free()
}

// FaultSafeCopy reads a mapped file whose end was cut off, which must be an
// error and not the end of the process.
func FaultSafeCopy() error {
	f, err := scratch()
	if err != nil {
		return err
	}
	defer f.Close()
	size := os.Getpagesize()
	if err := f.Truncate(int64(size)); err != nil {
		return err
	}
	p, err := sys.MapFile(f, 0, size, false)
	if err != nil {
		return err
	}
	err = f.Truncate(0)
	if _, ok := sys.Copy(make([]byte, size), p.Bytes()); ok && err == nil {
		err = errors.New("a page that is gone was read without an error")
	}
	return errors.Join(err, p.Free())
}
