package main

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/perf"
)

// define declares the flags, in the order of perftest's help.
func (p *perfFlags) define(f *pflag.FlagSet) {
	f.SortFlags = false
	p.test = perf.NewRCTest("write_bw")
	p.size = sizeFlag(p.test.Size)
	t := &p.test
	f.StringVarP(&t.Transport, "connection", "c", "RC", "transport service: RC, UC or UD")
	f.VarP(&p.size, "size", "s", "bytes of a message (8 for atomics; UD: default the MTU)")
	f.BoolVarP(&p.all, "all", "a", false, "all sizes from 2 bytes to 8 MiB, or with UD to the MTU")
	f.IntVarP(&p.iters, "iters", "n", 0, "messages of each queue pair, instead of a duration")
	f.VarP(&p.duration, "duration", "D", "time of one row, half of it with Go's copy (default 2s, with -a 200ms)")
	f.IntVarP(&t.QPs, "qp", "q", 1, "queue pairs")
	f.IntVarP(&t.SendDepth, "tx-depth", "t", 0, "messages outstanding on a queue pair (default 4 to 128, a mebibyte in all)")
	f.IntVarP(&t.RecvDepth, "rx-depth", "r", 0, "receives posted on a queue pair (default twice as many)")
	f.IntVarP(&t.MTU, "mtu", "m", 4096, "bytes of payload of a packet")
	f.IntVarP(&t.Moderation, "cq-mod", "Q", 0, "one completion for so many messages (default a quarter of -t, at most 100)")
	f.VarP(&p.inline, "inline_size", "I", "copy messages up to this size when they are posted")
	f.IntVarP(&t.Outstanding, "outs", "o", 16, "READs and atomics outstanding on a queue pair")
	f.BoolVar(&t.SRQ, "use-srq", false, "receive from one shared queue at each end (send_bw and send_lat over RC)")
	f.IntVarP(&t.List, "post_list", "l", 1, "work requests of one post")
	f.BoolVarP(&t.Both, "bidirectional", "b", false, "both ends send")
	f.StringVarP(&t.Atomic, "atomic_type", "A", "FETCH_AND_ADD", "FETCH_AND_ADD or CMP_AND_SWAP")
	f.IntVarP(&t.Timeout, "qp-timeout", "u", t.Timeout, "local ACK timeout: 4.096 us times 2 to the power of this")
	f.IntVar(&t.RetryCount, "retry_count", t.RetryCount, "how often a message is tried again without an answer")
	f.StringVarP(&p.device, "ib-dev", "d", "", "take the address of this device: see gantry devices")
	f.IntVarP(&p.gid, "gid-index", "x", 0, "which of its addresses")
	f.IntVarP(&p.port, "port", "p", 18515, "TCP port on which client and server talk")
	f.BoolVarP(&t.Events, "events", "e", false, "wait for completions instead of polling")
	f.BoolVarP(&p.freq, "CPU-freq", "F", false, "does nothing, as there is no check of the CPU frequency")
	f.BoolVarP(&t.CM, "rdma_cm", "R", false, "the RDMA connection manager connects the queue pairs")
	f.BoolVar(&p.listen, "listen", false, "be the server for one client")
	f.StringVar(&p.run.Device.Fabric, "fabric", defaultFabric(), "memory (within a process) or udp")
	f.StringVar(&p.addr, "addr", "", "address of the device of this end")
	f.StringVar(&t.Executor, "executor", "", "inline, tasklet or workqueue (default workqueue for RC, inline for UC and UD)")
	f.IntVar(&t.Workers, "workers", 0, "workers of a work queue, the program that polls among them (default GOMAXPROCS)")
	f.BoolVar(&t.Verify, "check", true, "compare the contents of memory")
	f.StringVar(&p.pcap, "pcap", "", "write the packets of this end to a pcapng `file`")
	f.Float64Var(&t.Faults.Loss, "loss", 0, "part of the packets that are lost, as 0.01")
	f.Float64Var(&t.Faults.Dup, "dup", 0, "part that arrives twice")
	f.Float64Var(&t.Faults.Reorder, "reorder", 0, "part that is overtaken by others")
	f.Float64Var(&t.Faults.Corrupt, "corrupt", 0, "part in which a bit is flipped")
	f.Uint64Var(&t.Faults.Seed, "seed", 1, "which packets these are, and what messages hold")
	f.StringVar(&p.out, "out", "", "also write the JSON document to a `file`")
	f.IntVar(&t.SocketBuffer, "socket-buffer", 0, "bytes to ask for as UDP buffers, at both ends")
	f.Lookup("socket-buffer").Hidden = true // for measuring what overflow does
	f.Lookup("duration").DefValue, f.Lookup("inline_size").DefValue = "", ""
}

