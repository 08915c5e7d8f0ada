// Package regular is what the applications that copy files share: regular files
// that are read, and new ones that appear under their name only when they are
// whole.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// A File is a regular file that is open for reading.
type File struct {
	*os.File
	Info fs.FileInfo // as it was opened
	Size int64       // in bytes, as it was opened
}

// Open opens a regular file. Anything else is refused before it is opened,
// because opening a pipe waits for a writer; and so is a file that is made
// while it is read, and only says that it is empty.
func Open(name string) (*File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is %s: only a regular file can be copied", name, kind(info))
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	r := &File{File: f}
	if err := r.look(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return r, nil
}

// look finds out how much there is to copy.
func (r *File) look() (err error) {
	if r.Info, err = r.Stat(); err != nil {
		return err
	}
	r.Size = r.Info.Size()
	if r.Size > 0 {
		return nil
	}
	if n, _ := r.ReadAt(make([]byte, 1), 0); n > 0 {
		return fmt.Errorf("%s says that it is empty, and is not: files that are made while they are read, as in /proc, cannot be copied", r.Name())
	}
	return nil
}

// kind names what a file is, if not a regular file.
func kind(info fs.FileInfo) string {
	switch m := info.Mode(); {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "no regular file"
}

// Whole says whether the bytes that were there at the start still are. Memory
// behind the end of a file, on its last page, reads as zeros without a fault,
// so a copy can go through and still be wrong.
func (r *File) Whole() error {
	info, err := r.Stat()
	if err != nil {
		return err
	}
	if info.Size() < r.Size {
		return fmt.Errorf("%s was truncated while it was copied: it had %d bytes, and has %d now", r.Name(), r.Size, info.Size())
	}
	return nil
}

// Explain says why bytes of the file could not be had.
func (r *File) Explain(err error) error {
	switch short := r.Whole(); {
	case short != nil:
		return short
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%s has fewer than the %d bytes that it claims: files that are made while they are read, as in /sys, cannot be copied", r.Name(), r.Size)
	}
	return fmt.Errorf("read %s: %w", r.Name(), err)
}
