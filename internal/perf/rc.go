package perf

import (
	"errors"
	"fmt"
	"math/bits"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gantry-rdma/gantry/internal/link"
)

// RCOps are the measurements, with perftest's names without their "ib_".
var RCOps = []string{
	"send_bw", "write_bw", "read_bw", "atomic_bw",
	"send_lat", "write_lat", "read_lat", "atomic_lat",
}

// ErrRCParameter is wrapped by errors about a parameter of an [RCTest].
var ErrRCParameter = errors.New("parameter out of range")

// An RCTest holds all parameters that both ends of a measurement have to agree
// on. A client sends it to its server. Zero values are filled in by Fill.
type RCTest struct {
	Op          string `json:"op"`           // one of RCOps
	Transport   string `json:"transport"`    // RC, UC or UD
	Size        int    `json:"size"`         // bytes of a message
	QPs         int    `json:"qps"`          // queue pairs of each end
	SendDepth   int    `json:"send_depth"`   // messages outstanding on a queue pair
	RecvDepth   int    `json:"recv_depth"`   // receives posted on a queue pair, or in the shared queue
	MTU         int    `json:"mtu"`          // bytes of payload of a packet
	Moderation  int    `json:"moderation"`   // one completion for so many messages
	Inline      int    `json:"inline"`       // messages up to this size are posted inline
	Outstanding int    `json:"outstanding"`  // READs and atomics under way on a queue pair
	List        int    `json:"list"`         // work requests of one post
	Both        bool   `json:"both"`         // both ends send
	SRQ         bool   `json:"use_srq"`      // all queue pairs of an end share their receives
	CM          bool   `json:"rdma_cm"`      // the connection manager connects the queue pairs
	Atomic      string `json:"atomic"`       // FETCH_AND_ADD or CMP_AND_SWAP
	Timeout     int    `json:"timeout"`      // local ACK timeout: 4.096 us << Timeout
	RetryCount  int    `json:"retry_count"`  // 0 to 7
	Events      bool   `json:"events"`       // wait for completions instead of polling
	Executor    string `json:"executor"`     // inline, tasklet or workqueue
	Workers     int    `json:"workers"`      // of a work queue, the polling program among them; 0: GOMAXPROCS
	Verify      bool   `json:"check"`        // verify the contents of memory
	Seed        uint64 `json:"pattern_seed"` // of the contents

	SocketBuffer int `json:"socket_buffer"` // bytes that each end asks for, over UDP; 0: a good size

	Faults link.Faults `json:"faults"` // in each direction
}

// NewRCTest returns the test of an operation with what perftest has as defaults.
// What is zero is left to Fill.
func NewRCTest(op string) RCTest {
	return RCTest{Op: op, Transport: "RC", Size: 64 << 10, Timeout: 14, RetryCount: 7, Verify: true}
}

// The limits of an RCTest.
const (
	maxRCSize   = 1 << 30
	maxRCQPs    = 1 << 14
	maxRCDepth  = 1 << 14
	maxRCMemory = 8 << 30 // bytes of one end
)

// Fill sets what is zero and has another default. Depths depend on the size: a
// mebibyte is in flight in all, so that large messages stay in the caches.
func (t *RCTest) Fill() {
	setDefault(&t.Op, "write_bw")
	setDefault(&t.Transport, "RC")
	if t.IsAtomic() {
		t.Size = atomicSize
	}
	setDefault(&t.QPs, 1)
	if t.lossy() && t.Workers == 0 {
		setDefault(&t.Executor, "inline") // nobody answers: there is little to hand to others
	}
	setDefault(&t.Executor, "workqueue")
	setDefault(&t.SendDepth, t.depth())
	setDefault(&t.RecvDepth, t.receives())
	setDefault(&t.MTU, 4096)
	setDefault(&t.Moderation, min(100, max(1, t.SendDepth/4)))
	setDefault(&t.Outstanding, 16)
	setDefault(&t.List, 1)
	setDefault(&t.Atomic, fetchAndAdd)
}

func setDefault[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}

func (t *RCTest) depth() int {
	if t.IsLatency() {
		return 16
	}
	inFlight := (1 << 20) / max(1, t.Size) / max(1, t.QPs)
	return 1 << (bits.Len(uint(min(128, max(4, inFlight)))) - 1)
}

// receives returns a good number of receives: where nobody tells the sender to
// wait, and packets are taken in by another than who posts receives, many, of
// up to four mebibytes in all. They do not stay in the caches.
func (t *RCTest) receives() int {
	n := 2 * t.SendDepth * t.sharers()
	if t.lossy() && t.Executor != "inline" {
		n = max(n, min(4096, (4<<20)/max(1, t.Size)/max(1, t.QPs)))
	}
	if t.lossy() {
		n -= n / 8 // some slots are never posted while they are verified
	}
	return min(n, maxRCDepth)
}

