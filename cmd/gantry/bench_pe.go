package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/internal/perf"
)

// benchPECommand measures the progress engine.
func benchPECommand(c *console) *cobra.Command {
	duration := durationFlag(2 * time.Second)
	cmd := &cobra.Command{
		Use:   "pe",
		Short: "measure the progress engine: calls, wake-ups, ways to wait",
		Long: `Measures what the calls of a task cost, how fast the descriptor of an engine
wakes a thread beside a bare eventfd, and what polling, waiting for events and
Run cost and how late they are, at three rates. The latter two need Linux, and
the last needs two CPUs; what is left out is said.`,
		Example: `  gantry bench pe
  gantry bench pe -D 5s --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			setup := readSetup()
			res, err := measurePE(cmd.Context(), c, time.Duration(duration))
			if err != nil {
				return err
			}
			if c.json {
				return c.emit(struct {
					Setup perf.Setup `json:"setup"`
					perf.PEResult
				}{setup, res})
			}
			c.printSetup(setup)
			c.printPE(res)
			return nil
		},
	}
	cmd.Flags().VarP(&duration, "duration", "D", "time of one part; there are six")
	return cmd
}

func measurePE(ctx context.Context, c *console, d time.Duration) (perf.PEResult, error) {
	watch, end := c.watch(perf.PETakes(d))
	defer end()
	return perf.MeasurePE(ctx, d, watch)
}

func (c *console) printPE(r perf.PEResult) {
	c.table([]string{"64-byte memcpy, inline, one in flight", "ns"}, [][]string{
		{"progress with nothing to do", number(r.ProgressIdle)},
		{"alloc, submit, progress, free", number(r.TaskRoundtrip)},
		{"submit, the call alone", number(r.Submit)},
		{"try-submit, the call alone", number(r.TrySubmit)},
		{"re-submit in the callback, progress", number(r.Resubmit)},
		{"free, alloc, submit in the callback, progress", number(r.FreeAlloc)},
		{"allocations of a round trip", number(r.AllocsPerOp)},
	}, 1)
	if len(r.Wakes) > 0 {
		c.printf("\n")
		c.printWakes(r.Wakes)
	}
	if len(r.Modes) > 0 {
		c.printf("\n")
		c.printModes(r.ModesResult)
	}
	for _, s := range r.Skipped {
		c.notef("left out: %s", s)
	}
}

func (c *console) printWakes(wakes []perf.WakePoint) {
	var rows [][]string
	for _, w := range wakes {
		rows = append(rows, []string{
			w.Placement, number(w.NotifyP50 / 1e3), number(w.NotifyP99 / 1e3),
			number(w.EventfdP50 / 1e3), number(w.EventfdP99 / 1e3), number(w.Ratio),
		})
	}
	c.table([]string{"wake-up, us", "engine p50", "p99", "eventfd p50", "p99", "ratio"}, rows, 1, 2, 3, 4, 5)
}

func (c *console) printModes(r perf.ModesResult) {
	var rows [][]string
	for _, m := range r.Modes {
		rows = append(rows, []string{
			m.Mode, strconv.Itoa(m.Rate), number(m.Achieved), number(m.CPUPercent), number(m.P50), number(m.P99),
		})
	}
	c.table([]string{"mode", "ops/s", "achieved", "CPU %", "p50 us", "p99 us"}, rows, 1, 2, 3, 4, 5)
	rows = nil
	for _, x := range r.RunToBetter {
		rows = append(rows, []string{strconv.Itoa(x.Rate), number(x.P50), number(x.CPU)})
	}
	c.printf("\n")
	c.table([]string{"run to the better of both, ops/s", "p50", "CPU"}, rows, 0, 1, 2)
}
