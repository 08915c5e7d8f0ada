package perf

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/verbs"
)

// lossyTests are all operations of the transports that may lose something.
func lossyTests(f func(*RCTest)) (tests []RCTest) {
	for _, transport := range []string{"UC", "UD"} {
		for _, op := range opsOf[transport] {
			tests = append(tests, testOf(op, func(t *RCTest) {
				t.Transport = transport
				if f != nil {
					f(t)
				}
			}))
		}
	}
	return tests
}

func TestLossyEveryOperation(t *testing.T) {
	for _, x := range []string{"inline", "tasklet", "workqueue"} {
		for _, d := range fabrics {
			for _, test := range lossyTests(func(t *RCTest) { t.Executor, t.Workers = x, 2 }) {
				t.Run(fmt.Sprintf("%s/%s/%s/%s", test.Transport, test.Op, x, d.Fabric), func(t *testing.T) {
					p, err := MeasureRC(t.Context(), test, RCRun{Iterations: 60, Device: d}, nil)
					skipWithout(t, err)
					if err != nil {
						t.Fatal(err)
					}
					got := verified(t, p)
					if b := p.Bandwidth; b != nil && (b.Iterations != 60 || b.Received+int(b.Lost) != 60) {
						t.Errorf("60 messages were to be sent, got %+v", b)
					}
					if x == "inline" && got < 60 {
						t.Errorf("%d messages verified, want at least 60", got)
					}
				})
			}
		}
	}
}

func TestLossyParameters(t *testing.T) {
	for name, f := range map[string]func(*RCTest){
		"one byte":        func(t *RCTest) { t.Size = 1 },
		"small packets":   func(t *RCTest) { t.MTU, t.Size = 1024, 1024 },
		"4 QPs":           func(t *RCTest) { t.QPs = 4 },
		"depth of one":    func(t *RCTest) { t.SendDepth = 1 },
		"odd depths":      func(t *RCTest) { t.SendDepth, t.RecvDepth = 13, 19 },
		"lists":           func(t *RCTest) { t.SendDepth, t.List = 10, 4 },
		"inline":          func(t *RCTest) { t.Size, t.Inline = 100, 128 },
		"both directions": func(t *RCTest) { t.Both, t.QPs = true, 3 },
		"events":          func(t *RCTest) { t.Events, t.Executor = true, "workqueue" },
		"inline events":   func(t *RCTest) { t.Events = true },
		"unverified":      func(t *RCTest) { t.Verify = false },
	} {
		for _, test := range lossyTests(f) {
			t.Run(test.Transport+"/"+test.Op+"/"+name, func(t *testing.T) {
				if test.IsLatency() {
					test.QPs, test.Both = 1, false
				}
				p, err := MeasureRC(t.Context(), test, RCRun{Iterations: 100, Device: fabrics[0]}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if b := p.Bandwidth; b != nil && (b.Checked != test.Verify || (b.Verified > 0) != test.Verify) {
					t.Errorf("checked %v, %d messages, want %v", b.Checked, b.Verified, test.Verify)
				}
			})
		}
	}
}

// What is lost, doubled, delayed or damaged neither stops a measurement nor is
// taken for something else.
func TestLossyNetworkIsMeasured(t *testing.T) {
	for name, f := range map[string]func(*RCTest){
		"loss": func(t *RCTest) { t.Faults.Loss = 0.2 },
		"all": func(t *RCTest) {
			t.Faults.Loss, t.Faults.Dup, t.Faults.Reorder, t.Faults.Corrupt = 0.05, 0.05, 0.05, 0.05
		},
		"both directions, events": func(t *RCTest) { t.Faults.Loss, t.Events, t.Both = 0.2, true, !t.IsLatency() },
	} {
		for _, test := range lossyTests(f) {
			t.Run(test.Transport+"/"+test.Op+"/"+name, func(t *testing.T) {
				test.Faults.Seed = 7
				p, err := MeasureRC(t.Context(), test, RCRun{Iterations: 40, Device: fabrics[0]}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if b := p.Bandwidth; b != nil && (b.Lost == 0 || b.Received == 0 || b.Received+int(b.Lost) != b.Iterations || b.Verified == 0) {
					t.Errorf("got %+v, want some messages lost and others verified", b)
				}
				if l := p.Latency; l != nil && (l.Lost == 0 || l.Iterations != 40 || l.Verified == 0) {
					t.Errorf("got %+v, want some messages lost and others verified", l)
				}
			})
		}
	}
}

// A receiver without enough receives loses messages, and says why.
func TestLossyReceiverWithoutReceives(t *testing.T) {
	for _, test := range lossyTests(func(t *RCTest) { t.RecvDepth, t.QPs, t.SendDepth = 1, 1, 64 }) {
		p, err := MeasureRC(t.Context(), test, RCRun{Iterations: 1000, Device: fabrics[0]}, nil)
		if err != nil {
			t.Fatalf("%s %s: %v", test.Transport, test.Op, err)
		}
		if b := p.Bandwidth; b != nil && (b.Lost == 0 || b.NoReceive == 0 || b.Received == 0) {
			t.Errorf("%s %s: got %+v, want some lost for want of receives", test.Transport, test.Op, b)
		}
	}
}

func TestLossyWhereNothingArrives(t *testing.T) {
	for _, test := range lossyTests(nil) {
		err := inProcess(t.Context(), test, fabrics[0], func(r *rcRun) error {
			for i := range r.a.flows { // into the void
				if err := r.a.flows[i].qp.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
					return err
				}
			}
			_, err := r.measure(RCRun{Iterations: 3}, nil)
			return err
		})
		var broken *BrokenConnection
		if !errors.As(err, &broken) {
			t.Errorf("%s %s: got error %v, want BrokenConnection", test.Transport, test.Op, err)
		}
		err = inProcess(t.Context(), test, fabrics[0], func(r *rcRun) error {
			b := r.b.(rcLocal).e
			for i := range b.flows {
				if err := b.flows[i].qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.AttrState); err != nil {
					return err
				}
			}
			_, err := r.measure(RCRun{Iterations: 3}, nil)
			return err
		})
		if !errors.Is(err, ErrRCPeer) && !errors.As(err, &broken) {
			t.Errorf("%s %s: got error %v, want ErrRCPeer", test.Transport, test.Op, err)
		}
	}
}

