package perf

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/testkit/race"
)

// loopback returns an address of which this process and no other has the port
// of RoCE, and a few after it.
func loopback(last byte) netip.Addr {
	n := os.Getpid()
	return netip.AddrFrom4([4]byte{127, byte(64 + n>>8&63), byte(n), last})
}

// skipWithout skips the test if err says that this system has no such device.
func skipWithout(t *testing.T, err error) {
	t.Helper()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EADDRINUSE) {
		t.Skipf("no UDP fabric on %v: %v", loopback(1), err)
	}
}

// testOf returns a small test, with some parameters set by f. Its queue pairs
// give up late: the whole process may stand still for half a second on a machine
// that is busy with other tests.
func testOf(op string, f func(*RCTest)) RCTest {
	t := NewRCTest(op)
	t.Size, t.Executor, t.Seed, t.Timeout = 3000, "inline", 42, 18
	if f != nil {
		f(&t)
	}
	t.Fill()
	return t
}

var fabrics = []RCDevice{{Fabric: FabricMemory}, {Fabric: FabricUDP, Addr: loopback(1)}}

// verified returns how many messages a test has compared, and checks that what
// it has measured makes sense.
func verified(t *testing.T, p RCPoint) uint64 {
	t.Helper()
	if p.Latency != nil {
		wantPositive(t, p.Latency, "allocs_per_op", "retransmits", "lost", "stdev_us")
		if l := p.Latency; l.Min > l.Typical || l.Typical > l.P99 || l.P99 > l.P999 || l.P999 > l.Max*1.001 {
			t.Errorf("quantiles out of order: %+v", l)
		}
		wantNoAllocs(t, p.Latency.AllocsPerOp)
		return p.Latency.Verified
	}
	wantPositive(t, p.Bandwidth, "allocs_per_op", "retransmits", "lost", "overflow", "no_receive")
	if p.Bandwidth.Peak < p.Bandwidth.Average {
		t.Errorf("the peak is below the average: %+v", p.Bandwidth)
	}
	return p.Bandwidth.Verified
}

func TestRCEveryOperation(t *testing.T) {
	for _, op := range RCOps {
		for _, x := range []string{"inline", "tasklet", "workqueue"} {
			for _, d := range fabrics {
				t.Run(fmt.Sprintf("%s/%s/%s", op, x, d.Fabric), func(t *testing.T) {
					test := testOf(op, func(t *RCTest) { t.Executor, t.Workers = x, 2 })
					p, err := MeasureRC(t.Context(), test, RCRun{Iterations: 60, Device: d}, nil)
					skipWithout(t, err)
					if err != nil {
						t.Fatal(err)
					}
					if got := verified(t, p); got < 60 {
						t.Errorf("%d messages verified, want at least 60", got)
					}
					if p.Post <= 0 {
						t.Errorf("a post takes %v ns", p.Post)
					}
				})
			}
		}
	}
}