// IsAtomic reports whether the operation is an atomic one.
func (t *RCTest) IsAtomic() bool { return strings.HasPrefix(t.Op, "atomic") }

// IsLatency reports whether a message at a time goes to and fro.
func (t *RCTest) IsLatency() bool { return strings.HasSuffix(t.Op, "_lat") }

// verb returns the operation without what is measured of it.
func (t *RCTest) verb() string { verb, _, _ := strings.Cut(t.Op, "_"); return verb }

// WorkerCount returns how many workers a work queue has, with the program that
// polls and helps; 0 for other executors.
func (t *RCTest) WorkerCount() int {
	switch {
	case t.Executor != "workqueue":
		return 0
	case t.Workers == 0:
		return runtime.GOMAXPROCS(0)
	}
	return t.Workers
}

// lossy reports whether messages may be lost, and nobody but their receiver
// knows: see rclossy.go.
func (t *RCTest) lossy() bool { return t.Transport != "RC" }

// sharers returns how many queue pairs take from one queue of receives.
func (t *RCTest) sharers() int {
	if t.SRQ {
		return t.QPs
	}
	return 1
}

// oneSided reports whether the second end has nothing to post.
func (t *RCTest) oneSided() bool {
	return t.verb() != "send" && t.Op != "write_lat" && !t.lossy()
}

// pulls reports whether data come back to the end that posts.
func (t *RCTest) pulls() bool { return t.verb() == "read" || t.verb() == "atomic" }

// promise returns the longest time after which a queue pair finds out that its
// peer has vanished: four times the timeout for each try, or 0 for never.
func (t *RCTest) promise() time.Duration {
	if t.Timeout == 0 {
		return 0
	}
	return 4 * time.Duration(1+t.RetryCount) * (4096 * time.Nanosecond << t.Timeout)
}

// fenced reports whether an end cannot know by itself when it may verify its
// memory: see rcEnd.handOver.
func (t *RCTest) fenced() bool {
	return t.Verify && !t.lossy() && (t.Op == "write_bw" || t.IsAtomic())
}

// atomicSize is what an atomic works on.
const atomicSize = 8

// The atomic operations, as perftest calls them.
const (
	fetchAndAdd    = "FETCH_AND_ADD"
	compareAndSwap = "CMP_AND_SWAP"
)

// An rcLimit is a parameter by the name of its flag, and what it may be.
type rcLimit struct {
	name          string
	value, lo, hi int
}

// Check says which parameter is wrong, by the name of its flag, and what its
// limit is. Fill comes before it.
func (t *RCTest) Check() error {
	if !slices.Contains(RCOps, t.Op) {
		return fmt.Errorf("operation %q: there is %s: %w", t.Op, strings.Join(RCOps, ", "), ErrRCParameter)
	}
	for _, l := range []rcLimit{
		{"size", t.Size, 1, maxRCSize},
		{"qp", t.QPs, 1, maxRCQPs},
		{"tx-depth", t.SendDepth, 1, maxRCDepth},
		{"rx-depth", t.RecvDepth, 1, maxRCDepth},
		{"cq-mod", t.Moderation, 1, t.SendDepth},
		{"inline_size", t.Inline, 0, 512},
		{"outs", t.Outstanding, 1, 128},
		{"post_list", t.List, 1, t.SendDepth},
		{"qp-timeout", t.Timeout, 0, 31},
		{"retry_count", t.RetryCount, 0, 7},
		{"workers", t.Workers, 0, 1024},
		{"socket-buffer", t.SocketBuffer, 0, 1 << 30},
	} {
		if l.value < l.lo || l.value > l.hi {
			return fmt.Errorf("%s %d: %d to %d are possible: %w", l.name, l.value, l.lo, l.hi, ErrRCParameter)
		}
	}
	return t.checkMore()
}

// checkMore checks what is not a range.
func (t *RCTest) checkMore() error {
	switch {
	case t.MTU < 256 || t.MTU > 4096 || t.MTU&(t.MTU-1) != 0:
		return fmt.Errorf("mtu %d: 256, 512, 1024, 2048 and 4096 are possible: %w", t.MTU, ErrRCParameter)
	case t.Atomic != fetchAndAdd && t.Atomic != compareAndSwap:
		return fmt.Errorf("atomic_type %q: %s and %s are possible: %w", t.Atomic, fetchAndAdd, compareAndSwap, ErrRCParameter)
	case t.Both && (t.IsLatency() || t.pulls()):
		return fmt.Errorf("bidirectional: %s does not go both ways: %w", t.Op, ErrRCParameter)
	case t.IsLatency() && t.QPs != 1:
		return fmt.Errorf("qp %d: latency is measured on one queue pair: %w", t.QPs, ErrRCParameter)
	case !slices.Contains([]string{"inline", "tasklet", "workqueue"}, t.Executor):
		return fmt.Errorf("executor %q: inline, tasklet and workqueue are possible: %w", t.Executor, ErrRCParameter)
	case layoutOf(t).bytes < 0 || int64(layoutOf(t).bytes) > maxRCMemory: // an int of 32 bits may overflow
		return fmt.Errorf("size %d: %d queue pairs with %d messages each would take %d bytes, %d are possible: %w",
			t.Size, t.QPs, t.SendDepth, layoutOf(t).bytes, int64(maxRCMemory), ErrRCParameter)
	}
	if t.CM && t.Timeout == 0 {
		return fmt.Errorf("qp-timeout 0: the connection manager tells 1 to 31: %w", ErrRCParameter)
	}
	if err := t.checkTransport(); err != nil {
		return err
	}
	return t.checkFaults()
}

