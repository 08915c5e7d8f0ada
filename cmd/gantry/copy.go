package main

import (
	"context"
	"io"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/apps/filecopy"
	"github.com/gantry-rdma/gantry/work"
)

// A copyFlags is the command line of gantry copy.
type copyFlags struct {
	chunk          sizeFlag
	tasks, workers int
	executor       string
	verify         bool
}

// copyCommand copies a file through DMA tasks: see package filecopy.
func copyCommand(c *console) *cobra.Command {
	f := copyFlags{chunk: filecopy.DefaultChunk}
	cmd := &cobra.Command{
		Use:   "copy SRC DST",
		Short: "copy a file through DMA tasks",
		Long: `Copies a regular file through a fixed window of DMA tasks: each copies a chunk,
and is submitted again for the next one when it is done. A DST that is a
directory gets a file of the same name. A file that is replaced stays as it was
until the copy is complete, also when something goes wrong.

It prints how fast the copy was, without the time that --verify takes.`,
		Example: `  gantry copy disk.img /mnt/backup/
  gantry copy --verify --chunk 256K --tasks 8 disk.img copy.img
  gantry copy --executor workqueue --workers 2 --json disk.img copy.img`,
		Args: wantArgs("SRC", "DST"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd.Context(), c, args[0], args[1]) },
	}
	flags := cmd.Flags()
	flags.Var(&f.chunk, "chunk", "bytes of one task")
	flags.IntVar(&f.tasks, "tasks", filecopy.DefaultTasks, "tasks in flight")
	flags.StringVar(&f.executor, "executor", "inline", "where tasks are copied: inline, tasklet or workqueue")
	flags.IntVar(&f.workers, "workers", 0, "workers of a work queue (default GOMAXPROCS)")
	flags.BoolVar(&f.verify, "verify", false, "read both files again and compare them")
	return cmd
}

func (f *copyFlags) run(ctx context.Context, c *console, src, dst string) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	defer o.Executor.Close()
	show, hide := c.watchBytes()
	o.Progress = show
	r, err := filecopy.Copy(ctx, src, dst, o)
	hide()
	if err != nil {
		return err
	}
	if c.json {
		return c.emit(f.document(r))
	}
	verified := "not verified"
	if r.Verified {
		verified = "verified"
	}
	c.printf("copied %d bytes in %.3f s, %s GB/s, %d tasks, %s, %s\n",
		r.Bytes, r.Copying.Seconds(), number(r.GBytesPerSecond()), r.Tasks, r.Executor, verified)
	return nil
}

// options checks the flags. The caller closes the executor.
func (f *copyFlags) options() (o filecopy.Options, err error) {
	switch {
	case f.chunk < 1 || f.chunk > filecopy.MaxChunk:
		return o, usagef("--chunk %s: 1 byte to 1GiB are possible", f.chunk.String())
	case f.tasks < 1 || f.tasks > filecopy.MaxTasks:
		return o, usagef("--tasks %d: 1 to %d are possible", f.tasks, filecopy.MaxTasks)
	case !isExecutor(f.executor):
		return o, unknown("executor", f.executor, "copy", gridExecutors)
	case f.workers < 0 || f.workers > maxWorkers:
		return o, usagef("--workers %d: 1 to %d are possible, and 0 for one for each CPU", f.workers, maxWorkers)
	case f.workers > 0 && f.executor != "workqueue":
		return o, usagef("--workers %d: only a work queue has workers, and the executor is %s: add --executor workqueue", f.workers, f.executor)
	}
	o = filecopy.Options{Chunk: int(f.chunk), Tasks: f.tasks, Verify: f.verify}
	if err := o.Check(); err != nil {
		return o, usageError{err}
	}
	o.Executor, err = work.Parse(f.executor, f.workers)
	return o, err
}

// maxWorkers keeps a wrong number from starting more goroutines than help.
const maxWorkers = 1024

// A copyDocument is what gantry copy prints with --json.
type copyDocument struct {
	Bytes           int64   `json:"bytes"`
	Seconds         float64 `json:"seconds"`
	GBytesPerSecond float64 `json:"gbytes_per_s"`
	Tasks           int     `json:"tasks"`
	Executor        string  `json:"executor"`
	Workers         int     `json:"workers,omitempty"`
	Verified        bool    `json:"verified"`
	VerifySeconds   float64 `json:"verify_seconds,omitempty"`
	Chunk           int64   `json:"chunk"`
	Chunks          int64   `json:"chunks"`
	Target          string  `json:"target"`
}

func (f *copyFlags) document(r filecopy.Result) copyDocument {
	return copyDocument{
		Bytes: r.Bytes, Seconds: r.Copying.Seconds(), GBytesPerSecond: r.GBytesPerSecond(),
		Tasks: r.Tasks, Executor: f.executor, Workers: f.workers,
		Verified: r.Verified, VerifySeconds: r.Checking.Seconds(),
		Chunk: int64(f.chunk), Chunks: r.Chunks, Target: r.Target,
	}
}

// watchBytes shows a progress bar on standard error once the work has taken a
// second and somebody is there to look at it. Progress that starts again from
// the beginning is that of the verification.
func (c *console) watchBytes() (show func(done, total int64), hide func()) {
	if !isTerminal(c.err) {
		return nil, func() {}
	}
	late := lateWriter{c.err, time.Now().Add(time.Second)}
	bar, what, before := (*progressbar.ProgressBar)(nil), "copying", int64(0)
	hide = func() {
		if bar != nil {
			_ = bar.Clear()
		}
	}
	show = func(done, total int64) {
		if done <= before {
			hide()
			bar, what = nil, "verifying"
		}
		if bar == nil {
			bar = newByteBar(late, what, total)
		}
		before = done
		_ = bar.Set64(done)
	}
	return show, hide
}

// A lateWriter drops what is written before its time, so that a progress bar
// which nobody sees yet already knows how fast the work is.
type lateWriter struct {
	io.Writer
	from time.Time
}

// Write writes b, or pretends to.
func (w lateWriter) Write(b []byte) (int, error) {
	if time.Now().Before(w.from) {
		return len(b), nil
	}
	return w.Writer.Write(b)
}

// newByteBar makes a bar of bytes that fits into 80 columns.
func newByteBar(w io.Writer, what string, total int64) *progressbar.ProgressBar {
	return progressbar.NewOptions64(total,
		progressbar.OptionSetWriter(w),
		progressbar.OptionSetDescription(what),
		progressbar.OptionShowBytes(true),
		progressbar.OptionShowTotalBytes(true),
		progressbar.OptionSetWidth(20),
		progressbar.OptionThrottle(100*time.Millisecond),
	)
}