func TestRCParameters(t *testing.T) {
	for name, f := range map[string]func(*RCTest){
		"one byte":        func(t *RCTest) { t.Size = 1 },
		"odd size":        func(t *RCTest) { t.Size = 12345 },
		"large":           func(t *RCTest) { t.Size = 1 << 20 },
		"small packets":   func(t *RCTest) { t.MTU, t.Size = 256, 1000 },
		"16 QPs":          func(t *RCTest) { t.QPs = 16 },
		"depth of one":    func(t *RCTest) { t.SendDepth = 1 },
		"odd depths":      func(t *RCTest) { t.SendDepth, t.RecvDepth = 13, 7 },
		"lists":           func(t *RCTest) { t.SendDepth, t.List = 10, 4 },
		"each completes":  func(t *RCTest) { t.Moderation = 1 },
		"few complete":    func(t *RCTest) { t.SendDepth, t.Moderation = 32, 32 },
		"inline":          func(t *RCTest) { t.Size, t.Inline = 100, 128 },
		"both directions": func(t *RCTest) { t.Both, t.QPs = true, 3 },
		"events":          func(t *RCTest) { t.Events, t.Executor = true, "workqueue" },
		"inline events":   func(t *RCTest) { t.Events = true },
		"duplex events":   func(t *RCTest) { t.Events, t.Both, t.Executor = true, true, "tasklet" },
		"unverified":      func(t *RCTest) { t.Verify = false },
		"shared receives": func(t *RCTest) { t.SRQ, t.QPs = t.Op == "send_bw", 16 },
		"few shared":      func(t *RCTest) { t.SRQ, t.QPs, t.RecvDepth = t.Op == "send_bw", 16, 5 },
	} {
		for _, op := range []string{"send_bw", "write_bw"} {
			t.Run(op+"/"+name, func(t *testing.T) {
				test := testOf(op, f)
				p, err := MeasureRC(t.Context(), test, RCRun{Iterations: 100, Device: fabrics[0]}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if b := p.Bandwidth; b.Checked != test.Verify || (b.Verified > 0) != test.Verify {
					t.Errorf("checked %v, %d messages, want %v", b.Checked, b.Verified, test.Verify)
				}
				want := 100 * test.QPs
				if test.Both {
					want *= 2
				}
				if p.Bandwidth.Iterations != want {
					t.Errorf("%d messages, want %d", p.Bandwidth.Iterations, want)
				}
			})
		}
	}
	test := testOf("atomic_bw", func(t *RCTest) { t.Atomic = compareAndSwap; t.Outstanding = 1 })
	if _, err := MeasureRC(t.Context(), test, RCRun{Iterations: 100, Device: fabrics[0]}, nil); err != nil {
		t.Errorf("compare and swap: %v", err)
	}
	test = testOf("send_lat", func(t *RCTest) { t.Events, t.Executor = true, "workqueue" })
	if _, err := MeasureRC(t.Context(), test, RCRun{Iterations: 100, Device: fabrics[0]}, nil); err != nil {
		t.Errorf("latency with events: %v", err)
	}
}

// A byte that is not what it should be is found, wherever it comes from.
func TestRCVerifyFindsWrongBytes(t *testing.T) {
	for _, op := range RCOps {
		for _, each := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/each=%v", op, each), func(t *testing.T) {
				var wrong *WrongContents
				err := inProcess(t.Context(), testOf(op, nil), fabrics[0], func(r *rcRun) error {
					r.slice(5, each)
					if r.failed != nil {
						t.Errorf("before anything is wrong: %v", r.failed)
					}
					a, b := r.a, r.b.(rcLocal).e
					only := a.layout.start(9) + 2999 // the last byte of message 9, which no other has
					switch {
					case a.test.IsAtomic():
						word := b.region[b.layout.word(0):]
						binary.NativeEndian.PutUint64(word, binary.NativeEndian.Uint64(word)+1)
					case a.test.pulls():
						b.region[only] ^= 1
					default:
						a.region[only] ^= 1
					}
					r.slice(5, each)
					return r.failed
				})
				if !errors.As(err, &wrong) {
					t.Fatalf("got error %v, want WrongContents", err)
				}
				want := WrongContents{QP: 0, Message: 9, Offset: 2999, Got: wrong.Want ^ 1, Want: wrong.Want}
				if strings.HasPrefix(op, "atomic") {
					want = WrongContents{QP: 0, Message: 5, Offset: wrong.Offset, Got: wrong.Got, Want: wrong.Want}
				}
				if *wrong != want {
					t.Errorf("got %v, want %v", wrong, &want)
				}
			})
		}
	}
}

// What a slot had one lap ago is never right.
func TestRCVerifyFindsWhatHasNotArrived(t *testing.T) {
	for _, op := range []string{"send_bw", "write_bw"} {
		var wrong *WrongContents
		err := inProcess(t.Context(), testOf(op, nil), fabrics[0], func(r *rcRun) error {
			b := r.b.(rcLocal).e
			r.slice(3*b.layout.slots, false)
			b.flows[0].arrived++ // one more than there were
			return b.verify()
		})
		if !errors.As(err, &wrong) {
			t.Errorf("%s: got error %v, want WrongContents", op, err)
		}
	}
}

