package main

import (
	"os"
	"strconv"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/internal/perf"
)

// benchCommand holds the benchmarks. What they measure is in internal/perf;
// the files bench_*.go have their flags and print their results.
func benchCommand(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "measure this machine: the progress engine, DMA, UDP sockets, Comch, executors",
		Long: `Benchmarks. Whatever is compared runs in turns of some 20 milliseconds, so that
a machine whose speed drifts slows both sides. docs/performance.md describes
the method.`,
	}
	cmd.AddCommand(
		benchPECommand(c),
		benchDMACommand(c),
		benchUDPCommand(c), benchComchCommand(c),
		benchRCCommand(c),
	)
	return group(cmd)
}

// readSetup describes the machine and the command line that is running.
func readSetup() perf.Setup {
	return perf.ReadSetup(append([]string{"gantry"}, os.Args[1:]...), version())
}

// printSetup prints where the figures come from, above them.
func (c *console) printSetup(s perf.Setup) {
	c.printf("command  %s\n", s.Command)
	c.printf("version  %s, %s, %s\n", s.Version, s.Go, s.Kernel)
	c.printf("machine  %s, %d cores, GOMAXPROCS %d\n", s.CPU, s.Cores, s.GOMAXPROCS)
	c.printf("date     %s, load %.2f\n\n", s.Date.Format(time.RFC3339), s.Load)
}

// watch shows a progress bar on standard error while something is measured
// that takes longer than a second. Somebody must be there to look at it.
func (c *console) watch(takes time.Duration) (w perf.Watch, end func()) {
	if takes <= time.Second || !isTerminal(c.err) {
		return nil, func() {}
	}
	const steps = 1000
	bar := progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(c.err),
		progressbar.OptionSetDescription("measuring"),
		progressbar.OptionSetWidth(40),
		progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionSetElapsedTime(false),
	)
	return func(part float64) { _ = bar.Set(int(part * steps)) }, func() { _ = bar.Finish() }
}

// number prints v with three significant digits or all of its whole ones.
func number(v float64) string {
	digits := 0
	for limit := 100.0; v < limit && digits < 3; limit /= 10 {
		digits++
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
