package filecopy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/core"
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
	t, err := openTarget(src, dst, s.info)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, t.discard()) }()
	r = Result{Target: t.path, Bytes: s.size, Tasks: o.Tasks, Executor: executorName(o.Executor)}
	if r.Chunks, err = move(ctx, s, t.file, o); err != nil {
		return r, err
	}
	written := time.Now()
	if o.Verify {
		if err := verify(ctx, s, t, o.Progress); err != nil {
			return r, err
		}
		r.Verified, r.Checking = true, time.Since(written)
	}
	err = t.commit()
	r.Copying = time.Since(begin) - r.Checking
	return r, err
}

func executorName(x work.Executor) string {
	if x == nil {
		return "inline"
	}
	return x.String()
}
