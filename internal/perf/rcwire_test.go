package perf

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
	"github.com/gantry-rdma/gantry/verbs"
)

// listen returns a TCP socket of which the address is known.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// served starts a server for one client and returns where it is and how it ends.
func served(t *testing.T) (addr string, ended chan error) {
	l, ended := listen(t), make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			s := RCServer{Device: RCDevice{Fabric: FabricUDP, Addr: loopback(3)}}
			_, _, err = s.Serve(t.Context(), conn)
		}
		ended <- err
	}()
	return l.Addr().String(), ended
}

// dialed connects a client.
func dialed(t *testing.T, addr string) *RCClient {
	t.Helper()
	c, err := DialRC(t.Context(), addr, RCDevice{Fabric: FabricUDP, Addr: loopback(4)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// What is lost is asked for once more, also when the end that is asked has all
// that it wants, and waits for the other's word on TCP: on an inline executor
// nobody else answers.
func TestRCEndsThatWaitForAWordAnswer(t *testing.T) {
	addr, ended := served(t)
	c := dialed(t, addr)
	for _, op := range []string{"write_bw", "atomic_bw"} {
		test := testOf(op, func(t *RCTest) {
			t.Timeout, t.Faults.Loss, t.QPs, t.Both, t.Events = 14, 0.05, 3, op == "write_bw", op == "atomic_bw"
		})
		_, err := c.Measure(t.Context(), test, RCRun{Iterations: 10}, nil)
		skipWithout(t, err)
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
	}
	if err := c.End(nil); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server: %v", err)
	}
}

// One client carries out every test with one server, on the same connection.
func TestRCBetweenClientAndServer(t *testing.T) {
	addr, ended := served(t)
	c := dialed(t, addr)
	var points []RCPoint
	for i, op := range append(RCOps, "write_bw", "send_bw") {
		test := testOf(op, func(t *RCTest) {
			t.Executor, t.Workers = "workqueue", 2
			t.Both = i >= len(RCOps)
			t.Events = op == "send_lat"
		})
		p, err := c.Measure(t.Context(), test, RCRun{Iterations: 60}, nil)
		skipWithout(t, err)
		if err != nil {
			t.Fatalf("%s: %v", op, err)
		}
		if got := verified(t, p); got < 60 {
			t.Errorf("%s: %d messages verified, want at least 60", op, got)
		}
		points = append(points, p)
	}
	if err := c.End(points); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the server: %v", err)
	}
}

// What arrives wrong at the server ends the client.
func TestRCServerReportsWrongBytes(t *testing.T) {
	for _, op := range []string{"send_bw", "write_bw"} {
		addr, ended := served(t)
		c := dialed(t, addr)
		err := c.connected(t.Context(), testOf(op, nil), func(r *rcRun) error {
			r.a.region[r.a.layout.start(2)+5] ^= 1
			r.slice(4, false)
			return r.failed
		})
		skipWithout(t, err)
		if err == nil || !strings.Contains(err.Error(), "wrong contents: queue pair 0") {
			t.Errorf("%s: got error %v, want wrong contents", op, err)
		}
		if err := <-ended; err == nil {
			t.Errorf("%s: the server has no error", op)
		}
	}
}

func TestRCClientGoesAway(t *testing.T) {
	addr, ended := served(t)
	c := dialed(t, addr)
	err := c.connected(t.Context(), testOf("send_bw", nil), func(r *rcRun) error {
		if err := r.b.announce(10, false); err != nil {
			return err
		}
		c.x.close()
		return nil
	})
	skipWithout(t, err)
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "went away") {
		t.Errorf("the server: got error %v, want that the client went away", err)
	}
}

// A server that is gone is noticed by the transport within the time that its
// attributes promise.
func TestRCServerGoesAway(t *testing.T) {
	l := listen(t)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s := RCServer{Device: RCDevice{Fabric: FabricUDP, Addr: loopback(3)}}
		s.Begun = func(net.Addr, RCTest) { time.AfterFunc(300*time.Millisecond, cancel) }
		_, _, _ = s.Serve(ctx, conn)
	}()
	c := dialed(t, l.Addr().String())
	test := testOf("write_bw", func(t *RCTest) { t.Timeout, t.RetryCount = 12, 3 })
	start := time.Now()
	_, err := c.Measure(t.Context(), test, RCRun{Duration: time.Minute}, nil)
	skipWithout(t, err)
	<-gone
	var broken *BrokenConnection
	if errors.As(err, &broken) {
		if broken.Status != verbs.WCRetryExc || !strings.Contains(err.Error(), "does not answer any more") ||
			!strings.Contains(err.Error(), "look whether gantry perf still runs there") {
			t.Errorf("got error %v, want RETRY_EXC, and where to look", err)
		}
	} else if err == nil || !strings.Contains(err.Error(), "went away") {
		t.Errorf("got error %v, want one that says that the server is gone", err)
	}
	if d := time.Since(start); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
}

