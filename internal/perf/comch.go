package perf

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

// A ComchPoint is one set of parameters of a Comch measurement.
type ComchPoint struct {
	Size   int    `json:"size"`   // bytes of a message
	Window int    `json:"window"` // receives that are posted, and so messages in flight
	Mode   string `json:"mode"`   // poll or event, on both sides
}

// A ComchResult says what the fast path of Comch does between two processes,
// beside a Unix socket and Go's copy in the same run.
type ComchResult struct {
	ComchPoint
	P50   float64 `json:"one_way_p50_us"` // half of a round trip, with one message in flight
	P99   float64 `json:"p99_us"`
	P999  float64 `json:"p999_us"`
	Bytes float64 `json:"gbytes_per_s"`  // 1e9 bytes a second, of messages in one direction
	Rate  float64 `json:"msgs_per_s"`    // of these
	Alloc float64 `json:"allocs_per_op"` // of both processes, for each of these

	UnixP50   float64 `json:"unix_socket_one_way_p50_us"` // of a Unix socket, the same way
	UnixBytes float64 `json:"unix_socket_gbytes_per_s"`
	Copy      float64 `json:"memcpy_gbytes_per_s"` // of one goroutine, from the same buffers
	ToUnix    float64 `json:"latency_to_unix"`     // one way, to a Unix socket's
	ToCopy    float64 `json:"bandwidth_to_copy"`
	Checked   uint64  `json:"checked"` // messages whose number was compared on arrival
}

// A ComchCrowd says what several channels do at once, each between two
// processes of its own, beside what one of them does.
type ComchCrowd struct {
	Pairs int     `json:"pairs"`
	Mode  string  `json:"mode"`
	Size  int     `json:"size"`
	Rate  float64 `json:"msgs_per_s"`          // of all
	One   float64 `json:"one_pair_msgs_per_s"` // of one alone
	Ratio float64 `json:"ratio"`               // the one to the other
	P50   float64 `json:"one_way_p50_us"`      // of all
	P99   float64 `json:"p99_us"`
}

// A ComchBaseline holds what everything else is compared with.
type ComchBaseline struct {
	UnixP50 float64 `json:"unix_socket_one_way_p50_us"` // of the smallest messages measured
	Copy    float64 `json:"memcpy_gbytes_per_s"`        // of the largest
}

// A ComchReport is all that MeasureComch finds.
type ComchReport struct {
	Baseline     ComchBaseline `json:"baseline"`
	Results      []ComchResult `json:"results"`
	Crowds       []ComchCrowd  `json:"crowds"`
	ProgressIdle float64       `json:"progress_idle_ns"` // one call with nothing to do: a producer and a consumer
	WakeP50      float64       `json:"wake_p50_us"`      // from the bell of a channel to the waiter: one way by event less one way by polling
}

// A ComchTest says what to measure.
type ComchTest struct {
	Points []ComchPoint
	Each   time.Duration // of a point
	Pairs  int           // of a crowd; 0 for none
	Peer   func(ctx context.Context, name string) *exec.Cmd
}

// The modes of a point.
var ComchModes = []string{modePoll, modeEvent}

const (
	comchSlice = 20 * time.Millisecond
	// crowdSize and crowdWindow are the messages of a crowd.
	crowdSize   = 64
	crowdWindow = 32
	crowdTime   = 150 * time.Millisecond // of one round
	crowdRounds = 5
)

// Check says which parameter is wrong, by its JSON key, and what its limit is.
func (p ComchPoint) Check() error {
	switch {
	case p.Size < 1 || p.Size > 1<<30:
		return fmt.Errorf("size %d: 1 to %d bytes are possible: %w", p.Size, 1<<30, core.ErrInvalidValue)
	case p.Window < 1 || p.Window > 4096:
		return fmt.Errorf("window %d: 1 to 4096 are possible: %w", p.Window, core.ErrInvalidValue)
	case int64(p.Size)*int64(p.Window) > 1<<30:
		return fmt.Errorf("size %d: in a window of %d, %d bytes are possible: %w", p.Size, p.Window, 1<<30/p.Window, core.ErrInvalidValue)
	case !slices.Contains(ComchModes, p.Mode):
		return fmt.Errorf("mode %q: poll and event are possible: %w", p.Mode, core.ErrInvalidValue)
	}
	return nil
}

// MeasureComch starts the peer, a process that runs [ComchPeer], and exchanges
// messages with it; for a crowd it starts more of them.
func MeasureComch(ctx context.Context, t ComchTest, w Watch) (r ComchReport, err error) {
	for _, p := range t.Points {
		if err := p.Check(); err != nil {
			return r, err
		}
	}
	parts := len(t.Points)
	if t.Pairs > 0 {
		parts += len(ComchModes)
	}
	r.Results, r.Crowds = []ComchResult{}, []ComchCrowd{}
	if len(t.Points) > 0 {
		err = r.measure(ctx, t, w, parts)
	}
	for i, mode := range ComchModes {
		if err != nil || t.Pairs == 0 {
			break
		}
		var c ComchCrowd
		c, err = measureCrowd(ctx, t.Peer, ComchPoint{crowdSize, crowdWindow, mode}, t.Pairs, w.Part(len(t.Points)+i, 1, parts))
		r.Crowds = append(r.Crowds, c)
	}
	r.summarise()
	return r, err
}

// measure measures the points with one peer, one after the other.
func (r *ComchReport) measure(ctx context.Context, t ComchTest, w Watch, parts int) error {
	m, err := newComchMeter(ctx, t.Peer, 0)
	if err != nil {
		return err
	}
	for i, p := range t.Points {
		var res ComchResult
		if res, err = m.measure(p, t.Each, w.Part(i, 1, parts)); err != nil {
			break
		}
		r.Results = append(r.Results, res)
	}
	r.ProgressIdle = m.idle
	return m.close(err)
}

// summarise fills in what follows from several results.
func (r *ComchReport) summarise() {
	if len(r.Results) == 0 {
		return
	}
	size := func(a, b ComchResult) int { return a.Size - b.Size }
	small, large := slices.MinFunc(r.Results, size), slices.MaxFunc(r.Results, size)
	r.Baseline = ComchBaseline{UnixP50: small.UnixP50, Copy: large.Copy}
	for _, a := range r.Results {
		for _, b := range r.Results {
			if a.Size == small.Size && b.Size == small.Size && a.Mode == modeEvent && b.Mode == modePoll {
				r.WakeP50 = a.P50 - b.P50
			}
		}
	}
}
