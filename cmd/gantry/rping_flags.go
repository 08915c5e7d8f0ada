package main

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/gantry-rdma/gantry/internal/rping"
)

// define declares the flags, first those of the original in the order of its
// help.
func (p *rpingFlags) define(f *pflag.FlagSet) {
	f.SortFlags = false
	t := &p.test
	p.size, p.limit = sizeFlag(t.Size), durationFlag(t.Limit)
	f.BoolVarP(&p.client, "client", "c", false, "be the client")
	f.StringVarP(&p.addr, "addr", "I", "", "address of this end's device")
	f.BoolVarP(&p.server, "server", "s", false, "be the server")
	f.BoolVarP(&p.verbose, "verbose", "v", false, "print the text of each ping")
	f.BoolVarP(&t.Check, "validate", "V", false, "compare the text of each ping, a server too")
	f.BoolVarP(&p.debug, "debug", "d", false, "print what this end does, step by step")
	f.VarP(&p.size, "size", "S", "bytes of a text, 16 to 64K: the client decides")
	f.IntVarP(&t.Count, "count", "C", 0, "pings of a client; 0: until it is interrupted")
	f.StringVarP(&p.host, "host", "a", "", "address of the server, at both ends; a client may use its name")
	f.IntVarP(&p.port, "port", "p", rping.Port, "port of the server, which is none of TCP or UDP")
	f.BoolVarP(&t.Many, "persistent", "P", false, "a server answers many clients, until it is interrupted")
	f.BoolVarP(&p.ours, "self-qp", "q", false, "make the queue pair oneself: changes nothing here")
	f.Var(&p.limit, "timeout", "give a connection up when nothing happens for this time")
	f.BoolVar(&p.loop, "loop", false, "both ends in this process, on 127.0.0.1 and 127.0.0.2, or --addr and the next one; IPv6: on one")
	f.StringVar(&p.pcap, "pcap", "", "write the packets of this end to a pcapng `file`")
	f.Float64Var(&t.Faults.Loss, "loss", 0, "part of the packets sent here that are lost, as 0.01")
	f.Float64Var(&t.Faults.Dup, "dup", 0, "part that is sent twice")
	f.Float64Var(&t.Faults.Reorder, "reorder", 0, "part that is late")
	f.Float64Var(&t.Faults.Corrupt, "corrupt", 0, "part in which a bit is flipped")
	f.Uint64Var(&t.Faults.Seed, "seed", 1, "which packets these are")
}

// settle checks the flags against each other and finds the addresses.
func (p *rpingFlags) settle(ctx context.Context) error {
	roles := 0
	for _, is := range []bool{p.server, p.client, p.loop} {
		if is {
			roles++
		}
	}
	switch {
	case roles != 1:
		return usagef("choose one of -s (server), -c (client) and --loop (both ends)")
	case p.client && p.host == "":
		return usagef("-c: a client needs the address of the server: -a")
	case p.loop && p.host != "":
		return usagef("--loop: both ends are in this process, and -a %q was given", p.host)
	case !p.server && p.test.Many:
		return usagef("-P: only a server (-s) is persistent")
	case p.port < 1 || p.port > 65535:
		return usagef("--port %d: 1 to 65535 are possible", p.port)
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
	p.test.Size, p.test.Limit = int(min(p.size, rping.MaxSize+1)), time.Duration(p.limit)
	if p.loop && p.test.Count == 0 {
		p.test.Count = loopPings
	}
	if err := p.test.Verify(); err != nil {
		return usagef("--%w", err)
	}
	return p.chooseAddrs(ctx)
}

// loopPings is how often --loop pings when nobody says.
const loopPings = 1000

// chooseAddrs finds the address of this end's device, and that of the server.
func (p *rpingFlags) chooseAddrs(ctx context.Context) (err error) {
	p.local = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if p.addr != "" {
		if p.local, err = deviceAddr("--addr", p.addr); err != nil {
			return err
		}
	}
	switch {
	case p.loop:
		p.peer = p.local
		if p.local.Is4() {
			p.peer = p.local.Next()
		}
		return nil
	case p.client:
		if p.peer, err = p.lookUp(ctx); err != nil || p.addr != "" {
			return err
		}
		p.local, err = rping.From(ctx, p.peer)
		return err
	case p.host == "":
		return nil
	case p.addr != "":
		return usagef("-a and --addr: both are the address of a server's device: choose one of them")
	}
	p.local, err = deviceAddr("-a", p.host)
	return err
}

// deviceAddr reads the address of a device.
func deviceAddr(flag, s string) (netip.Addr, error) {
	a, err := netip.ParseAddr(s)
	switch {
	case err != nil:
		return a, usagef("%s %q: write an IPv4 or IPv6 address of this machine", flag, s)
	case a.IsUnspecified():
		return a, usagef("%s %v: a device has one address: choose one of this machine", flag, a)
	}
	return a.Unmap(), nil
}

// lookUp returns the address of the server: one of the IP version of this end,
// if that is known.
func (p *rpingFlags) lookUp(ctx context.Context) (netip.Addr, error) {
	if a, err := netip.ParseAddr(p.host); err == nil {
		if a = a.Unmap(); p.addr != "" && a.Is4() != p.local.Is4() {
			return a, usagef("-a %v and --addr %v are of different IP versions", a, p.local)
		}
		return a, nil
	}
	network := "ip"
	if p.addr != "" && p.local.Is4() {
		network = "ip4"
	} else if p.addr != "" {
		network = "ip6"
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, network, p.host)
	if err != nil {
		return netip.Addr{}, fmt.Errorf("look up the server %q: %w", p.host, err)
	}
	four := slices.IndexFunc(found, func(a netip.Addr) bool { return a.Unmap().Is4() })
	return found[max(four, 0)].Unmap(), nil
}