// opsOf are the operations that each transport has.
var opsOf = map[string][]string{
	"RC": RCOps,
	"UC": {"send_bw", "write_bw", "send_lat", "write_lat"},
	"UD": {"send_bw", "send_lat"},
}

// checkTransport checks what the transport service can do.
func (t *RCTest) checkTransport() error {
	ops, known := opsOf[t.Transport]
	switch {
	case !known:
		return fmt.Errorf("connection %q: RC, UC and UD are possible: %w", t.Transport, ErrRCParameter)
	case !slices.Contains(ops, t.Op):
		return fmt.Errorf("connection %s: it has %s, and no %s: %w", t.Transport, strings.Join(ops, ", "), t.Op, ErrRCParameter)
	case t.Transport == "UD" && t.Size > t.MTU:
		return fmt.Errorf("size %d: a datagram is one packet, so with --mtu %d 1 to %d are possible: %w", t.Size, t.MTU, t.MTU, ErrRCParameter)
	case t.SRQ && (t.lossy() || t.verb() != "send"):
		return fmt.Errorf("use-srq: it is for send_bw and send_lat over RC: %w", ErrRCParameter)
	}
	return nil
}

func (t *RCTest) checkFaults() error {
	for _, p := range []struct {
		name  string
		value float64
	}{{"loss", t.Faults.Loss}, {"dup", t.Faults.Dup}, {"reorder", t.Faults.Reorder}, {"corrupt", t.Faults.Corrupt}} {
		if !(p.value >= 0 && p.value <= 0.9) {
			return fmt.Errorf("%s %v: 0 to 0.9 are possible, as 0.01 for one packet in a hundred: %w", p.name, p.value, ErrRCParameter)
		}
	}
	return nil
}

// An RCRun says how long a client measures and with what device.
type RCRun struct {
	Iterations int           // of each queue pair; 0: as many as fit into Duration
	Duration   time.Duration // of the measurement, half of it with Go's copy
	Device     RCDevice
}

// An RCResult is one row of a bandwidth measurement. Rates are medians over
// slices, except for the peak.
type RCResult struct {
	Size        int     `json:"size"`
	Iterations  int     `json:"iters"`         // messages that were sent, of all queue pairs
	Received    int     `json:"received"`      // of these
	Seconds     float64 `json:"seconds"`       // that they took
	Average     float64 `json:"bw_avg_gbps"`   // 1e9 bits a second
	Peak        float64 `json:"bw_peak_gbps"`  // of the best slice
	Rate        float64 `json:"msg_rate_mpps"` // millions of messages a second
	Copy        float64 `json:"copy_gbps"`     // Go's copy of the same bytes on one goroutine
	Ratio       float64 `json:"ratio"`         // the one to the other
	Retransmits uint64  `json:"retransmits"`   // how often an end went back to what was not acknowledged
	Lost        uint64  `json:"lost"`          // packets that did not arrive in good state; UC, UD: messages
	Overflow    uint64  `json:"overflow"`      // packets that a socket, or the queue before a queue pair, had no room for
	NoReceive   uint64  `json:"no_receive"`    // packets that no receive was posted for, over UC and UD
	Checked     bool    `json:"checked"`       // contents were verified
	Verified    uint64  `json:"verified"`      // messages whose every byte was compared
	AllocsPerOp float64 `json:"allocs_per_op"` // of this process
}

// An RCLatency is one row of a latency measurement, in microseconds: half of a
// round trip where messages go both ways, and all of it for READ and atomics.
type RCLatency struct {
	Size        int     `json:"size"`
	Iterations  int     `json:"iters"` // messages; of them those that had an answer count below
	Min         float64 `json:"min_us"`
	Typical     float64 `json:"typical_us"` // the median
	Average     float64 `json:"avg_us"`
	P99         float64 `json:"p99_us"`
	P999        float64 `json:"p999_us"`
	Max         float64 `json:"max_us"`
	Deviation   float64 `json:"stdev_us"`
	Retransmits uint64  `json:"retransmits"`
	Lost        uint64  `json:"lost"`
	Checked     bool    `json:"checked"`
	Verified    uint64  `json:"verified"`
	AllocsPerOp float64 `json:"allocs_per_op"`
}