// Whoever asked for losses is not told to look for a firewall.
func TestLossyWhereTheFaultsSpareNothing(t *testing.T) {
	for _, op := range []string{"send_bw", "send_lat"} {
		test := testOf(op, func(t *RCTest) {
			t.Transport, t.Size, t.MTU, t.Faults.Loss = "UC", 1<<20, 256, 0.5
		})
		_, err := MeasureRC(t.Context(), test, RCRun{Iterations: 3, Device: fabrics[0]}, nil)
		if !errors.Is(err, ErrRCPeer) || !strings.Contains(err.Error(), "the faults that were asked for") {
			t.Errorf("%s: got error %v, want one about the faults", op, err)
		}
	}
}

// A byte that is not what it should be is found, in each slot and when it
// arrives.
func TestLossyVerifyFindsWrongBytes(t *testing.T) {
	for _, test := range lossyTests(nil) {
		for _, each := range []bool{false, true} {
			var wrong *WrongContents
			err := inProcess(t.Context(), test, fabrics[0], func(r *rcRun) error {
				r.slice(5, each)
				if r.failed != nil {
					t.Errorf("before anything is wrong: %v", r.failed)
				}
				r.a.region[r.a.layout.start(9)+2999] ^= 1
				r.slice(5, each)
				return r.failed
			})
			if !errors.As(err, &wrong) || wrong.Message != 9 || wrong.Offset != 2999 {
				t.Errorf("%s %s, each %v: got error %v, want message 9, byte 2999", test.Transport, test.Op, each, err)
			}
		}
	}
}

// Numbers of messages are told by 32 bits, whatever was lost between them.
func TestLossyNumbers(t *testing.T) {
	for _, c := range []struct{ high, want uint64 }{
		{0, 0}, {5, 5}, {5, 4}, {5, 1000}, {1<<32 - 1, 1 << 32}, {1 << 32, 1<<32 - 7}, {1<<40 + 3, 1<<40 + 1<<30},
	} {
		f := lossyFlow{high: c.high}
		if got := f.number(uint32(c.want)); got != c.want {
			t.Errorf("after %d: got %d, want %d", c.high, got, c.want)
		}
	}
}

