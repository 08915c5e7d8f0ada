package filecopy

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-rdma/gantry/work"
)

func TestCopiesFilesOfEverySize(t *testing.T) {
	const chunk = 4096
	onEvery(t, func(t *testing.T, x work.Executor) {
		for _, size := range []int{0, 1, chunk - 1, chunk, chunk + 1, 4*chunk - 1, 4 * chunk, 4*chunk + 1, 1<<20 + 17} {
			for _, unmapped := range []bool{false, true} {
				dir := t.TempDir()
				want := pattern(size, size)
				src := file(t, dir, "src", want)
				dst := filepath.Join(dir, "to")
				var last, calls int64
				r := mustCopy(t, src, dst, Options{Chunk: chunk, Tasks: 4, Executor: x, Verify: true, unmapped: unmapped,
					Progress: func(done, total int64) {
						if total != int64(size) {
							t.Errorf("progress of %d bytes, want %d", total, size)
						}
						last, calls = done, calls+1
					}})
				wantFile(t, dst, want)
				wantOnly(t, dir, "src", "to")
				chunks := int64((size + chunk - 1) / chunk)
				if r.Bytes != int64(size) || r.Chunks != chunks || r.Tasks != 4 || !r.Verified || r.Target != dst {
					t.Errorf("size %d: got %+v, want %d chunks", size, r, chunks)
				}
				if last != int64(size) || calls < chunks {
					t.Errorf("size %d: progress ended at %d after %d calls", size, last, calls)
				}
			}
		}
	})
}

// The defaults, and chunks large enough for a work queue to split.
func TestCopiesLargeChunks(t *testing.T) {
	onEvery(t, func(t *testing.T, x work.Executor) {
		dir := t.TempDir()
		want := pattern(9<<20+5, 1)
		src := file(t, dir, "src", want)
		r := mustCopy(t, src, filepath.Join(dir, "to"), Options{Executor: x})
		wantFile(t, filepath.Join(dir, "to"), want)
		if r.Verified || r.Chunks != 10 || r.Tasks != DefaultTasks {
			t.Errorf("got %+v, want 10 chunks, unverified", r)
		}
		if x != nil && r.Executor != x.String() || x == nil && r.Executor != "inline" {
			t.Errorf("executor %q, want that of %v", r.Executor, x)
		}
	})
}

// A file that is larger than what is mapped at a time. Tasks of one segment are
// in flight while those of the next are submitted.
func TestCopiesOverSegments(t *testing.T) {
	onEvery(t, func(t *testing.T, x work.Executor) {
		dir := t.TempDir()
		want := pattern(1<<20+12345, 2)
		src, dst := file(t, dir, "src", want), filepath.Join(dir, "to")
		for _, tasks := range []int{1, 5, 100} {
			mustCopy(t, src, dst, Options{Chunk: 5000, Tasks: tasks, Executor: x, segment: 64 << 10})
			wantFile(t, dst, want)
		}
	})
}

func TestOptionsOutOfRangeNameTheLimit(t *testing.T) {
	for _, c := range []struct {
		o     Options
		limit string
	}{
		{Options{Chunk: -1}, "1 to 1073741824 (1GiB)"},
		{Options{Chunk: MaxChunk + 1, Tasks: 1}, "1 to 1073741824 (1GiB)"},
		{Options{Tasks: -1}, "1 to 65536"},
		{Options{Tasks: MaxTasks + 1}, "1 to 65536"},
		{Options{Chunk: MaxChunk, Tasks: 2}, "the limit is 1073741824 (1GiB)"},
		{Options{Chunk: 64 << 20}, "2147483648 bytes of memory"},
	} {
		wantError(t, c.o.Check(), c.limit)
		_, err := Copy(t.Context(), "no such file", "nor this", c.o)
		wantError(t, err, c.limit)
	}
	for _, o := range []Options{{}, {Chunk: MaxChunk, Tasks: 1}, {Chunk: 1, Tasks: MaxTasks}} {
		if err := o.Check(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestPermissionsAreKept(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("files have no permission bits here")
	}
	dir := t.TempDir()
	src := file(t, dir, "src", pattern(100, 0))
	for _, c := range []struct{ src, old, want os.FileMode }{
		{0o750, 0, 0o750}, {0o400, 0, 0o400}, {0o700, 0o604, 0o604}, {0o600, 0o755, 0o755},
	} {
		dst := filepath.Join(dir, fmt.Sprintf("%o-%o", c.src, c.old))
		if c.old != 0 {
			file(t, dir, filepath.Base(dst), nil)
			if err := os.Chmod(dst, c.old); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(src, c.src); err != nil {
			t.Fatal(err)
		}
		mustCopy(t, src, dst, Options{})
		if info, err := os.Stat(dst); err != nil || info.Mode() != c.want {
			t.Errorf("source %o, old target %o: got %v, %v, want %o", c.src, c.old, info.Mode(), err, c.want)
		}
	}
}

// Whatever the sizes, what arrives is what was there, and nothing is left.
func TestAnySizesCopyTheWholeFile(t *testing.T) {
	dir := t.TempDir()
	pool := work.NewWorkqueue(2)
	defer pool.Close()
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.IntRange(0, 300_000).Draw(r, "size")
		o := Options{
			Chunk:    rapid.IntRange(max(1, size/300), 400_000).Draw(r, "chunk"),
			Tasks:    rapid.IntRange(1, 40).Draw(r, "tasks"),
			Verify:   rapid.Bool().Draw(r, "verify"),
			unmapped: rapid.Bool().Draw(r, "unmapped"),
		}
		if rapid.Bool().Draw(r, "workqueue") {
			o.Executor = pool
		}
		want := pattern(size, size)
		src, dst := file(t, dir, "src", want), filepath.Join(dir, "to")
		res := mustCopy(t, src, dst, o)
		wantFile(t, dst, want)
		wantOnly(t, dir, "src", "to")
		if chunks := int64((size + o.Chunk - 1) / o.Chunk); res.Chunks != chunks || res.Verified != o.Verify {
			r.Errorf("got %+v, want %d chunks", res, chunks)
		}
	})
}
