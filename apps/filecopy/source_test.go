package filecopy

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gantry-rdma/gantry/work"
)

// Whoever truncates the source while it is copied gets an error, not a crash:
// on a page boundary, where touching the mapping is a fault; inside a page,
// where it reads as zeros; and at the very end of the copy.
func TestTruncatedSourceIsAnError(t *testing.T) {
	const size, chunk = 1 << 20, 16 << 10
	onEvery(t, func(t *testing.T, x work.Executor) {
		for _, how := range []Options{{unmapped: true}, {segment: 128 << 10}, {segment: size}} {
			for _, to := range []int64{0, 4096, size / 2, size/2 + 1, size - 4096, size - 1} {
				dir := t.TempDir()
				src := file(t, dir, "src", pattern(size, 1))
				old := file(t, dir, "old", []byte("the old target"))
				o := how
				o.Chunk, o.Tasks, o.Executor = chunk, 4, x
				o.Progress = func(done, _ int64) {
					if done == 4*chunk {
						try(t, os.Truncate(src, to))
					}
				}
				_, err := Copy(t.Context(), src, old, o)
				wantError(t, err, "was truncated while it was copied: it had 1048576 bytes, and has")
				wantFile(t, old, []byte("the old target"))
				wantOnly(t, dir, "old", "src")
				wantReleased(t)
			}
		}
	})
}

func TestSourceTruncatedInTheVerification(t *testing.T) {
	dir := t.TempDir()
	src := file(t, dir, "src", pattern(3<<20, 1))
	o := Options{Verify: true, Progress: func(done, total int64) {
		if done == total {
			try(t, os.Truncate(src, 1<<20))
		}
	}}
	_, err := Copy(t.Context(), src, filepath.Join(dir, "to"), o)
	wantError(t, err, "was truncated")
	wantOnly(t, dir, "src")
}

// A source that grows is copied as long as it was.
func TestGrowingSourceIsCopiedAsItWas(t *testing.T) {
	dir := t.TempDir()
	want := pattern(1<<20, 1)
	src, dst := file(t, dir, "src", want), filepath.Join(dir, "to")
	o := Options{Chunk: 64 << 10, Tasks: 2, Verify: true, Progress: func(int64, int64) {
		f, err := os.OpenFile(src, os.O_WRONLY|os.O_APPEND, 0)
		try(t, err)
		_, err = f.Write([]byte("more"))
		try(t, err)
		try(t, f.Close())
	}}
	if r := mustCopy(t, src, dst, o); r.Bytes != 1<<20 || !r.Verified {
		t.Errorf("got %+v", r)
	}
	wantFile(t, dst, want)
}

// A source that is replaced by another file goes on being the one it was.
func TestReplacedSourceIsCopiedAsItWas(t *testing.T) {
	dir := t.TempDir()
	want := pattern(1<<20, 1)
	src, dst := file(t, dir, "src", want), filepath.Join(dir, "to")
	o := Options{Chunk: 64 << 10, Tasks: 2, Progress: func(done, _ int64) {
		if done == 64<<10 {
			try(t, os.Remove(src))
			file(t, dir, "src", nil)
		}
	}}
	mustCopy(t, src, dst, o)
	wantFile(t, dst, want)
}