// Whatever says something else than Gantry is told apart.
func TestRCClientMeetsSomethingElse(t *testing.T) {
	for name, c := range map[string]struct{ says, want string }{
		"perftest":        {"0000:0000:000000:000000:00000000:0000000000000000\n", "which is not gantry perf"},
		"HTTP":            {"HTTP/1.1 400 Bad Request\r\n\r\n", "which is not gantry perf"},
		"another version": {`{"name":"gantry-perf","version":99,"kind":"hello"}` + "\n", "version 99"},
		"unknown field":   {`{"name":"gantry-perf","version":4,"kind":"hello","colour":1}` + "\n", "cannot be understood"},
		"another kind":    {`{"name":"gantry-perf","version":4,"kind":"ready"}` + "\n", `says "ready"`},
		"no hello":        {`{"name":"gantry-perf","version":4,"kind":"hello"}` + "\n", "nothing of its queue pairs"},
		"refusal":         {`{"name":"gantry-perf","version":4,"kind":"error","error":"no"}` + "\n", "the other end: no"},
		"a long line":     {strings.Repeat("x", longestMessage+2) + "\n", "a line of more than"},
		"nothing":         {"", "went away"},
	} {
		t.Run(name, func(t *testing.T) {
			l := listen(t)
			go func() {
				if conn, err := l.Accept(); err == nil {
					_, _ = bufio.NewReader(conn).ReadString('\n')
					_, _ = conn.Write([]byte(c.says))
					_ = conn.Close()
				}
			}()
			_, err := dialed(t, l.Addr().String()).Measure(t.Context(), testOf("write_bw", nil), RCRun{Iterations: 1}, nil)
			skipWithout(t, err)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

// A server takes nothing from a client that it has not checked.
func TestRCServerMeetsSomethingElse(t *testing.T) {
	good := testOf("write_bw", nil)
	message := func(m rcMessage) string {
		m.Name, m.Version = exchangeName, exchangeVersion
		line, _ := json.Marshal(m)
		return string(line) + "\n"
	}
	huge := good
	huge.QPs = 1 << 30
	for name, c := range map[string]struct{ says, want string }{
		"rubbish":       {"hello\n", "which is not gantry perf"},
		"no test":       {message(rcMessage{Kind: kindTest}), "without parameters"},
		"a huge test":   {message(rcMessage{Kind: kindTest, Test: &huge}), "qp 1073741824"},
		"begin first":   {message(rcMessage{Kind: kindBegin, N: 1}), `says "begin"`},
		"nobody":        {"", "went away"},
		"no queue pair": {message(rcMessage{Kind: kindTest, Test: &good}) + message(rcMessage{Kind: kindHello, Hello: &rcHello{}}), "0 queue pairs"},
	} {
		t.Run(name, func(t *testing.T) {
			addr, ended := served(t)
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = conn.Write([]byte(c.says))
			_ = conn.(*net.TCPConn).CloseWrite() // what was written arrives first
			err = <-ended
			_ = conn.Close()
			skipWithout(t, err)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want %q", err, c.want)
			}
		})
	}
}

func TestRCNobodyListens(t *testing.T) {
	l := listen(t)
	_ = l.Close()
	_, err := DialRC(t.Context(), l.Addr().String(), RCDevice{})
	if err == nil || !strings.Contains(err.Error(), "start gantry perf --listen there first") {
		t.Errorf("got error %v, want what to do", err)
	}
}

// peerVariable makes this test program the other process of MeasureUDP.
const peerVariable = "GANTRY_TEST_UDP_PEER"

func testPeer(ctx context.Context) *exec.Cmd {
	cmd := child.Until(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), peerVariable+"=1")
	return cmd
}

// bePeer is the other process. It returns the exit code.
func bePeer() int {
	be := func() error { return UDPPeer(context.Background(), os.Stdin, os.Stdout) }
	if os.Getenv(comchVariable) != "" {
		be = beComchPeer
	}
	if err := be(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func TestBareUDP(t *testing.T) {
	for name, beside := range map[string]*RCBeside{
		"alone":     nil,
		"beside UD": {Addr: loopback(7), Executor: "inline"},
		"beside RC": {Addr: loopback(5), Executor: "workqueue", Workers: 2, Size: 64 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			test := UDPTest{Size: 1024, Duration: 100 * time.Millisecond, Peer: testPeer, RC: beside}
			if name == "beside UD" {
				test.RC, test.UD, beside = nil, beside, nil
			}
			res, err := MeasureUDP(inTime(t), test, nil)
			skipWithout(t, err)
			if err != nil {
				t.Fatal(err)
			}
			wantPositive(t, res, "lost")
			if u := res.UD; (u != nil) != (name == "beside UD") || u != nil && (u.Ratio <= 0 || u.Sent <= u.Lost) {
				t.Errorf("datagrams beside it: %+v", u)
			}
			if beside != nil {
				wantPositive(t, res.RC, "retransmits")
			}
		})
	}
	_, err := MeasureUDP(inTime(t), UDPTest{Size: 0, Peer: testPeer}, nil)
	if !errors.Is(err, ErrRCParameter) {
		t.Errorf("size 0: got error %v", err)
	}
	_, err = MeasureUDP(inTime(t), UDPTest{Size: 64, Peer: func(ctx context.Context) *exec.Cmd {
		return child.Until(ctx, os.Args[0], "-test.run=^$")
	}}, nil)
	if err == nil {
		t.Error("a peer that ends at once: no error")
	}
}
