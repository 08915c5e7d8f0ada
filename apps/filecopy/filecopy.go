package filecopy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/regular"
	"github.com/gantry-rdma/gantry/work"
)

// Copy copies the file src to dst through DMA tasks.
//
// It follows cp: a dst that is a directory gets a file of the same name as src;
// of a dst that is a symbolic link, the file that it points to is replaced. A
// new file gets the permissions of src, less the umask; one that is replaced
// keeps its own. What src grows by in the meantime is not copied.
//
// An error says what was wrong with which file; unless it says otherwise, dst
// is as it was. A ctx that ends makes Copy stop, clean up, and return its
// error.
func Copy(ctx context.Context, src, dst string, o Options) (Result, error) {
	if err := o.Check(); err != nil {
		return Result{}, fmt.Errorf("copy: %w", err)
	}
	r, err := copyFile(ctx, src, dst, o.withDefaults())
	if err != nil {
		return Result{}, fmt.Errorf("copy %s to %s: %w", src, dst, err)
	}
	return r, nil
}

func copyFile(ctx context.Context, src, dst string, o Options) (r Result, err error) {
	begin := time.Now()
	s, err := openSource(src)
	if err != nil {
		return r, err
	}
	defer func() { core.KeepFirst(&err, s.close()) }()
	t, err := newTarget(src, dst, s.file.Info)
	if err != nil {
		return r, fmt.Errorf("the target: %w", err)
	}
	defer func() { err = errors.Join(err, t.Discard()) }()
	r = Result{Target: t.Path, Bytes: s.size, Tasks: o.Tasks, Executor: executorName(o.Executor)}
	if r.Chunks, err = move(ctx, s, t, o); err != nil {
		return r, err
	}
	written := time.Now()
	if o.Verify {
		if err := verify(ctx, s, t, o.Progress); err != nil {
			return r, err
		}
		r.Verified, r.Checking = true, time.Since(written)
	}
	if err = t.Commit(); err != nil {
		err = fmt.Errorf("the target: %w", err)
	}
	r.Copying = time.Since(begin) - r.Checking
	return r, err
}

// newTarget makes the file that dst names, or that it gets as a directory.
func newTarget(src, dst string, from fs.FileInfo) (*regular.New, error) {
	if info, err := os.Stat(dst); err == nil && info.IsDir() {
		dst = filepath.Join(dst, filepath.Base(src))
	}
	return regular.Create(dst, from.Mode(), from)
}

func executorName(x work.Executor) string {
	if x == nil {
		return "inline"
	}
	return x.String()
}