// arguments takes the operation and the host.
func (p *perfFlags) arguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 2:
		return usagef("%s takes an operation and a host, and %q is one argument too many", cmd.CommandPath(), args[2])
	case len(args) > 0 && !isOp(args[0]):
		return unknown("operation", args[0], cmd.CommandPath(), perf.RCOps)
	case len(args) > 1:
		p.host = args[1]
		fallthrough
	case len(args) == 1:
		p.test.Op, p.chosen = args[0], true
	}
	return nil
}

// settle checks the flags against each other and fills in what depends on them.
func (p *perfFlags) settle(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if err := p.refuse(given); err != nil {
		return err
	}
	if err := p.chooseTime(given); err != nil {
		return err
	}
	if err := p.chooseAddr(); err != nil {
		return err
	}
	for _, f := range []string{"qp", "tx-depth", "rx-depth", "cq-mod", "outs", "post_list", "mtu", "size"} {
		if v := cmd.Flags().Lookup(f).Value.String(); given(f) && v == "0" {
			return usagef("--%s 0: 1 is the least", f)
		}
	}
	p.test.Seed = p.test.Faults.Seed
	p.test.Inline = int(p.inline)
	if p.listen {
		return nil // all else is the client's
	}
	if p.test.Transport == "UD" {
		p.fitDatagrams(given("size"))
	}
	sample := p.test
	sample.Size = int(p.size)
	sample.Fill()
	if err := sample.Check(); err != nil {
		return usagef("--%w", err)
	}
	return nil
}

// fitDatagrams takes for what was not chosen what datagrams can do.
func (p *perfFlags) fitDatagrams(sized bool) {
	if !p.chosen {
		p.test.Op = "send_bw"
	}
	if !sized {
		p.size = sizeFlag(p.test.MTU)
	}
}

// refuse rejects what is not there or does not go together.
func (p *perfFlags) refuse(given func(string) bool) error {
	switch {
	case p.listen && p.host != "":
		return usagef("--listen: a server has no HOST, and %q was given", p.host)
	case p.run.Device.Fabric != perf.FabricMemory && p.run.Device.Fabric != perf.FabricUDP:
		return usagef("--fabric %q: memory and udp are possible", p.run.Device.Fabric)
	case p.run.Device.Fabric == perf.FabricMemory && (p.listen || p.host != "") && given("fabric"):
		return usagef("--fabric memory: two processes need the udp fabric")
	case p.test.Executor != "" && !isExecutor(p.test.Executor):
		return unknown("executor", p.test.Executor, "gantry perf", gridExecutors)
	case p.test.Workers != 0 && p.test.Executor != "" && p.test.Executor != "workqueue":
		return usagef("--workers %d: only a work queue has workers, and the executor is %s", p.test.Workers, p.test.Executor)
	case p.port < 0 || p.port > 65535:
		return usagef("--port %d: 0 to 65535 are possible", p.port)
	case p.all && given("size"):
		return usagef("--all and --size: choose one of them")
	case given("iters") && given("duration"):
		return usagef("--iters and --duration: choose one of them")
	case given("iters") && p.iters < 1:
		return usagef("--iters %d: 1 is the least", p.iters)
	case given("duration") && p.duration == 0:
		return usagef("--duration 0: there must be some time to measure in")
	}
	return nil
}

// chooseTime says how long one row takes.
func (p *perfFlags) chooseTime(given func(string) bool) error {
	p.run.Iterations, p.run.Duration = p.iters, time.Duration(p.duration)
	if given("iters") || given("duration") {
		return nil
	}
	p.run.Duration = perfTime
	if p.all {
		p.run.Duration = perfTimeOfAll
	}
	if p.pcap != "" {
		p.run.Iterations = itersOfPcap
	}
	return nil
}

// chooseAddr finds the address of this end's device.
func (p *perfFlags) chooseAddr() (err error) {
	switch {
	case p.addr != "" && p.device != "":
		return usagef("--addr and --ib-dev: choose one of them")
	case p.addr != "":
		if p.run.Device.Addr, err = netip.ParseAddr(p.addr); err != nil {
			return usagef("--addr %q: write an IPv4 or IPv6 address of this machine", p.addr)
		}
	case p.device != "":
		if p.run.Device.Addr, err = addrOfDevice(p.device, p.gid); err != nil {
			return err
		}
	case p.gid != 0:
		return usagef("--gid-index %d: the addresses are those of a device: name it with -d", p.gid)
	case !p.listen && p.host == "":
		p.run.Device.Addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return nil
}

// addrOfDevice returns one of the addresses of a device.
func addrOfDevice(name string, gid int) (netip.Addr, error) {
	infos, err := device.List()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("list the devices: %w", err)
	}
	var known []string
	for _, i := range infos {
		known = append(known, i.IBDev())
	}
	at := slices.Index(known, name)
	if at < 0 {
		return netip.Addr{}, unknown("device", name, "this machine", known)
	}
	gids := infos[at].GIDs()
	if gid < 0 || gid >= len(gids) {
		return netip.Addr{}, usagef("GID index %d: device %s has %d addresses: see gantry devices", gid, name, len(gids))
	}
	return gids[gid].Unmap(), nil
}
