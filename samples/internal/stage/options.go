package stage

import (
	"bytes"
	"flag"
	"fmt"
	"io"

	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/samples/sample"
)

// options are the flags that every sample has.
type options struct {
	device   string
	executor string
	workers  int
	spoil    int
	pair
}

// parse reads args. It prints the flags for -h and returns flag.ErrHelp.
func (s *Stage) parse(p Program, args []string) error {
	o := &s.options
	fs := flag.NewFlagSet(p.Name, flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.StringVar(&o.device, "device", "", "open the device with this `PCI` address, such as 01:00.0")
	fs.StringVar(&o.device, "pci-addr", "", "same as -device")
	fs.StringVar(&o.device, "p", "", "same as -device")
	o.executor, o.spoil, o.wait = "inline", -1, 1
	if p.Side == Alone {
		fs.StringVar(&o.executor, "executor", "inline", "where the copying happens: inline, tasklet or workqueue")
		fs.IntVar(&o.workers, "workers", 0, "goroutines of the workqueue; 0 means one for each CPU")
		fs.IntVar(&o.spoil, "spoil", -1, "put one wrong byte into source `N`, counted from 0, to see the check fail")
	} else {
		o.declare(fs, p.Side)
	}
	if p.Flags != nil {
		p.Flags(fs)
	}
	switch err := fs.Parse(args); {
	case err == flag.ErrHelp:
		s.usage(p, fs)
		return err
	case err != nil:
		return s.misused(err)
	case fs.NArg() > 0:
		return s.misused(fmt.Errorf("unexpected argument %q", fs.Arg(0)))
	}
	if err := o.check(); err != nil {
		return s.misused(err)
	}
	if p.Check != nil {
		if err := p.Check(); err != nil {
			return s.misused(err)
		}
	}
	return nil
}

// check says what is wrong with the values.
func (o *options) check() error {
	switch {
	case o.executor != "inline" && o.executor != "tasklet" && o.executor != "workqueue":
		return fmt.Errorf("-executor %q: want inline, tasklet or workqueue", o.executor)
	case o.workers < 0 || o.workers > maxWorkers:
		return fmt.Errorf("-workers %d: want 0 to %d", o.workers, maxWorkers)
	}
	if err := o.pair.check(); err != nil || o.device == "" {
		return err
	}
	if _, err := device.ParseAddress(o.device); err != nil {
		return fmt.Errorf("-device: %w", err)
	}
	return nil
}

// maxWorkers is more than any machine needs; it stops a slip of the finger from
// starting millions of goroutines.
const maxWorkers = 1024

func (s *Stage) misused(err error) error {
	return fmt.Errorf("%s: %w: %w; -h lists the flags", s.Name, sample.ErrUsage, err)
}

func (s *Stage) usage(p Program, fs *flag.FlagSet) {
	var b bytes.Buffer
	fs.SetOutput(&b)
	fs.PrintDefaults()
	s.Say("%s takes these flags:\n%s", s.Name, b.Bytes())
	if p.Side != Alone {
		s.Say("It is one of two processes. Run in two terminals, one after the other:\n  gantry sample %s\n  gantry sample %s", p.Pair[0], p.Pair[1])
	}
}
