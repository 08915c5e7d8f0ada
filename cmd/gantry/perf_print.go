package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"

	"github.com/gantry-rdma/gantry/internal/perf"
)

// A perfDocument is what gantry perf prints as JSON.
type perfDocument struct {
	Op         string     `json:"op"`
	Transport  string     `json:"transport"`
	Role       string     `json:"role"` // both, server or client
	Fabric     string     `json:"fabric"`
	Executor   string     `json:"executor"`
	Workers    int        `json:"workers"` // of a work queue, the polling program among them
	QPs        int        `json:"qps"`
	MTU        int        `json:"mtu"`
	SendDepth  int        `json:"tx_depth"` // of the last row
	RecvDepth  int        `json:"rx_depth"`
	Moderation int        `json:"cq_mod"`
	Inline     int        `json:"inline_size"`
	Both       bool       `json:"bidirectional"`
	Events     bool       `json:"events"`
	SRQ        bool       `json:"use_srq"`
	Results    []any      `json:"results"`
	BytesPerQP float64    `json:"bytes_per_qp"`
	PostNS     float64    `json:"post_ns"` // of the first row
	Setup      perf.Setup `json:"setup"`

	points []perf.RCPoint
}

// describe takes over the parameters of a test.
func (d *perfDocument) describe(t perf.RCTest) {
	d.Op, d.Transport = t.Op, t.Transport
	d.Executor, d.Workers = t.Executor, t.WorkerCount()
	d.QPs, d.MTU = t.QPs, t.MTU
	d.SendDepth, d.RecvDepth, d.Moderation = t.SendDepth, t.RecvDepth, t.Moderation
	d.Inline, d.Both, d.Events, d.SRQ = t.Inline, t.Both, t.Events, t.SRQ
}

// report prints the document, and writes it to a file if asked to.
func (p *perfFlags) report(c *console, d *perfDocument) error {
	d.Results = []any{}
	for _, point := range d.points {
		if point.Latency != nil {
			d.Results = append(d.Results, point.Latency)
		} else {
			d.Results = append(d.Results, point.Bandwidth)
		}
	}
	if len(d.points) > 0 {
		d.PostNS = d.points[0].Post
	}
	if p.out != "" {
		if err := writeDocument(p.out, d); err != nil {
			return err
		}
	}
	if c.json {
		return c.emit(d)
	}
	c.printSetup(d.Setup)
	c.printPerf(d)
	return nil
}

func writeDocument(path string, d any) error {
	text, err := json.MarshalIndent(d, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	return nil
}

// printPerf prints perftest's columns in its order, and then what Gantry knows
// beside them.
func (c *console) printPerf(d *perfDocument) {
	name := d.Executor
	if d.Workers > 0 {
		name += "(" + strconv.Itoa(d.Workers) + ")"
	}
	c.printf("test     %s, %s, %s fabric, %s, %d QPs, mtu %d, tx depth %d\n\n",
		d.Op, d.Transport, d.Fabric, name, d.QPs, d.MTU, d.SendDepth)
	if len(d.points) == 0 {
		return
	}
	if d.points[0].Latency != nil {
		c.printLatency(d)
	} else {
		c.printBandwidth(d)
	}
	if d.BytesPerQP > 0 {
		c.printf("\npost     %s ns, an idle queue pair %.0f bytes\n", number(d.PostNS), d.BytesPerQP)
	}
}

func (c *console) printBandwidth(d *perfDocument) {
	var rows, more [][]string
	for _, p := range d.points {
		b := p.Bandwidth
		if b == nil {
			continue
		}
		rows = append(rows, []string{
			strconv.Itoa(b.Size), strconv.Itoa(b.Iterations), fixed(b.Peak, 2), fixed(b.Average, 2), fixed(b.Rate, 6),
		})
		more = append(more, []string{
			strconv.Itoa(b.Size), strconv.Itoa(b.Received), fixed(b.Copy, 2), number(b.Ratio), strconv.FormatUint(b.Retransmits, 10),
			strconv.FormatUint(b.Lost, 10), checked(b.Checked, b.Verified), number(b.AllocsPerOp),
		})
	}
	c.table([]string{"#bytes", "#iterations", "BW peak[Gb/sec]", "BW average[Gb/sec]", "MsgRate[Mpps]"}, rows, 0, 1, 2, 3, 4)
	c.printf("\n")
	c.table([]string{"#bytes", "received", "copy[Gb/sec]", "ratio", "retransmits", "lost", "checked", "allocs"}, more, 0, 1, 2, 3, 4, 5, 6, 7)
}

func (c *console) printLatency(d *perfDocument) {
	var rows, more [][]string
	for _, p := range d.points {
		l := p.Latency
		if l == nil {
			continue
		}
		row := []string{strconv.Itoa(l.Size), strconv.Itoa(l.Iterations)}
		for _, v := range []float64{l.Min, l.Max, l.Typical, l.Average, l.Deviation, l.P99, l.P999} {
			row = append(row, fixed(v, 2))
		}
		rows = append(rows, row)
		more = append(more, []string{
			strconv.Itoa(l.Size), strconv.FormatUint(l.Retransmits, 10), strconv.FormatUint(l.Lost, 10),
			checked(l.Checked, l.Verified), number(l.AllocsPerOp),
		})
	}
	c.table([]string{
		"#bytes", "#iterations", "t_min[usec]", "t_max[usec]", "t_typical[usec]", "t_avg[usec]", "t_stdev[usec]",
		"99% percentile[usec]", "99.9% percentile[usec]",
	}, rows, 0, 1, 2, 3, 4, 5, 6, 7, 8)
	c.printf("\n")
	c.table([]string{"#bytes", "retransmits", "lost", "checked", "allocs"}, more, 0, 1, 2, 3, 4)
}

// checked says how many messages were compared.
func checked(yes bool, n uint64) string {
	if !yes {
		return "no"
	}
	return strconv.FormatUint(n, 10)
}

func fixed(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }
