package filecopy

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/gantry-rdma/gantry/internal/regular"
)

// verifyBytes is how much is compared at a time.
const verifyBytes = 1 << 20

// verify reads both files again and compares them.
func verify(ctx context.Context, s *source, t *regular.New, progress func(done, total int64)) error {
	a, b := make([]byte, min(verifyBytes, s.size)), make([]byte, min(verifyBytes, s.size))
	for off := int64(0); off < s.size; {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		n := int(min(verifyBytes, s.size-off))
		if _, err := s.file.ReadAt(a[:n], off); err != nil {
			return s.explain(err)
		}
		if _, err := t.ReadAt(b[:n], off); err != nil {
			return fmt.Errorf("read the copy again: %w", err)
		}
		if i := difference(a[:n], b[:n]); i >= 0 {
			return fmt.Errorf("verify: byte %d of the copy is %#02x, and the source has %#02x: it was changed while it was copied, or the copy is wrong", off+int64(i), b[i], a[i])
		}
		off += int64(n)
		if progress != nil {
			progress(off, s.size)
		}
	}
	end, err := t.Seek(0, io.SeekEnd)
	if err == nil && end != s.size {
		err = fmt.Errorf("verify: the copy has %d bytes, and the source %d", end, s.size)
	}
	return err
}

// difference returns the first index at which a and b differ, or -1.
func difference(a, b []byte) int {
	if bytes.Equal(a, b) {
		return -1
	}
	for i := range a {
		if a[i] != b[i] {
			return i
		}
	}
	return -1
}
