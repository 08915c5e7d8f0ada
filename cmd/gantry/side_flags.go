package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/gantry-rdma/gantry/internal/side"
)

// sideFlags are those of a command that is one side of something: which one,
// on which card, and how long it waits for the other.
type sideFlags struct {
	pci, rep, side string
	wait           durationFlag
}

// add declares the flags. wait is how long to wait unless --wait says it.
func (f *sideFlags) add(flags *pflag.FlagSet, wait time.Duration) {
	f.wait = durationFlag(wait)
	flags.StringVarP(&f.pci, "pci-addr", "p", "", "use the function with this `PCI` address")
	flags.StringVarP(&f.rep, "rep-pci", "r", "", "on the DPU: serve the host function with this `PCI` address")
	flags.StringVar(&f.side, "side", "", "host or dpu, if the addresses do not say it")
	flags.Var(&f.wait, "wait", "how long to wait for the other side; 0 is without end")
}

// parse checks the flags of a command, and returns the side and the time as the
// applications take it: less than 0 is without end.
func (f *sideFlags) parse(command string) (is side.Side, wait time.Duration, err error) {
	is = side.Of(f.pci, f.rep)
	switch {
	case f.rep != "" && f.side == side.Host.String():
		return is, 0, usagef("--rep-pci %s: only the DPU has representors, and --side says host", f.rep)
	case f.pci != "" && f.side != "" && f.side != is.String():
		return is, 0, usagef("--pci-addr %s: that is no function of the side %s; gantry devices lists them", f.pci, f.side)
	}
	switch f.side {
	case "":
	case side.Host.String():
		is = side.Host
	case side.DPU.String():
		is = side.DPU
	default:
		return is, 0, unknown("side", f.side, command, []string{side.Host.String(), side.DPU.String()})
	}
	if wait = time.Duration(f.wait); wait == 0 {
		wait = -1
	}
	return is, wait, nil
}
