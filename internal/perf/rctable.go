package perf

import (
	"context"
	"runtime"
	"time"
)

// An ExecutorRow says how fast one executor moves messages between two devices
// of this process over the memory fabric, beside others in the same run.
type ExecutorRow struct {
	Op        string  `json:"op"`
	Size      int     `json:"size"`
	QPs       int     `json:"qps"`
	Executor  string  `json:"executor"`
	Workers   int     `json:"workers"` // of a work queue, the polling program among them
	Average   float64 `json:"bw_avg_gbps"`
	Rate      float64 `json:"msg_rate_mpps"`
	ToInline  float64 `json:"to_inline"`  // times as fast
	ToTasklet float64 `json:"to_tasklet"` // times as fast
}

// A ManyQPs says what a message costs when each of many queue pairs has one at
// a time, beside one queue pair with as much to do.
type ManyQPs struct {
	QPs   int     `json:"qps"`
	Size  int     `json:"size"`
	Each  float64 `json:"ns_per_message"`
	OneQP float64 `json:"one_qp_ns_per_message"`
	Ratio float64 `json:"ratio"` // the one to the other
}

// The places of the executors that others are compared with.
const (
	rowInline = iota
	rowTasklet
)

// tableExecutors are those of the table, as executor and workers.
func tableExecutors() []RCTest {
	all := []RCTest{{Executor: "inline"}, {Executor: "tasklet"}, {Executor: "workqueue", Workers: 1}}
	if n := runtime.GOMAXPROCS(0); n > 1 {
		all = append(all, RCTest{Executor: "workqueue", Workers: n})
	}
	return all
}

// MeasureExecutors measures one operation with each executor in turns, for
// about d.
func MeasureExecutors(ctx context.Context, op string, size, qps int, d time.Duration, w Watch) (rows []ExecutorRow, err error) {
	var tests []RCTest
	for _, x := range tableExecutors() {
		t := NewRCTest(op)
		t.Size, t.QPs, t.Executor, t.Workers = size, qps, x.Executor, x.Workers
		t.Fill()
		tests = append(tests, t)
	}
	all, err := compareRuns(ctx, tests, d, w)
	if err != nil {
		return nil, err
	}
	for i, c := range all {
		t := &tests[i]
		rows = append(rows, ExecutorRow{
			Op: t.Op, Size: t.Size, QPs: t.QPs, Executor: t.Executor, Workers: t.WorkerCount(),
			Average: 8 * float64(t.Size) / median(c.ns), Rate: 1e3 / median(c.ns),
			ToInline: ratio(all[rowInline].ns, c.ns), ToTasklet: ratio(all[rowTasklet].ns, c.ns),
		})
	}
	return rows, nil
}

// MeasureManyQPs measures SENDs of 64 bytes on the inline executor.
func MeasureManyQPs(ctx context.Context, qps int, d time.Duration, w Watch) (m ManyQPs, err error) {
	many, one := NewRCTest("send_bw"), NewRCTest("send_bw")
	for _, t := range []*RCTest{&many, &one} {
		t.Size, t.Executor = 64, "inline"
	}
	many.QPs, many.SendDepth = qps, 1
	many.Fill()
	one.Fill()
	all, err := compareRuns(ctx, []RCTest{many, one}, d, w)
	if err != nil {
		return m, err
	}
	return ManyQPs{
		QPs: qps, Size: many.Size, Each: median(all[0].ns), OneQP: median(all[1].ns), Ratio: ratio(all[0].ns, all[1].ns),
	}, nil
}

// A SharedReceives says what a message costs when many queue pairs take their
// receives from one queue, beside as many with a queue each.
type SharedReceives struct {
	QPs   int     `json:"qps"`
	Size  int     `json:"size"`
	Each  float64 `json:"ns_per_message"`
	Own   float64 `json:"own_ns_per_message"`
	Ratio float64 `json:"rate_ratio"` // shared to own: 1 is as fast
}

// MeasureSharedReceives measures SENDs of 64 bytes on the inline executor.
func MeasureSharedReceives(ctx context.Context, qps int, d time.Duration, w Watch) (s SharedReceives, err error) {
	shared, own := NewRCTest("send_bw"), NewRCTest("send_bw")
	shared.SRQ = true
	for _, t := range []*RCTest{&shared, &own} {
		t.Size, t.Executor, t.QPs = 64, "inline", qps
		t.Fill()
	}
	all, err := compareRuns(ctx, []RCTest{shared, own}, d, w)
	if err != nil {
		return s, err
	}
	return SharedReceives{
		QPs: qps, Size: shared.Size, Each: median(all[0].ns), Own: median(all[1].ns), Ratio: ratio(all[1].ns, all[0].ns),
	}, nil
}

// compareRuns lets tests take turns, each on devices of its own.
func compareRuns(ctx context.Context, tests []RCTest, d time.Duration, w Watch) (all []*contender, err error) {
	if len(tests) == 0 {
		return nil, nil
	}
	var open func(i int) error
	open = func(i int) error {
		if i == len(tests) {
			return takeTurns(ctx, d, rcSlice, w, all...)
		}
		return inProcess(ctx, tests[i], RCDevice{Fabric: FabricMemory}, func(r *rcRun) error {
			all = append(all, &contender{run: r.timed, least: tests[i].SendDepth * tests[i].QPs})
			if err := open(i + 1); err != nil {
				return err
			}
			return r.failed
		})
	}
	return all, open(0)
}
