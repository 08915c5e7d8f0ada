package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/perf"
)

// A benchRC is the command line of gantry bench rc.
type benchRC struct{ duration durationFlag }

// What gantry bench rc measures.
var (
	tableQPs = []int{1, 2, 4, 16}
	tableOps = []struct {
		op   string
		size int
	}{{"write_bw", 64 << 10}, {"send_bw", 64}}
)

// How many queue pairs take turns, and how many share their receives.
const (
	manyQPs    = 4096
	sharingQPs = 1000
)

// An rcTable is what gantry bench rc prints as JSON.
type rcTable struct {
	Rows    []perf.ExecutorRow  `json:"rows"`
	Shared  perf.SharedReceives `json:"shared_receives"`
	ManyQPs *perf.ManyQPs       `json:"many_qps"` // null if that failed
	Setup   perf.Setup          `json:"setup"`
}

// benchRCCommand compares the executors.
func benchRCCommand(c *console) *cobra.Command {
	b := benchRC{duration: durationFlag(timeOfOneRow)}
	cmd := &cobra.Command{
		Use:   "rc",
		Short: "the reliable connection on each executor, over 1 to 16 queue pairs",
		Long: `Moves WRITEs of 64 KiB and SENDs of 64 bytes between two devices of this process
over the memory fabric, with each executor in turns. The program that polls is
one of a work queue's workers; a work queue of one works alone, and so does the
tasklet, while the program polls. Then 1000 queue pairs receive from one shared
queue, beside as many with their own, and 4096 have a message each.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if b.duration == 0 {
				return usagef("--duration 0: there must be some time to measure in")
			}
			return b.run(cmd.Context(), c)
		},
	}
	cmd.Flags().VarP(&b.duration, "duration", "D", "time of the four executors with one number of queue pairs")
	return cmd
}

func (b *benchRC) run(ctx context.Context, c *console) (err error) {
	t := rcTable{Setup: readSetup()}
	each, steps := time.Duration(b.duration), len(tableOps)*len(tableQPs)+2
	watch, end := c.watch(each * time.Duration(steps))
	for i, o := range tableOps {
		for k, qps := range tableQPs {
			rows, e := perf.MeasureExecutors(ctx, o.op, o.size, qps, each, watch.Part(i*len(tableQPs)+k, 1, steps))
			if e != nil {
				end()
				return e
			}
			t.Rows = append(t.Rows, rows...)
		}
	}
	if t.Shared, err = perf.MeasureSharedReceives(ctx, sharingQPs, each, watch.Part(steps-2, 1, steps)); err != nil {
		end()
		return fmt.Errorf("%d queue pairs with shared receives: %w", sharingQPs, err)
	}
	many, err := perf.MeasureManyQPs(ctx, manyQPs, each, watch.Part(steps-1, 1, steps))
	if end(); err != nil {
		err = fmt.Errorf("%d queue pairs with a message each: %w", manyQPs, err) // after the table
	} else {
		t.ManyQPs = &many
	}
	if c.json {
		core.KeepFirst(&err, c.emit(t))
		return err
	}
	c.printSetup(t.Setup)
	c.printRCTable(t)
	return err
}

func (c *console) printRCTable(t rcTable) {
	var rows [][]string
	for _, r := range t.Rows {
		size, name := sizeFlag(r.Size), r.Executor
		if r.Workers > 0 {
			name += "(" + strconv.Itoa(r.Workers) + ")"
		}
		rows = append(rows, []string{
			r.Op, size.String(), strconv.Itoa(r.QPs), name, fixed(r.Average, 2), fixed(r.Rate, 3),
			number(r.ToInline), number(r.ToTasklet),
		})
	}
	c.table([]string{"op", "size", "QPs", "executor", "Gb/sec", "Mpps", "to inline", "to tasklet"}, rows, 1, 2, 4, 5, 6, 7)
	s := t.Shared
	c.printf("\n%d QPs, messages of %d bytes, receives from a shared queue: %s ns a message, from their own %s ns, rate %s of it\n",
		s.QPs, s.Size, number(s.Each), number(s.Own), number(s.Ratio))
	if m := t.ManyQPs; m != nil {
		c.printf("%d QPs with a message of %d bytes each: %s ns a message, one QP %s ns, ratio %s\n",
			m.QPs, m.Size, number(m.Each), number(m.OneQP), number(m.Ratio))
	}
}
