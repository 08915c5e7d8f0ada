package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/apps/dmacopy"
)

// A dmaCopyFlags is the command line of gantry dma-copy.
type dmaCopyFlags struct {
	sideFlags
	file, out         string
	overwrite, verify bool
}

// dmaCopyCommand is one side of a copy between two processes: see package
// dmacopy.
func dmaCopyCommand(c *console) *cobra.Command {
	var f dmaCopyFlags
	cmd := &cobra.Command{
		Use:   "dma-copy -f FILE",
		Short: "copy a file between two processes, one on the host and one on the DPU",
		Long: `Runs one side of a copy; start it twice, in two terminals, in any order. One
process is the host, the other one the DPU: that is the one with --rep-pci, with
--side dpu, or with the --pci-addr of a DPU function. Without any of them the
first function of the host is taken.

The side on which FILE exists sends it, and the other side makes FILE: as a
whole, or not at all. With --overwrite a side gets the file even if it has one.
The host lends memory and the DPU runs the DMA, in both directions. The checksum
is the CRC-32C of the file, and is compared in any case.`,
		Example: `  gantry dma-copy --side dpu -f copy.img      in one terminal
  gantry dma-copy -f disk.img                 in the other one

  gantry dma-copy -r 07:00.1 -f copy.img      the same with another card
  gantry dma-copy -p 07:00.1 -f disk.img`,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), c) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVarP(&f.file, "file", "f", "", "the `file` to send, or to make")
	f.add(flags, dmacopy.DefaultWait)
	flags.BoolVar(&f.overwrite, "overwrite", false, "get the file, and replace the one that exists")
	flags.BoolVar(&f.verify, "verify", false, "read this side's file again and compare its checksum")
	flags.StringVar(&f.out, "out", "", "also write the JSON document to a `file`")
	return cmd
}

func (f *dmaCopyFlags) run(ctx context.Context, c *console) error {
	o, err := f.options()
	if err != nil {
		return err
	}
	o.Note = func(s string) { c.notef("%s", s) }
	show, hide := c.watchBytes()
	o.Progress = show
	r, err := dmacopy.Run(ctx, o)
	hide()
	if err != nil {
		return err
	}
	d := newDMACopyDocument(o.Side, r)
	if f.out != "" {
		if err := writeDocument(f.out, d); err != nil {
			return err
		}
	}
	if c.json {
		return c.emit(d)
	}
	did, verified := "sent", ""
	if r.To == o.Side {
		did = "received"
	}
	if r.Verified {
		verified = ", verified"
	}
	c.printf("%s %d bytes in %.3f s, %s GB/s, from the %v to the %v, checksum %s%s\n",
		did, r.Bytes, d.Seconds, number(d.GBytesPerSecond), r.From, r.To, d.Checksum, verified)
	return nil
}

// options checks the flags.
func (f *dmaCopyFlags) options() (o dmacopy.Options, err error) {
	o = dmacopy.Options{File: f.file, Device: f.pci, Representor: f.rep, Overwrite: f.overwrite, Verify: f.verify}
	if f.file == "" {
		return o, usagef("dma-copy needs --file: the file to send, or to make")
	}
	o.Side, o.Wait, err = f.parse("dma-copy")
	return o, err
}

// A dmaCopyDocument is what gantry dma-copy prints with --json.
type dmaCopyDocument struct {
	Bytes           int64   `json:"bytes"`
	Seconds         float64 `json:"seconds"`
	GBytesPerSecond float64 `json:"gbytes_per_s"`
	Direction       string  `json:"direction"`
	Side            string  `json:"side"`
	File            string  `json:"file"`
	Checksum        string  `json:"crc32c"`
	Verified        bool    `json:"verified"`
	VerifySeconds   float64 `json:"verify_seconds,omitempty"`
}

func newDMACopyDocument(side dmacopy.Side, r dmacopy.Result) *dmaCopyDocument {
	return &dmaCopyDocument{
		Bytes: r.Bytes, Seconds: (r.Copying - r.Checking).Seconds(), GBytesPerSecond: r.GBytesPerSecond(),
		Direction: fmt.Sprintf("%v_to_%v", r.From, r.To), Side: side.String(), File: r.File,
		Checksum: fmt.Sprintf("%08x", r.Checksum), Verified: r.Verified, VerifySeconds: r.Checking.Seconds(),
	}
}
