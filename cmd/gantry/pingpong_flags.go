package main

import (
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/pingpong"
	"github.com/gantry-rdma/gantry/verbs"
)

// define declares the flags, first those of the originals in the order of their
// help.
func (p *pingpongFlags) define(f *pflag.FlagSet) {
	f.SortFlags = false
	t := &p.test
	p.size, p.limit = sizeFlag(t.Size), durationFlag(t.Limit)
	f.IntVarP(&p.port, "port", "p", pingpong.TCPPort, "TCP port on which the ends say where they are")
	f.StringVarP(&p.device, "ib-dev", "d", "", "take the address of this device: see gantry devices")
	f.IntVarP(&p.ibPort, "ib-port", "i", 1, "port of the device: there is one, and its number is 1")
	f.VarP(&p.size, "size", "s", "bytes of a message")
	if t.Type != verbs.UD {
		f.IntVarP(&t.MTU, "mtu", "m", t.MTU, "bytes of payload of a packet")
	}
	f.IntVarP(&t.Depth, "rx-depth", "r", t.Depth, "receives posted at a time")
	f.IntVarP(&t.Iters, "iters", "n", t.Iters, "messages in each direction")
	f.IntVarP(&p.level, "sl", "l", 0, "service level, 0 to 15: does nothing, as packets have no VLAN tag")
	f.BoolVarP(&t.Events, "events", "e", false, "wait for completions instead of polling")
	f.IntVarP(&p.gid, "gid-idx", "g", 0, "which address of the device")
	f.BoolVarP(&t.Check, "chk", "c", false, "compare the contents of each message, every byte")
	if t.Type == verbs.RC {
		f.BoolVarP(&p.odp, "odp", "o", false, "on-demand paging, which there is not: memory is never pinned")
		f.BoolVarP(&t.Times, "ts", "t", false, "print the times between receives, in nanoseconds, as this program sees them")
		f.IntVarP(&t.AckTimeout, "qp-timeout", "u", t.AckTimeout, "local ACK timeout: 4.096 us times 2 to the power of this")
	}
	f.IntVarP(&t.Moderation, "cq-mod", "Q", 1, "one completion for so many messages that this end sends")
	f.StringVar(&p.addr, "addr", "", "address of this end's device")
	f.Var(&p.limit, "timeout", "give up when nothing happens for this time")
	f.BoolVar(&p.loop, "loop", false, "both ends in this process, on 127.0.0.1 and 127.0.0.2, or --addr and the next one")
	f.StringVar(&p.pcap, "pcap", "", "write the packets of this end to a pcapng `file`")
	f.Float64Var(&t.Faults.Loss, "loss", 0, "part of the packets sent here that are lost, as 0.01")
	f.Float64Var(&t.Faults.Dup, "dup", 0, "part that is sent twice")
	f.Float64Var(&t.Faults.Reorder, "reorder", 0, "part that is late")
	f.Float64Var(&t.Faults.Corrupt, "corrupt", 0, "part in which a bit is flipped")
	f.Uint64Var(&t.Faults.Seed, "seed", 1, "which packets these are")
}

// settle checks the flags against each other and fills in what depends on them.
func (p *pingpongFlags) settle(cmd *cobra.Command) error {
	switch {
	case p.loop && p.host != "":
		return usagef("--loop: both ends are in this process, and HOST %q was given", p.host)
	case p.port < 0 || p.port > 65535:
		return usagef("--port %d: 0 to 65535 are possible", p.port)
	case p.port == 0:
		return usagef("--port 0: the other end could not know it: 1 to 65535 are possible")
	case p.ibPort != 1:
		return usagef("--ib-port %d: a device has one port, whose number is 1", p.ibPort)
	case p.level < 0 || p.level > 15:
		return usagef("--sl %d: 0 to 15 are possible", p.level)
	case p.odp:
		return usagef("--odp: there is no on-demand paging to choose: memory is never pinned here")
	case p.limit == 0:
		return usagef("--timeout 0: there must be some time to wait")
	}
	f := &p.test.Faults
	for _, part := range []struct {
		name string
		v    float64
	}{{"loss", f.Loss}, {"dup", f.Dup}, {"reorder", f.Reorder}, {"corrupt", f.Corrupt}} {
		if !(part.v >= 0 && part.v <= 0.9) {
			return usagef("--%s %v: 0 to 0.9 are possible", part.name, part.v)
		}
	}
	p.test.Size, p.test.Limit = int(min(p.size, pingpong.MaxSize+1)), time.Duration(p.limit)
	if err := p.test.Verify(); err != nil {
		return usagef("--%w", err)
	}
	return p.chooseAddr(cmd.Flags().Changed("gid-idx"))
}

// chooseAddr finds the address of this end's device. Where nothing is said the
// other end decides.
func (p *pingpongFlags) chooseAddr(givenGID bool) (err error) {
	switch {
	case p.addr != "" && (p.device != "" || givenGID):
		return usagef("--addr: it takes the place of --ib-dev and --gid-idx: choose one of them")
	case p.addr != "":
		if p.test.Addr, err = netip.ParseAddr(p.addr); err != nil {
			return usagef("--addr %q: write an IPv4 or IPv6 address of this machine", p.addr)
		}
	case p.device != "":
		p.test.Addr, err = addrOfDevice(p.device, p.gid)
	case givenGID:
		var first string
		if first, err = firstDevice(); err == nil {
			p.test.Addr, err = addrOfDevice(first, p.gid)
		}
	case p.loop:
		p.test.Addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return err
}

// firstDevice returns the name of the device that the originals would take: the
// first one.
func firstDevice() (string, error) {
	infos, err := device.List()
	if err != nil {
		return "", err
	}
	if len(infos) == 0 {
		return "", usagef("--gid-idx: this machine has no network device: choose an address with --addr")
	}
	return infos[0].IBDev(), nil
}
