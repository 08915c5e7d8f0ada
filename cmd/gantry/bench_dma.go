package main

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/internal/perf"
)

// How long one row takes if the user does not say: alone, or as one of many.
const (
	timeOfOneRow = 2 * time.Second
	timeOfRow    = 600 * time.Millisecond
)

// What is measured where the user does not choose.
var (
	gridSizes     = []int{64, 4 << 10, 64 << 10, 1 << 20}
	gridWindows   = []int{1, 8}
	gridExecutors = []string{"inline", "tasklet", "workqueue"}
)

// A benchDMA is the command line of gantry bench dma.
type benchDMA struct {
	size                   sizeFlag
	window, pairs, workers int
	executor               string
	duration               durationFlag
}

// benchDMACommand measures DMA tasks beside Go's copy.
func benchDMACommand(c *console) *cobra.Command {
	var b benchDMA
	cmd := &cobra.Command{
		Use:   "dma",
		Short: "copy with DMA tasks, beside Go's copy over the same buffers",
		Long: `Copies between pairs of buffers, in turn, with a fixed number of tasks in
flight, and beside it with Go's copy over the same bytes in the same order. The
program polls, so it takes one CPU itself; an executor with goroutines takes
more. Without -s, --window or --executor, a grid of useful values is measured.`,
		Example: `  gantry bench dma
  gantry bench dma -s 64K --window 8 --executor workqueue -D 5s --json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd, c) },
	}
	f := cmd.Flags()
	f.VarP(&b.size, "size", "s", "bytes of one copy (default 64, 4K, 64K and 1M)")
	f.IntVar(&b.window, "window", 0, "tasks in flight, at most one for each pair (default 1 and 8)")
	f.IntVar(&b.pairs, "pairs", 32, "pairs of buffers")
	f.StringVar(&b.executor, "executor", "", "inline, tasklet or workqueue (default each of them)")
	f.IntVar(&b.workers, "workers", 0, "workers of a work queue (default GOMAXPROCS)")
	f.VarP(&b.duration, "duration", "D", "time of one row (default 2s, and 600ms where there are several)")
	f.Lookup("size").DefValue, f.Lookup("duration").DefValue = "", ""
	return cmd
}

func (b *benchDMA) run(cmd *cobra.Command, c *console) error {
	points, err := b.points(cmd)
	if err != nil {
		return err
	}
	each := time.Duration(b.duration)
	if !cmd.Flags().Changed("duration") {
		each = timeOfOneRow
		if len(points) > 1 {
			each = timeOfRow
		}
	}
	setup := readSetup()
	results, err := measureDMA(cmd.Context(), c, points, each)
	if err != nil {
		return err
	}
	if c.json {
		return c.emit(struct {
			Setup   perf.Setup       `json:"setup"`
			Results []perf.DMAResult `json:"results"`
		}{setup, results})
	}
	c.printSetup(setup)
	c.printDMA(results)
	return nil
}

// points returns what is to be measured: the product of what was chosen and of
// the grid's values for the rest.
func (b *benchDMA) points(cmd *cobra.Command) (points []perf.DMAPoint, err error) {
	sizes, windows, executors := gridSizes, gridWindows, gridExecutors
	if cmd.Flags().Changed("size") {
		sizes = []int{int(b.size)}
	}
	if cmd.Flags().Changed("window") {
		windows = []int{b.window}
	}
	if cmd.Flags().Changed("executor") {
		executors = []string{b.executor}
		if !isExecutor(b.executor) {
			return nil, unknown("executor", b.executor, cmd.CommandPath(), gridExecutors)
		}
	}
	if b.workers != 0 && !slices.Contains(executors, "workqueue") {
		return nil, usagef("--workers %d: only a work queue has workers, and the executor is %s", b.workers, b.executor)
	}
	for _, x := range executors {
		for _, w := range windows {
			for _, s := range sizes {
				p := perf.DMAPoint{Size: s, Window: w, Pairs: b.pairs, Executor: x, Workers: b.workers}
				if err := p.Check(); err != nil {
					return nil, usagef("--%w", err) // it begins with the name of the flag
				}
				points = append(points, p)
			}
		}
	}
	return points, nil
}

// isExecutor reports whether there is an executor of that name.
func isExecutor(name string) bool { return slices.Contains(gridExecutors, name) }

func measureDMA(ctx context.Context, c *console, points []perf.DMAPoint, each time.Duration) ([]perf.DMAResult, error) {
	watch, end := c.watch(each * time.Duration(len(points)))
	defer end()
	var results []perf.DMAResult
	for i, p := range points {
		r, err := perf.MeasureDMA(ctx, p, each, watch.Part(i, 1, len(points)))
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func (c *console) printDMA(results []perf.DMAResult) {
	var rows [][]string
	for _, r := range results {
		size, name := sizeFlag(r.Size), r.Executor
		if r.Workers > 0 {
			name += "(" + strconv.Itoa(r.Workers) + ")"
		}
		rows = append(rows, []string{
			size.String(), strconv.Itoa(r.Window), strconv.Itoa(r.Pairs), name,
			number(r.GBytesPerSecond), number(r.MemcpyGBytes), number(r.Ratio),
			number(r.OpsPerSecond), number(r.AllocsPerOp),
		})
	}
	c.table([]string{"size", "window", "pairs", "executor", "GB/s", "copy GB/s", "ratio", "ops/s", "allocs"},
		rows, 0, 1, 2, 4, 5, 6, 7, 8)
}
