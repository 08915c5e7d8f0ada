package perf

import (
	"context"

	"github.com/gantry-rdma/gantry/core"
)

// An RCPoint is what one test has measured: a bandwidth or a latency.
type RCPoint struct {
	Bandwidth *RCResult  `json:"bandwidth,omitempty"`
	Latency   *RCLatency `json:"latency,omitempty"`
	Post      float64    `json:"post_ns"` // PostSend alone
}

// MeasureRC carries out a test between two devices of this process.
func MeasureRC(ctx context.Context, t RCTest, run RCRun, w Watch) (p RCPoint, err error) {
	err = inProcess(ctx, t, run.Device, func(r *rcRun) (err error) {
		p, err = r.measure(run, w)
		return err
	})
	return p, err
}

// measure carries out a test with a connected client.
func (r *rcRun) measure(run RCRun, w Watch) (p RCPoint, err error) {
	if r.a.test.IsLatency() {
		p.Latency = new(RCLatency)
		*p.Latency, err = r.latency(run, w)
	} else {
		p.Bandwidth = new(RCResult)
		*p.Bandwidth, err = r.bandwidth(run, w)
	}
	if err == nil {
		p.Post, err = r.postCost()
	}
	return p, err
}

// inProcess connects two devices of this process, and lets f use them.
func inProcess(ctx context.Context, t RCTest, d RCDevice, f func(*rcRun) error) (err error) {
	if err = t.Check(); err != nil {
		return err
	}
	pa, pb, err := openPorts(&t, d)
	if err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, closePorts(pa, pb)) }()
	a, err := newEnd(t, pa, 0)
	if err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, a.close()) }()
	b, err := newEnd(t, pb, 1)
	if err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, b.close()) }()
	ha, hb := a.hello(), b.hello()
	if err = b.connect(ha); err == nil {
		err = a.connect(hb)
	}
	if err == nil {
		err = introduce(ctx, a, b)
	}
	if err != nil {
		return err
	}
	r := newRun(ctx, a, rcLocal{b})
	defer r.close()
	return f(r)
}