func TestRCRepairsABadNetwork(t *testing.T) {
	for _, d := range fabrics {
		for _, op := range []string{"send_bw", "write_bw", "read_bw", "atomic_bw", "send_lat"} {
			t.Run(d.Fabric+"/"+op, func(t *testing.T) {
				test := testOf(op, func(t *RCTest) {
					t.Faults.Loss, t.Faults.Dup, t.Faults.Reorder, t.Faults.Corrupt = 0.02, 0.01, 0.01, 0.01
					t.Faults.Seed, t.Timeout = 7, 10
				})
				p, err := MeasureRC(t.Context(), test, RCRun{Iterations: 200, Device: d}, nil)
				skipWithout(t, err)
				if err != nil {
					t.Fatal(err)
				}
				if verified(t, p) == 0 {
					t.Error("nothing was verified")
				}
				if b := p.Bandwidth; b != nil && (b.Lost == 0 || b.Retransmits == 0) {
					t.Errorf("%d packets lost and %d retransmits, want some of both", b.Lost, b.Retransmits)
				}
			})
		}
	}
}

func TestRCTestsAreChecked(t *testing.T) {
	for name, f := range map[string]func(*RCTest){
		"operation":      func(t *RCTest) { t.Op = "send" },
		"size":           func(t *RCTest) { t.Size = -1 },
		"qp":             func(t *RCTest) { t.QPs = maxRCQPs + 1 },
		"tx-depth":       func(t *RCTest) { t.SendDepth = 1 << 20 },
		"rx-depth":       func(t *RCTest) { t.RecvDepth = -5 },
		"cq-mod":         func(t *RCTest) { t.SendDepth, t.Moderation = 4, 5 },
		"inline_size":    func(t *RCTest) { t.Inline = 1 << 20 },
		"outs":           func(t *RCTest) { t.Outstanding = 1000 },
		"post_list":      func(t *RCTest) { t.SendDepth, t.List = 4, 5 },
		"qp-timeout":     func(t *RCTest) { t.Timeout = 32 },
		"retry_count":    func(t *RCTest) { t.RetryCount = 8 },
		"mtu":            func(t *RCTest) { t.MTU = 1500 },
		"atomic_type":    func(t *RCTest) { t.Atomic = "ADD" },
		"bidirectional":  func(t *RCTest) { t.Op, t.Both = "read_bw", true },
		"qp 2":           func(t *RCTest) { t.Op, t.QPs = "send_lat", 2 },
		"connection \"X": func(t *RCTest) { t.Transport = "XRC" },
		"connection UC":  func(t *RCTest) { t.Transport, t.Op = "UC", "read_bw" },
		"connection UD":  func(t *RCTest) { t.Transport, t.Op = "UD", "write_bw" },
		"size 1025":      func(t *RCTest) { t.Transport, t.Op, t.Size, t.MTU = "UD", "send_bw", 1025, 1024 },
		"use-srq":        func(t *RCTest) { t.SRQ = true },
		"executor":       func(t *RCTest) { t.Executor = "gpu" },
		"workers":        func(t *RCTest) { t.Workers = -1 },
		"loss":           func(t *RCTest) { t.Faults.Loss = 1.5 },
		"size 107374182": func(t *RCTest) { t.Size, t.SendDepth = 1<<30, 1<<13 },
	} {
		test := testOf("write_bw", f)
		err := test.Check()
		if !errors.Is(err, ErrRCParameter) || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: got error %v", name, err)
		}
		if _, err := MeasureRC(t.Context(), test, RCRun{Iterations: 1, Device: fabrics[0]}, nil); !errors.Is(err, ErrRCParameter) {
			t.Errorf("%s: measuring got error %v", name, err)
		}
	}
}

// More queue pairs than the link has room for take turns, and none is left
// waiting for room that others had no use for.
func TestRCManyQueuePairsGetThrough(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, srq := range []bool{false, true} {
		test := testOf("send_bw", func(t *RCTest) { t.Size, t.QPs, t.SendDepth, t.SRQ = 64, 300, 16, srq })
		p, err := MeasureRC(ctx, test, RCRun{Iterations: 200, Device: fabrics[0]}, nil)
		if err != nil {
			t.Fatalf("shared receives %v: %v", srq, err)
		}
		if p.Bandwidth.Verified == 0 {
			t.Errorf("shared receives %v: nothing was verified", srq)
		}
	}
}

