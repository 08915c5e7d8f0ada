package main

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/internal/perf"
)

// What is measured where the user does not choose.
var comchSizes = []int{64, 1 << 10, 4 << 10, 64 << 10, 1 << 20}

const (
	comchWindow = 32
	comchPairs  = 4
)

// A benchComch is the command line of gantry bench comch.
type benchComch struct {
	size          sizeFlag
	window, pairs int
	mode          string
	duration      durationFlag
	peer          string
}

// benchComchCommand measures the fast path of Comch between two processes.
func benchComchCommand(c *console) *cobra.Command {
	var b benchComch
	cmd := &cobra.Command{
		Use:   "comch",
		Short: "messages between two processes, beside a Unix socket and Go's copy",
		Long: `Starts a second process and exchanges messages with it over a producer and a
consumer on each side: to and fro, one at a time, for the latency (half of a
round trip), and in one direction for the rate, with as many receives posted as
the window says. A Unix socket between the same processes and Go's copy of the
same buffers take turns with it. Without -s or --mode, a grid of useful values
is measured.

Then --pairs channels run at once, each with a goroutine here and a process of
its own, which poll or wait: more pollers than CPUs, on most machines.`,
		Example: `  gantry bench comch
  gantry bench comch -s 64 --mode poll -D 5s --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd, c) },
	}
	f := cmd.Flags()
	f.VarP(&b.size, "size", "s", "bytes of a message (default 64, 1K, 4K, 64K and 1M)")
	f.IntVar(&b.window, "window", comchWindow, "receives posted, and so messages in flight")
	f.StringVar(&b.mode, "mode", "", "poll or event, on both sides (default each of them)")
	f.IntVar(&b.pairs, "pairs", comchPairs, "channels at once, behind the rest; 0 for none")
	f.VarP(&b.duration, "duration", "D", "time of one row (default 2s, and 600ms where there are several)")
	f.StringVar(&b.peer, "peer", "", "be the other process of a server")
	f.Lookup("size").DefValue, f.Lookup("duration").DefValue = "", ""
	_ = f.MarkHidden("peer") // it exists
	return cmd
}

func (b *benchComch) run(cmd *cobra.Command, c *console) error {
	if b.peer != "" {
		return perf.ComchPeer(cmd.Context(), b.peer, os.NewFile(3, "unix socket"))
	}
	t, err := b.test(cmd)
	if err != nil {
		return err
	}
	setup := readSetup()
	watch, end := c.watch(t.Each * time.Duration(len(t.Points)))
	r, err := perf.MeasureComch(cmd.Context(), t, watch)
	end()
	if err != nil {
		return err
	}
	if c.json {
		return c.emit(struct {
			Setup perf.Setup `json:"setup"`
			perf.ComchReport
		}{setup, r})
	}
	c.printSetup(setup)
	c.printComch(r)
	return nil
}

// test checks the flags.
func (b *benchComch) test(cmd *cobra.Command) (t perf.ComchTest, err error) {
	flags := cmd.Flags()
	sizes, modes := comchSizes, perf.ComchModes
	if flags.Changed("size") {
		sizes = []int{int(b.size)}
	}
	if flags.Changed("mode") {
		if modes = []string{b.mode}; !slices.Contains(perf.ComchModes, b.mode) {
			return t, unknown("mode", b.mode, cmd.CommandPath(), perf.ComchModes)
		}
	}
	if b.pairs < 0 || b.pairs > 64 {
		return t, usagef("--pairs %d: 0 to 64 are possible", b.pairs)
	}
	for _, m := range modes {
		for _, s := range sizes {
			p := perf.ComchPoint{Size: s, Window: b.window, Mode: m}
			if err := p.Check(); err != nil {
				return t, usagef("--%w", err) // it begins with the name of the flag
			}
			t.Points = append(t.Points, p)
		}
	}
	t.Pairs, t.Peer, t.Each = b.pairs, otherComchProcess, time.Duration(b.duration)
	switch {
	case flags.Changed("duration") && t.Each == 0:
		return t, usagef("--duration 0: there must be some time to measure in")
	case flags.Changed("duration"):
	case len(t.Points) == 1:
		t.Each = timeOfOneRow
	default:
		t.Each = timeOfRow
	}
	return t, nil
}

// otherComchProcess is this program again, as the client of a server.
func otherComchProcess(ctx context.Context, name string) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return exec.CommandContext(ctx, self, "bench", "comch", "--peer", name)
}

// printComch prints latencies and rates apart: together they are wider than a
// terminal.
func (c *console) printComch(r perf.ComchReport) {
	var trips, rates, crowds [][]string
	for _, p := range r.Results {
		size := sizeFlag(p.Size)
		trips = append(trips, []string{
			size.String(), p.Mode, fixed(p.P50, 2), fixed(p.P99, 2), fixed(p.P999, 2), fixed(p.UnixP50, 2), number(p.ToUnix),
		})
		rates = append(rates, []string{
			size.String(), p.Mode, strconv.Itoa(p.Window), number(p.Bytes), number(p.Rate), number(p.Alloc), number(p.UnixBytes), number(p.Copy), number(p.ToCopy),
		})
	}
	for _, p := range r.Crowds {
		crowds = append(crowds, []string{
			strconv.Itoa(p.Pairs), p.Mode, strconv.Itoa(p.Size), number(p.Rate), number(p.One), number(p.Ratio),
			fixed(p.P50, 2), fixed(p.P99, 2),
		})
	}
	c.table([]string{"size", "mode", "one way p50[us]", "p99", "p99.9", "Unix socket p50", "ratio"}, trips, 0, 2, 3, 4, 5, 6)
	c.printf("\n")
	c.table([]string{"size", "mode", "window", "GB/s", "msgs/s", "allocs", "Unix GB/s", "copy GB/s", "ratio"}, rates, 0, 2, 3, 4, 5, 6, 7, 8)
	if len(crowds) > 0 {
		c.printf("\n")
		c.table([]string{"pairs", "mode", "size", "msgs/s", "one pair", "ratio", "p50[us]", "p99"}, crowds, 0, 2, 3, 4, 5, 6, 7)
	}
	c.printf("\nidle Progress %s ns", number(r.ProgressIdle))
	if r.WakeP50 > 0 {
		c.printf(", a wake-up %s us more than polling", fixed(r.WakeP50, 2))
	}
	c.printf("\n")
}
