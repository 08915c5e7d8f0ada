package dmacopy

import (
	"context"
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/side"
)

// A Side says where a process is.
type Side = side.Side

// The sides.
const (
	Host = side.Host // the client of the channel, who lends memory
	DPU  = side.DPU  // the server of the channel, who runs the DMA
)

// SideOf returns the side that these addresses mean, each of which may be
// empty: only the DPU has representors, and a function is on one side. Without
// both it is the host.
func SideOf(pci, representor string) Side { return side.Of(pci, representor) }

// DefaultWait is how long a side waits for the other one to appear unless
// Options say otherwise.
const DefaultWait = time.Minute

// Options say what a process does. File is needed.
type Options struct {
	// File names the file that is sent, if there is one, or that is to be made.
	File string
	// Side is where this process is; the zero value is the host.
	Side Side

	// Device is the PCI address of the function that is used, of this side;
	// empty is the first one that can do it.
	Device string
	// Representor is the PCI address of the host function that the DPU side
	// serves; empty is the one of the device.
	Representor string

	// Overwrite makes this side the one that gets the file, also when it has
	// one of the name already, which is replaced when the new one is whole.
	Overwrite bool
	// Verify makes this side read its file again and compare the checksum.
	Verify bool

	// Wait is how long to wait for the other side; 0 is DefaultWait, and less
	// than 0 is without end.
	Wait time.Duration

	// Note is told what is happening, in a sentence; it may be nil.
	Note func(string)
	// Progress is told how many bytes are over there, on the goroutine that
	// called Run; it may be nil.
	Progress func(done, total int64)

	chunk, slots int // of a host's window; 0 for the usual
}

// The usual window of 4 MiB is small enough to stay in a cache.
const (
	defaultChunk = 256 << 10
	defaultSlots = 16
)

func (o Options) withDefaults() Options {
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.chunk == 0 {
		o.chunk = defaultChunk
	}
	if o.slots == 0 {
		o.slots = defaultSlots
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	return o
}

// A Result says what was copied, and how fast.
type Result struct {
	File     string        // of this side, links followed
	From, To Side          // the direction
	Bytes    int64         // of the file
	Copying  time.Duration // from the agreement of both sides to the end
	Checking time.Duration // of that, by Verify
	Checksum uint32        // CRC-32C of the file, the same on both sides
	Verified bool          // this side has read its file again
}

// GBytesPerSecond returns the speed of the copy without the verification, in
// units of 10^9 bytes; 0 for an empty file.
func (r Result) GBytesPerSecond() float64 {
	if t := r.Copying - r.Checking; r.Bytes > 0 && t > 0 {
		return float64(r.Bytes) / float64(t.Nanoseconds())
	}
	return 0
}

// Run is one side of a copy: it meets the other side, takes part in the copy,
// and returns when it is over. It must be started once for each side; which one
// is first does not matter.
//
// An error says what was wrong on this side, or what the other side told. Then
// no new file is there, and an old one is as it was. It matches
// core.ErrTimeOut when nobody came, core.ErrAlreadyExists when the side is
// taken by another process, and core.ErrConnectionReset when the other side
// ended before the copy was over. A ctx that is done makes Run tell the other
// side, clean up, and return its error.
func Run(ctx context.Context, o Options) (Result, error) {
	if o.File == "" {
		return Result{}, fmt.Errorf("dma-copy: no file is named: %w", core.ErrInvalidValue)
	}
	s := newSession(o.withDefaults())
	err := s.run(ctx)
	core.KeepFirst(&err, s.close())
	if err != nil {
		return Result{}, fmt.Errorf("dma-copy %s: %w", o.File, err)
	}
	return s.result, nil
}
