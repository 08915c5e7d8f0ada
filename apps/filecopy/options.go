package filecopy

import (
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/work"
)

// What Options may ask for. Zero fields take the default.
const (
	DefaultChunk = 1 << 20 // bytes
	DefaultTasks = 32
	MaxChunk     = 1 << 30 // bytes: the most that one DMA task copies
	MaxTasks     = 1 << 16 // the most that one DMA context has
	MaxWindow    = 1 << 30 // bytes of memory: tasks times chunk
)

// Options say how a file is copied. The zero value is ready to use.
type Options struct {
	Chunk int // bytes of one task
	Tasks int // tasks in flight

	// Executor is where the tasks are copied; nil copies on the goroutine of
	// the caller. The caller keeps it, and closes it.
	Executor work.Executor

	// Verify compares the new file with the source, byte by byte, before it
	// becomes the target.
	Verify bool

	// Progress is told how many bytes are done, on the goroutine that called
	// Copy, after each chunk: first of the copy, then, from 0 on again, of
	// the verification. It may be nil.
	Progress func(done, total int64)

	unmapped bool // read the source, as where files cannot be mapped
	segment  int  // bytes of the source that are mapped at a time; 0 is segmentBytes
}

// Check says which field is out of range and what its limit is. The error
// matches core.ErrInvalidValue.
func (o Options) Check() error {
	o = o.withDefaults()
	switch {
	case o.Chunk < 1 || o.Chunk > MaxChunk:
		return fmt.Errorf("a chunk of %d bytes: it can have 1 to %d (1GiB): %w", o.Chunk, MaxChunk, core.ErrInvalidValue)
	case o.Tasks < 1 || o.Tasks > MaxTasks:
		return fmt.Errorf("%d tasks: there can be 1 to %d: %w", o.Tasks, MaxTasks, core.ErrInvalidValue)
	case o.Tasks > MaxWindow/o.Chunk:
		return fmt.Errorf("%d tasks of %d bytes need %d bytes of memory, and the limit is %d (1GiB): take fewer tasks or a smaller chunk: %w",
			o.Tasks, o.Chunk, int64(o.Tasks)*int64(o.Chunk), MaxWindow, core.ErrInvalidValue)
	}
	return nil
}

func (o Options) withDefaults() Options {
	if o.Chunk == 0 {
		o.Chunk = DefaultChunk
	}
	if o.Tasks == 0 {
		o.Tasks = DefaultTasks
	}
	return o
}

// A Result says what was copied, and how fast.
type Result struct {
	Target   string        // the file that was written, links followed
	Bytes    int64         // how many it has
	Copying  time.Duration // all of it but the verification
	Checking time.Duration // of the verification; 0 without
	Chunks   int64         // submits: how many copies the tasks did
	Tasks    int           // in the window; a file of few chunks keeps only as many busy
	Executor string        // where the tasks were copied
	Verified bool          // compared, and found equal
}

// GBytesPerSecond returns the speed of the copy without the verification, in
// units of 10^9 bytes; 0 for an empty file.
func (r Result) GBytesPerSecond() float64 {
	if r.Bytes == 0 || r.Copying <= 0 {
		return 0
	}
	return float64(r.Bytes) / 1e9 / r.Copying.Seconds()
}
