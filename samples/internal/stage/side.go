package stage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gantry-rdma/gantry/comch"
	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
)

// A Side says where a sample runs.
type Side int

// The sides. The two samples of a pair are two processes, one on each side.
const (
	Alone Side = iota // one process
	Host              // the process on the host
	DPU               // the process on the DPU
)

// A pair is what the two samples of a pair have and others have not.
type pair struct {
	representor string
	wait        time.Duration
}

// declare adds the flags.
func (p *pair) declare(fs *flag.FlagSet, side Side) {
	fs.DurationVar(&p.wait, "wait", 30*time.Second, "how `long` to wait for the other process")
	if side == DPU {
		fs.StringVar(&p.representor, "rep-pci", "", "serve the host function with this `PCI` address")
		fs.StringVar(&p.representor, "r", "", "same as -rep-pci")
	}
}

// check says what is wrong with the values.
func (p *pair) check() error {
	if p.wait <= 0 {
		return fmt.Errorf("-wait %v: want more than 0", p.wait)
	}
	if p.representor == "" {
		return nil
	}
	if _, err := device.ParseAddress(p.representor); err != nil {
		return fmt.Errorf("-rep-pci: %w", err)
	}
	return nil
}

// openRepresentor opens what the DPU knows the host function as: the one that
// was asked for, or the first.
func (s *Stage) openRepresentor() error {
	infos, err := s.Device.Representors(device.FilterNet)
	if err != nil {
		return err
	}
	for _, i := range infos {
		is := true
		if a := s.options.representor; a != "" {
			if is, err = i.Equal(a); err != nil {
				return err
			}
		}
		if is {
			s.Rep, err = s.Device.OpenRepresentor(i)
			return err
		}
	}
	return fmt.Errorf("%s has no representor of the host function %s: %w",
		s.Device.Info().IBDev(), s.options.representor, core.ErrNotFound)
}

// Waiting returns a context for what the other process must do: it is done
// after the time that the command line allows, or when the user has enough.
func (s *Stage) Waiting() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, s.options.wait)
	s.waiting = ctx
	return ctx, func() { cancel(); stop() }
}

// Missed explains an error that a wait ended with: what did not happen, and
// what to do about it. A user who had enough gets context.Canceled.
func (s *Stage) Missed(err error, what string) error {
	switch end := s.waiting.Err(); {
	case errors.Is(end, context.Canceled):
		return fmt.Errorf("interrupted: %w", end)
	case end != nil:
		return fmt.Errorf("%s in %v: %w", what, s.options.wait, core.ErrTimeOut)
	}
	return err
}

// patience is how long the other process, if it stands still, may keep a sample
// from its end.
const patience = 2 * time.Second

// Leave stops a context of a connection, which may be nil, by its Shutdown. What
// was sent still arrives, and the other process lets go of what it uses of this
// one; but if it does neither, the connection is cut, which is an error.
func Leave(shutdown func(context.Context) error, conn *comch.Connection) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := shutdown(ctx)
	if err == nil || conn == nil {
		return err
	}
	conn.Abort()
	if err := shutdown(context.Background()); err != nil {
		return err
	}
	return fmt.Errorf("the other process has not let go in %v: does it stand still? %w", patience, core.ErrConnectionAborted)
}