// Two ends of one process that need each other both go on, although one goroutine
// waits for the events of both.
func TestRCEndsThatWaitForEachOther(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for what, f := range map[string]func(*RCTest){
		"both send":              func(t *RCTest) { t.Both, t.SendDepth, t.RecvDepth = true, 16, 32 },
		"both send, many":        func(t *RCTest) { t.Both, t.QPs, t.Size = true, 8, 4096 },
		"few receives":           func(t *RCTest) { t.SendDepth, t.RecvDepth = 64, 8 },
		"few receives for all":   func(t *RCTest) { t.SendDepth, t.RecvDepth, t.SRQ, t.QPs = 64, 128, true, 20 },
		"as many receives":       func(t *RCTest) { t.SendDepth, t.RecvDepth = 16, 16 },
		"both with few receives": func(t *RCTest) { t.Both, t.SendDepth, t.RecvDepth = true, 64, 8 },
	} {
		for _, executor := range []string{"inline", "workqueue"} {
			for _, d := range fabrics {
				test := testOf("send_bw", func(t *RCTest) {
					t.Events, t.Executor, t.Size = true, executor, 500
					f(t)
					t.Moderation = t.SendDepth // so who waits for completions waits for long
				})
				p, err := MeasureRC(ctx, test, RCRun{Iterations: 2000, Device: d}, nil)
				skipWithout(t, err)
				if err != nil || p.Bandwidth.Verified == 0 {
					t.Errorf("%s, %s, %s: %v, %+v", what, executor, d.Fabric, err, p.Bandwidth)
				}
			}
		}
	}
}

// A list as long as the send queue finds room, although the messages of the slice
// before ended behind the last that had a completion.
func TestRCListsThatFillTheQueue(t *testing.T) {
	for _, c := range []struct{ op, transport string }{{"write_bw", "RC"}, {"atomic_bw", "RC"}, {"send_bw", "UC"}, {"send_bw", "UD"}} {
		for _, moderation := range []int{1, 16, 64} {
			test := testOf(c.op, func(t *RCTest) {
				t.Transport, t.Size, t.SendDepth, t.List, t.Moderation, t.QPs = c.transport, 100, 64, 64, moderation, 3
				if c.op == "atomic_bw" {
					t.Size = 8
				}
			})
			p, err := MeasureRC(t.Context(), test, RCRun{Iterations: 1501, Device: fabrics[0]}, nil)
			if err != nil || p.Bandwidth.Verified == 0 {
				t.Errorf("%s %s, moderation %d: %v, %+v", c.transport, c.op, moderation, err, p.Bandwidth)
			}
		}
	}
}

func TestRCStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	start := time.Now()
	time.AfterFunc(50*time.Millisecond, cancel)
	_, err := MeasureRC(ctx, testOf("write_bw", nil), RCRun{Duration: time.Hour, Device: fabrics[0]}, nil)
	if err == nil || time.Since(start) > 10*time.Second {
		t.Errorf("got error %v after %v", err, time.Since(start))
	}
}

func TestIdleQPTakesLittle(t *testing.T) {
	got, err := MeasureIdleQP()
	if err != nil {
		t.Fatal(err)
	}
	if !race.Enabled && (got < 1000 || got > 16<<10) {
		t.Errorf("an idle queue pair takes %.0f bytes, want at most 16 KiB", got)
	}
}

// A receiver keeps up with a sender that has one completion for many messages: no
// message has to be sent again, or is lost, for want of a receive.
func TestReceiversKeepUp(t *testing.T) {
	for _, transport := range []string{"RC", "UC", "UD"} {
		test := testOf("send_bw", func(t *RCTest) {
			t.Transport, t.Size, t.QPs = transport, 64, 16
		})
		err := inProcess(t.Context(), test, fabrics[0], func(r *rcRun) error {
			r.slice(40_000, false)
			told := r.a.port.dev.Counter("rcvd_rnr_err")
			if r.lost > 0 || told > 0 {
				t.Errorf("%s: of 40,000 messages %d were lost, and %d times the sender heard that there is no receive", transport, r.lost, told)
			}
			return r.failed
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
