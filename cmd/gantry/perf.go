package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/perf"
)

// A perfFlags is the command line of gantry perf. perf_flags.go reads it, and
// perf_print.go shows the results.
type perfFlags struct {
	test perf.RCTest
	run  perf.RCRun

	host      string
	listen    bool
	chosen    bool // the operation
	all       bool
	iters     int
	duration  durationFlag
	size      sizeFlag
	inline    sizeFlag
	device    string
	gid       int
	port      int
	addr      string
	pcap, out string
	freq      bool
}

// How long one row takes if the user does not say.
const (
	perfTime      = 2 * time.Second
	perfTimeOfAll = 200 * time.Millisecond
	itersOfPcap   = 100 // a capture is for looking at, so it must not grow by gigabytes
)

// sizes are those of --all, as perftest has them.
func (p *perfFlags) sizes() (sizes []int) {
	most := 8 << 20
	if p.test.Transport == "UD" {
		most = p.test.MTU
	}
	for s := 2; s <= most; s *= 2 {
		sizes = append(sizes, s)
	}
	return sizes
}

// perfCommand measures the transport.
func perfCommand(c *console) *cobra.Command {
	p := new(perfFlags)
	cmd := &cobra.Command{
		Use:   "perf [OP [HOST]] [flags]",
		Short: "measure RDMA operations, as perftest does",
		Long: `Measures bandwidth (send_bw, write_bw, read_bw, atomic_bw) or latency (send_lat,
write_lat, read_lat, atomic_lat) of RDMA over RoCEv2.

Without HOST both ends are in this process. With --listen it is a server, which
takes all parameters from one client and ends with it; with HOST it is that
client. Flags have perftest's letters. What arrives is compared with what was
sent, unless --check=false.

-c UC has SEND and WRITE, -c UD has SEND. What they lose is lost, so what counts
is what arrives, by the clock of the receiver, and the rest is shown as lost. A
sender that is faster than the receiver loses much: -t makes it post less at a
time.

A device has an address, which --addr chooses, and owns UDP port 4791 on it. A
server waits there, by default on 127.0.0.1, so another machine reaches only one
that was told its address. A client takes the address from which it reaches the
server, but 127.0.0.2 where that is the server's own. In one process the second
end has the next address.`,
		Example: `  gantry perf
  gantry perf send_lat --executor inline
  gantry perf write_bw --fabric memory -q 16 --executor workqueue --workers 2
  gantry perf send_bw --loss 0.01 --seed 7
  gantry perf send_bw -c UD -s 1K
  gantry perf send_bw -q 1000 -s 64 --use-srq
  gantry perf --listen &  gantry perf read_bw localhost -s 1M -D 5`,
		Args: func(cmd *cobra.Command, args []string) error { return p.arguments(cmd, args) },
		RunE: func(cmd *cobra.Command, _ []string) error { return p.carryOut(cmd, c) },
	}
	p.define(cmd.Flags())
	return cmd
}

// carryOut checks the flags and measures.
func (p *perfFlags) carryOut(cmd *cobra.Command, c *console) (err error) {
	if err = p.settle(cmd); err != nil {
		return err
	}
	doc := perfDocument{Role: "both", Setup: readSetup()}
	close, err := p.openCapture()
	if err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, close()) }()
	switch {
	case p.listen:
		doc.Role = "server"
		err = p.serve(cmd.Context(), c, &doc)
	case p.host != "":
		doc.Role = "client"
		err = p.client(cmd.Context(), c, &doc)
	default:
		err = p.within(cmd.Context(), c, &doc)
	}
	if err != nil {
		return p.wrongFlag(err)
	}
	return p.report(c, &doc)
}

// wrongFlag makes a parameter that measuring refuses an error of the command
// line. It begins with the name of the flag.
func (p *perfFlags) wrongFlag(err error) error {
	if errors.Is(err, perf.ErrRCParameter) && !p.listen {
		return usagef("--%w", err)
	}
	return err
}

