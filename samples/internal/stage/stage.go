// Package stage is what the samples stand on: flags, a device, one map and one
// inventory, pairs of bufs with known contents, the check of these contents,
// and counters. It is the part that DOCA's samples keep in their common files;
// engines, contexts and tasks are left to each sample.
package stage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/samples/sample"
	"github.com/gantry-rdma/gantry/work"
)

// A Program is what a sample hands to Run.
type Program struct {
	Name  string              // of the sample
	Pairs int                 // of bufs, one task's worth each; 0 if it lays out its memory itself
	Flags func(*flag.FlagSet) // declares flags of its own; may be nil
	Check func() error        // says what is wrong with their values; may be nil
	Play  func(*Stage) error  // the sample; it has destroyed what it made when it returns

	Side Side      // where it runs
	Pair [2]string // of one of two: the names of both, the one to start first before the other
	// Supports says whether a device is fit; nil is one that copies memory.
	Supports func(*device.Info) error
}

// A Stage is what a sample finds when it begins. It belongs to the goroutine
// that plays.
type Stage struct {
	Device   *device.Device // open as long as the sample plays
	Map      *mem.Map       // LocalReadWrite, with Device
	Bufs     *mem.Inventory // two elements per pair
	Executor work.Executor  // chosen on the command line; closed after the sample

	// Rep is, on the DPU, the representor of the host function.
	Rep *device.Representor

	sample.Result // what the sample counts

	waiting     context.Context // see Waiting
	region      []byte          // what Map is made of
	options     options
	out, errOut io.Writer
	err         error // the first
}

// Run sets a stage up, plays p on it, and clears it, whatever happened. The
// first error is the result; later ones go to errOut.
func Run(p Program, args []string, out, errOut io.Writer) (sample.Result, error) {
	s := &Stage{Result: sample.Result{Name: p.Name, States: []string{}}, out: out, errOut: errOut}
	if err := s.parse(p, args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			s.OK, err = true, nil
		}
		return s.Result, err
	}
	s.Keep(s.play(p))
	s.OK = s.err == nil
	if !s.OK {
		return s.Result, fmt.Errorf("%s: %w", p.Name, s.err)
	}
	s.Say("%s: good", p.Name)
	return s.Result, nil
}

// play opens what p needs and plays it. Each step back is taken even if the
// one before failed.
func (s *Stage) play(p Program) (err error) {
	x, err := work.Parse(s.options.executor, s.options.workers)
	if err != nil {
		return err
	}
	s.Executor = x
	defer x.Close()
	if s.Device, err = s.options.open(p.supports()); err != nil {
		return err
	}
	defer s.Clean(&err, s.Device.Close)
	if p.Side == DPU {
		if err := s.openRepresentor(); err != nil {
			return err
		}
		defer s.Clean(&err, s.Rep.Close)
	}
	i := s.Device.Info()
	if p.Side == Alone {
		s.Say("%s on %s (%s), executor %s", p.Name, i.IBDev(), i.PCI(), x)
	} else {
		s.Say("%s on %s (%s)", p.Name, i.IBDev(), i.PCI())
	}
	if p.Pairs > 0 {
		s.Tasks = p.Pairs
		if err := s.Memory(2*Size*p.Pairs, 2*p.Pairs); err != nil {
			return err
		}
	}
	defer s.Clean(&err, s.destroyMemory)
	return p.Play(s)
}

// Say adds a line to the story.
func (s *Stage) Say(format string, args ...any) { fmt.Fprintf(s.out, format+"\n", args...) }

// Keep keeps err if it is the first one, and reports it if it is a later one.
func (s *Stage) Keep(err error) {
	switch {
	case err == nil:
	case s.err == nil:
		s.err = err
	default:
		fmt.Fprintf(s.errOut, "%s: also: %v\n", s.Name, err)
	}
}

// Clean is one step of a clean-up. It is deferred, so it happens in any case;
// and *first, the result of the function that defers it, keeps the first error.
func (s *Stage) Clean(first *error, step func() error) {
	err := step()
	if err != nil && *first != nil {
		fmt.Fprintf(s.errOut, "%s: also: %v\n", s.Name, err)
	}
	core.KeepFirst(first, err)
}
