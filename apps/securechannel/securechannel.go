package securechannel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/side"
)

// A Side says where a process is.
type Side = side.Side

// The sides.
const (
	Host = side.Host // the client of the channel
	DPU  = side.DPU  // the server of the channel
)

// SideOf returns the side that these addresses mean, each of which may be
// empty: only the DPU has representors, and a function is on one side. Without
// both it is the host.
func SideOf(pci, representor string) Side { return side.Of(pci, representor) }

// Limits of Options.
const (
	MaxSize     = 65535
	MaxMessages = 1<<32 - 1
)

// DefaultWait is how long a side waits for the other one to appear unless
// Options say otherwise.
const DefaultWait = time.Minute

// service is the name under which both sides meet.
const service = "secure_channel_server"

// Options say what a process does.
type Options struct {
	Messages int64 // how many it sends, 1 to MaxMessages
	Size     int   // bytes of each, 1 to MaxSize
	Side     Side  // where it is; the zero value is the host

	// Device is the PCI address of the function that is used, of this side;
	// empty is the first one that can do it.
	Device string
	// Representor is the PCI address of the host function that the DPU side
	// serves; empty is the one of the device.
	Representor string

	// Wait is how long to wait for the other side; 0 is DefaultWait, and less
	// than 0 is without end.
	Wait time.Duration
	// Note is told what is happening, in a sentence; it may be nil.
	Note func(string)
	// Progress is told, ten times a second and on a goroutine of its own, how
	// many messages were sent and received, of how many; it may be nil.
	Progress func(done, total int64)

	service string // the usual one if empty
}

// A Result says what one side has sent and received.
type Result struct {
	Side      Side          // where that was
	Size      int           // bytes of a message that it sent
	Sent      int64         // messages that are in the other side's memory
	Sending   time.Duration // from the first submit to the last completion
	Received  int64         // messages
	Receiving time.Duration // from the first to the last
}

// Check says which of the options cannot be, and what its limit is.
func (o Options) Check() error {
	switch {
	case o.Messages < 1 || o.Messages > MaxMessages:
		return fmt.Errorf("%d messages: 1 to %d are possible: %w", o.Messages, int64(MaxMessages), core.ErrInvalidValue)
	case o.Size < 1 || o.Size > MaxSize:
		return fmt.Errorf("messages of %d bytes: 1 to %d are possible: %w", o.Size, MaxSize, core.ErrInvalidValue)
	}
	return nil
}

// Run is one side of a run: it meets the other side, exchanges messages with
// it, and returns when both have all of them. It must be started once for each
// side; which one is first does not matter. The two need not send as many
// messages, or of the same size.
//
// An error matches core.ErrTimeOut when nobody came, core.ErrAlreadyExists when
// the side is taken by another process, and core.ErrConnectionReset when the
// other side ended before it was over. A ctx that is done makes Run clean up
// and return its error.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.Check(); err != nil {
		return Result{}, fmt.Errorf("secure channel: %w", err)
	}
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.service == "" {
		o.service = service
	}
	s := &session{Options: o}
	err := s.run(ctx)
	if err != nil {
		return Result{}, fmt.Errorf("secure channel, %v side: %w", o.Side, err)
	}
	return s.result(), nil
}

// Loop runs both sides in this process, on a card of their own choice and under
// a name of their own: the side of the options counts for nothing. It returns
// the result of the DPU and that of the host.
func Loop(ctx context.Context, o Options) (dpu, host Result, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	o.service = fmt.Sprintf("%s %d", service, time.Now().UnixNano())
	o.Note = nil
	there := o
	o.Side, there.Side = Host, DPU
	there.Progress = nil // both move as one
	if o.Device != "" || o.Representor != "" {
		// The addresses are those of the DPU side; the host is what it represents.
		d, rep, err := side.OpenDPU(o.Device, o.Representor)
		if err != nil {
			return dpu, host, err
		}
		o.Device, o.Representor = rep.Info().PCI().String(), ""
		if err = errors.Join(rep.Close(), d.Close()); err != nil {
			return dpu, host, err
		}
	}
	over := make(chan error, 1)
	go func() {
		var err error
		if dpu, err = Run(ctx, there); err != nil {
			cancel(err) // the host waits for nobody
		}
		over <- err
	}()
	host, err = Run(ctx, o)
	if err != nil {
		cancel(err)
	}
	switch dpuErr := <-over; {
	case dpuErr != nil && context.Cause(ctx) == dpuErr:
		err = dpuErr // it came first
	case err == nil:
		err = dpuErr
	}
	return dpu, host, err
}
