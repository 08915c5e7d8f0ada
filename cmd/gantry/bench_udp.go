package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/internal/perf"
)

// A benchUDP is the command line of gantry bench udp.
type benchUDP struct {
	size     sizeFlag
	duration durationFlag
	beside   bool
	besideUD bool
	rc       perf.RCBeside
	rcSize   sizeFlag
	addr     string
	peer     bool
}

// benchUDPCommand measures bare sockets between two processes.
func benchUDPCommand(c *console) *cobra.Command {
	b := benchUDP{size: 4096, duration: durationFlag(2 * time.Second), rcSize: 64 << 10}
	cmd := &cobra.Command{
		Use:   "udp",
		Short: "the bare UDP socket: a stream and ping-pong between two processes",
		Long: `Starts a second process, streams packets of RoCE's size to it and plays
ping-pong with 64 bytes: the most that a transport over these sockets can
reach. The kernel cuts and merges packets where it can (GSO, GRO).

With --vs-rc WRITEs take turns with the stream and SENDs with the pings, in the
same run, so that a ratio can be taken. With --vs-ud SENDs over UD of the size
of the packets take turns with the stream.`,
		Example: `  gantry bench udp
  gantry bench udp --vs-rc -D 5 --json
  gantry bench udp --vs-ud -s 1K`,
		RunE: func(cmd *cobra.Command, _ []string) error { return b.run(cmd, c) },
	}
	f := cmd.Flags()
	f.VarP(&b.size, "size", "s", "bytes of a packet, without RoCE's headers")
	f.VarP(&b.duration, "duration", "D", "time of the measurement")
	f.BoolVar(&b.beside, "vs-rc", false, "measure the reliable connection beside it")
	f.BoolVar(&b.besideUD, "vs-ud", false, "measure datagrams beside it")
	f.Var(&b.rcSize, "write-size", "bytes of a WRITE, with --vs-rc")
	f.StringVar(&b.rc.Executor, "executor", "inline", "of WRITEs and datagrams: inline, tasklet or workqueue")
	f.IntVar(&b.rc.Workers, "workers", 0, "workers of a work queue, the program that polls among them (default GOMAXPROCS)")
	f.StringVar(&b.addr, "addr", "127.0.0.1", "address of the other process's device; the next three are used too")
	f.BoolVar(&b.peer, "peer", false, "be the other process")
	_ = f.MarkHidden("peer") // it exists
	return cmd
}

func (b *benchUDP) run(cmd *cobra.Command, c *console) error {
	if b.peer {
		return perf.UDPPeer(cmd.Context(), cmd.InOrStdin(), c.out)
	}
	t, err := b.test(cmd)
	if err != nil {
		return err
	}
	setup := readSetup()
	watch, end := c.watch(t.Duration)
	res, err := perf.MeasureUDP(cmd.Context(), t, watch)
	end()
	if errors.Is(err, perf.ErrRCParameter) {
		return usagef("--%w", err)
	}
	if err != nil {
		return err
	}
	if c.json {
		return c.emit(struct {
			perf.UDPResult
			Setup perf.Setup `json:"setup"`
		}{res, setup})
	}
	c.printSetup(setup)
	c.printUDP(res)
	return nil
}

// test checks the flags.
func (b *benchUDP) test(cmd *cobra.Command) (t perf.UDPTest, err error) {
	t = perf.UDPTest{Size: int(b.size), Duration: time.Duration(b.duration), Peer: otherProcess}
	switch {
	case t.Size < 1 || t.Size > perf.MaxUDPSize:
		return t, usagef("--size %d: 1 to %d are possible", t.Size, perf.MaxUDPSize)
	case t.Duration == 0:
		return t, usagef("--duration 0: there must be some time to measure in")
	case b.beside && b.besideUD:
		return t, usagef("--vs-rc and --vs-ud: choose one of them")
	case !b.beside && !b.besideUD:
		return t, nil
	case b.besideUD && t.Size > 4096:
		return t, usagef("--size %d: a datagram has 4096 bytes at most", t.Size)
	case !isExecutor(b.rc.Executor):
		return t, unknown("executor", b.rc.Executor, cmd.CommandPath(), gridExecutors)
	}
	b.rc.Size = int(b.rcSize)
	if b.rc.Addr, err = netip.ParseAddr(b.addr); err != nil {
		return t, usagef("--addr %q: write an IPv4 or IPv6 address of this machine", b.addr)
	}
	if b.besideUD {
		t.UD = &b.rc
	} else {
		t.RC = &b.rc
	}
	return t, nil
}

// otherProcess is this program again, as the peer.
func otherProcess(ctx context.Context) *exec.Cmd {
	self, err := os.Executable()
	if err != nil {
		self = os.Args[0]
	}
	return exec.CommandContext(ctx, self, "bench", "udp", "--peer")
}

func (c *console) printUDP(r perf.UDPResult) {
	c.table([]string{"#bytes", "packet", "GSO", "GRO", "BW peak[Gb/sec]", "BW average[Gb/sec]", "lost", "half RTT p50[usec]", "p99[usec]"},
		[][]string{{
			strconv.Itoa(r.Size), strconv.Itoa(r.PacketSize), yesNo(r.GSO), yesNo(r.GRO),
			fixed(r.Peak, 2), fixed(r.Average, 2), strconv.FormatUint(r.Lost, 10), fixed(r.HalfP50, 2), fixed(r.HalfP99, 2),
		}}, 0, 1, 4, 5, 6, 7, 8)
	if d := r.UD; d != nil {
		name := d.Executor
		if d.Workers > 0 {
			name += "(" + strconv.Itoa(d.Workers) + ")"
		}
		c.printf("\n")
		c.table([]string{"beside it", "executor", "Gb/sec", "Mpps", "ratio", "sent", "lost"}, [][]string{{
			"UD SEND " + strconv.Itoa(r.Size), name, fixed(d.Average, 2), fixed(d.Rate, 3), number(d.Ratio),
			strconv.Itoa(d.Sent), strconv.Itoa(d.Lost),
		}}, 2, 3, 4, 5, 6)
	}
	if r.RC == nil {
		return
	}
	name := r.RC.Executor
	if r.RC.Workers > 0 {
		name += "(" + strconv.Itoa(r.RC.Workers) + ")"
	}
	c.printf("\n")
	c.table([]string{"beside it", "executor", "measured", "ratio"}, [][]string{
		{"WRITE " + strconv.Itoa(r.RC.WriteSize) + ", Gb/sec", name, fixed(r.RC.WriteAverage, 2), number(r.RC.WriteRatio)},
		{"SEND 64 half RTT, usec", "inline", fixed(r.RC.SendHalfP50, 2), number(r.RC.SendRatio)},
	}, 2, 3)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
