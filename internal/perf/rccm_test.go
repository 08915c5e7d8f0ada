package perf

import (
	"errors"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/internal/link"
)

// viaCM lets the connection manager connect.
func viaCM(op, transport, executor string, qps int) RCTest {
	return testOf(op, func(t *RCTest) { t.CM, t.Transport, t.Executor, t.QPs = true, transport, executor, qps })
}

func TestRCThroughTheConnectionManager(t *testing.T) {
	for _, d := range fabrics {
		for _, c := range []RCTest{
			viaCM("send_bw", "RC", "inline", 3), viaCM("write_bw", "RC", "tasklet", 1), viaCM("read_bw", "RC", "workqueue", 5),
			viaCM("atomic_lat", "RC", "inline", 1), viaCM("send_lat", "UC", "workqueue", 1), viaCM("write_bw", "UC", "inline", 2),
			datagrams("send_bw", "inline", 3), datagrams("send_lat", "workqueue", 1),
		} {
			p, err := MeasureRC(t.Context(), c, RCRun{Device: d, Iterations: 40}, nil)
			skipWithout(t, err)
			if err != nil {
				t.Errorf("%s, %s over %s: %v", c.Op, c.Transport, d.Fabric, err)
				continue
			}
			if n := verified(t, p); n == 0 {
				t.Errorf("%s, %s over %s: nothing was verified", c.Op, c.Transport, d.Fabric)
			}
		}
	}
}

// datagrams lets the connection manager find queue pairs of type UD.
func datagrams(op, executor string, qps int) RCTest {
	t := viaCM(op, "UD", executor, qps)
	t.Size, t.Both = min(t.Size, t.MTU), op == "send_bw"
	return t
}

// What is lost while the connections are made is sent again.
func TestRCThroughTheConnectionManagerInBadWeather(t *testing.T) {
	c := viaCM("send_bw", "RC", "workqueue", 40)
	c.Faults = link.Faults{Loss: 0.05, Dup: 0.05, Seed: 3}
	c.Timeout = 14 // it often waits for that
	c.SRQ = true
	c.RecvDepth = 64
	p, err := MeasureRC(t.Context(), c, RCRun{Device: fabrics[0], Iterations: 10}, nil)
	if err != nil || p.Bandwidth.Verified == 0 {
		t.Errorf("got %+v, %v", p, err)
	}
}

// Tests with and without the connection manager share a device.
func TestRCClientThroughTheConnectionManager(t *testing.T) {
	addr, ended := served(t)
	c := dialed(t, addr)
	for _, through := range []bool{true, false, true} {
		test := viaCM("send_bw", "RC", "workqueue", 4)
		test.CM = through
		p, err := c.Measure(t.Context(), test, RCRun{Iterations: 60}, nil)
		skipWithout(t, err)
		if err != nil || p.Bandwidth.Verified == 0 {
			t.Fatalf("through the connection manager: %v: got %+v, %v", through, p, err)
		}
	}
	if err := c.End(nil); err != nil {
		t.Error(err)
	}
	<-ended
}

func TestRCConnectionManagerRefuses(t *testing.T) {
	forever := viaCM("send_bw", "RC", "inline", 1)
	forever.Timeout = 0
	for _, c := range []struct {
		test RCTest
		want string
	}{{forever, "qp-timeout 0: "}} {
		if err := c.test.Check(); !errors.Is(err, ErrRCParameter) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("got %v, want %q and more", err, c.want)
		}
	}
}