// points calls measure for each test of the command line.
func (p *perfFlags) points(ctx context.Context, c *console, doc *perfDocument,
	measure func(context.Context, perf.RCTest, perf.Watch) (perf.RCPoint, error),
) error {
	sizes := []int{int(p.size)}
	if p.all {
		sizes = p.sizes()
	}
	watch, end := c.watch(p.run.Duration * time.Duration(len(sizes)))
	defer end()
	for i, size := range sizes {
		t := p.test
		t.Size = size
		t.Fill()
		point, err := measure(ctx, t, watch.Part(i, 1, len(sizes)))
		if err != nil {
			return err
		}
		doc.describe(t)
		doc.points = append(doc.points, point)
	}
	var err error
	doc.BytesPerQP, err = perf.MeasureIdleQP()
	return err
}

// within measures with both ends in this process.
func (p *perfFlags) within(ctx context.Context, c *console, doc *perfDocument) error {
	doc.Fabric = p.run.Device.Fabric
	return p.points(ctx, c, doc, func(ctx context.Context, t perf.RCTest, w perf.Watch) (perf.RCPoint, error) {
		return perf.MeasureRC(ctx, t, p.run, w)
	})
}

// client measures with a server.
func (p *perfFlags) client(ctx context.Context, c *console, doc *perfDocument) (err error) {
	doc.Fabric = perf.FabricUDP
	at := net.JoinHostPort(p.host, strconv.Itoa(p.port))
	s, err := perf.DialRC(ctx, at, p.run.Device)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	defer func() { core.KeepFirst(&err, s.Close()) }()
	err = p.points(ctx, c, doc, func(ctx context.Context, t perf.RCTest, w perf.Watch) (perf.RCPoint, error) {
		return s.Measure(ctx, t, p.run, w)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return s.End(doc.points)
}

// serve waits for one client and does what it asks for.
func (p *perfFlags) serve(ctx context.Context, c *console, doc *perfDocument) error {
	doc.Fabric = perf.FabricUDP
	var lc net.ListenConfig
	// Only where the device is: a test on loopback is nobody else's business.
	host := "127.0.0.1"
	if a := p.run.Device.Addr; a.IsValid() {
		host = a.String()
	}
	at := net.JoinHostPort(host, strconv.Itoa(p.port))
	l, err := lc.Listen(ctx, "tcp", at)
	if err != nil {
		return fmt.Errorf("listen on TCP %s: %w: choose another port with -p, at both ends", at, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	c.notef("waiting for a client on TCP %v", l.Addr())
	conn, err := l.Accept()
	_ = l.Close() // one client is served
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("wait for a client: %w", err)
	}
	s := perf.RCServer{Device: p.run.Device, Executor: p.test.Executor, Workers: p.test.Workers, Buffer: p.test.SocketBuffer}
	s.Begun = func(client net.Addr, t perf.RCTest) {
		c.notef("%v: %s, %d bytes, %d queue pairs", client, t.Op, t.Size, t.QPs)
	}
	points, t, err := s.Serve(ctx, conn)
	if err != nil {
		return fmt.Errorf("client %v: %w", conn.RemoteAddr(), err)
	}
	doc.describe(t)
	doc.points = points
	return nil
}

// openCapture creates the file for --pcap.
func (p *perfFlags) openCapture() (close func() error, err error) {
	if p.pcap == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(p.pcap)
	if err != nil {
		return nil, fmt.Errorf("create the capture: %w", err)
	}
	p.run.Device.Capture = f
	return f.Close, nil
}

// defaultFabric is UDP where there is one.
func defaultFabric() string {
	if runtime.GOOS == "linux" {
		return perf.FabricUDP
	}
	return perf.FabricMemory
}

// isOp reports whether there is a measurement of that name.
func isOp(name string) bool { return slices.Contains(perf.RCOps, name) }