// A message that comes twice counts once, and one that is late not at all.
func TestLossyCountsOnce(t *testing.T) {
	err := inProcess(t.Context(), testOf("send_bw", func(t *RCTest) { t.Transport = "UD" }), fabrics[0], func(r *rcRun) error {
		e := r.b.(rcLocal).e
		f := &e.flows[0]
		e.begin(10, false)
		for k, m := range []uint64{1, 3, 1, 0, 3, 9} {
			e.take(0, m, uint64(k))
		}
		if e.came.n != 4 || e.due != 6 {
			t.Errorf("got %d messages and %d due, want 4 and 6", e.came.n, e.due)
		}
		e.due = 0
		e.begin(10, false)
		e.take(0, 5, 6) // of the slice before
		e.take(0, 10, 7)
		if e.came.n != 1 || e.due != 9 {
			t.Errorf("got %d messages and %d due, want 1 and 9", e.came.n, e.due)
		}
		for k, want := range []uint64{1, 3, late, 0, late, 9, late, 10} {
			if f.held[k] != want {
				t.Errorf("receive %d holds message %d, want %d", k, f.held[k], want)
			}
		}
		e.take(0, 20, 8)
		if e.failed == nil {
			t.Error("a message that was never sent: no error")
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// UC keeps the order. Something that came out of it is an error.
func TestUCOutOfOrderIsAnError(t *testing.T) {
	_ = inProcess(t.Context(), testOf("send_bw", func(t *RCTest) { t.Transport = "UC" }), fabrics[0], func(r *rcRun) error {
		e := r.b.(rcLocal).e
		e.begin(10, false)
		e.take(0, 4, 0)
		e.take(0, 3, 1)
		if e.failed == nil || !strings.Contains(e.failed.Error(), "message 3 came after message 4") {
			t.Errorf("got error %v", e.failed)
		}
		return nil
	})
}

// The time of a message is the receiver's, without those that were there when
// it looked for the first time.
func TestSpanOfArrivals(t *testing.T) {
	at := time.Now()
	for _, c := range []struct {
		s    span
		want float64
	}{
		{span{}, 0},
		{span{began: at, first: at.Add(100), last: at.Add(1100), ahead: 10, n: 110}, 10},
		{span{began: at, first: at.Add(100), last: at.Add(100), ahead: 10, n: 10}, 10},
	} {
		if got := c.s.each(); got != c.want {
			t.Errorf("got %v ns, want %v", got, c.want)
		}
	}
}

func TestLossyBetweenClientAndServer(t *testing.T) {
	workers := func(t *RCTest) { t.Executor, t.Workers = "workqueue", 2 }
	duplex := func(t *RCTest) { t.Executor, t.Both = "tasklet", !t.IsLatency() }
	events := func(t *RCTest) { t.Events, t.Executor, t.Workers = true, "workqueue", 1 }
	loss := func(t *RCTest) { t.Executor, t.Faults.Loss, t.Both = "inline", 0.2, t.Op == "send_bw" }
	t.Run("clean", func(t *testing.T) { lossyBetween(t, workers, duplex, events) })
	t.Run("loss", func(t *testing.T) { lossyBetween(t, loss) })
}

// lossyBetween carries out all tests with one server.
func lossyBetween(t *testing.T, kinds ...func(*RCTest)) {
	addr, ended := served(t)
	c := dialed(t, addr)
	for _, f := range kinds {
		for _, test := range lossyTests(f) {
			p, err := c.Measure(t.Context(), test, RCRun{Iterations: 30}, nil)
			skipWithout(t, err)
			if err != nil {
				t.Fatalf("%s %s: %v", test.Transport, test.Op, err)
			}
			if b := p.Bandwidth; b != nil && (b.Received == 0 || b.Received+int(b.Lost) != b.Iterations) {
				t.Errorf("%s %s: got %+v", test.Transport, test.Op, b)
			}
		}
	}
	if err := c.End(nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server: %v", err)
	}
}
