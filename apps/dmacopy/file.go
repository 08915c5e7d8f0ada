package dmacopy

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"

	"github.com/gantry-rdma/gantry/internal/regular"
)

// castagnoli is the polynomial of CRC-32C, which processors compute faster than
// memory is copied.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A source is the file that is sent: read once, from the beginning to the end.
type source struct {
	file *regular.File
	off  int64
	sum  uint32 // of what was read
}

// openSource opens the file; it is nil if there is none of the name.
func openSource(name string) (*source, error) {
	f, err := regular.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &source{file: f}, nil
}

// read fills p with the next bytes of the file.
func (s *source) read(p []byte) error {
	if _, err := s.file.ReadAt(p, s.off); err != nil {
		return s.file.Explain(err)
	}
	s.off += int64(len(p))
	s.sum = crc32.Update(s.sum, castagnoli, p)
	return nil
}

// verify reads the file again: whoever changed it in the meantime may have
// changed half of what was sent.
func (s *source) verify(ctx context.Context) error {
	sum, err := sumOf(ctx, s.file, s.file.Size)
	switch {
	case err != nil:
		return s.file.Explain(err)
	case sum != s.sum:
		return fmt.Errorf("%s was changed while it was copied: it has the checksum %08x, and %08x was sent", s.file.Name(), sum, s.sum)
	}
	return nil
}

// A sink is the file that comes to be.
type sink struct {
	file *regular.New
	size int64 // that it will have
	off  int64
	sum  uint32 // of what was written
}

// try finds out whether a file of the name can be made, before anybody waits.
func try(name string) error {
	f, err := regular.Create(name, 0o600, nil)
	if err != nil {
		return err
	}
	return f.Discard()
}

func newSink(name string, perm fs.FileMode, size int64) (*sink, error) {
	f, err := regular.Create(name, perm, nil)
	if err != nil {
		return nil, err
	}
	return &sink{file: f, size: size}, nil
}

// write appends p.
func (s *sink) write(p []byte) error {
	if _, err := s.file.WriteAt(p, s.off); err != nil {
		return fmt.Errorf("write %s: %d of %d bytes were written: %w", s.file.Path, s.off, s.size, err)
	}
	s.off += int64(len(p))
	s.sum = crc32.Update(s.sum, castagnoli, p)
	return nil
}

// verify reads the new file again.
func (s *sink) verify(ctx context.Context) error {
	sum, err := sumOf(ctx, s.file, s.size)
	switch {
	case err != nil:
		return fmt.Errorf("read the new file again: %w", err)
	case sum != s.sum:
		return fmt.Errorf("the new file has the checksum %08x, and %08x was written", sum, s.sum)
	}
	return nil
}

// sumOf returns the checksum of the first n bytes.
func sumOf(ctx context.Context, from io.ReaderAt, n int64) (sum uint32, err error) {
	b := make([]byte, min(n, 1<<20))
	for off := int64(0); off < n; off += int64(len(b)) {
		if ctx.Err() != nil {
			return 0, ctx.Err()
		}
		b = b[:min(n-off, int64(len(b)))]
		if _, err := from.ReadAt(b, off); err != nil {
			return 0, err
		}
		sum = crc32.Update(sum, castagnoli, b)
	}
	return sum, nil
}

// absent says that there is no file.
func absent(name string) error {
	return fmt.Errorf("neither side has the file: there is no %s here: %w", name, os.ErrNotExist)
}
