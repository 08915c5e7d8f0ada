package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/rping"
	"github.com/gantry-rdma/gantry/verbs"
)

// An rpingFlags is the command line of gantry rping. rping_flags.go reads it.
type rpingFlags struct {
	test  rping.Test
	size  sizeFlag
	limit durationFlag

	server, client, loop bool
	verbose, debug, ours bool
	host, addr, pcap     string
	port                 int

	local netip.Addr // of the device
	peer  netip.Addr // of the server, for a client
}

// rpingDocument is what gantry rping prints as JSON.
type rpingDocument struct {
	Role  string `json:"role"` // server, client, or both
	Local string `json:"local"`
	Peer  string `json:"peer,omitempty"` // of a client
	Port  int    `json:"port"`
	rping.Result
	Clients  *int              `json:"clients,omitempty"` // of a server
	Failed   *int              `json:"failed,omitempty"`  // of these
	Counters map[string]uint64 `json:"counters"`          // of the device that are not 0
}

// rpingCommand takes the place of librdmacm's rping.
func rpingCommand(c *console) *cobra.Command {
	p := &rpingFlags{test: rping.NewTest()}
	cmd := &cobra.Command{
		Use:   "rping -s|-c|--loop",
		Short: "ping over the connection manager, as rping does",
		Long: `Sends a text to and fro between a client and a server that the connection
manager connects. Either end may be rping of librdmacm, on a machine with RDMA
hardware or the kernel's software RoCE. In each ping the server READs the text
from the memory of the client, and WRITEs it back to another place there.

A server (-s) answers one client and ends; with -P it answers many, one after
another and at the same time, until it is interrupted. It takes texts of every
size; an original server has room for what its own -S says.`,
		Example: `  gantry rping --loop -C 10 -V -v
  gantry rping -s -P &  gantry rping -c -a 127.0.0.1 -C 10 -V
  gantry rping -s -a 192.0.2.1                # there: rping -c -a 192.0.2.1
  gantry rping -c -a 192.0.2.2 -C 10 -V       # there: rping -s -a 192.0.2.2`,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.carryOut(cmd.Context(), c) },
	}
	p.define(cmd.Flags())
	return cmd
}

// carryOut checks the flags, opens the device and pings.
func (p *rpingFlags) carryOut(ctx context.Context, c *console) (err error) {
	if err = p.settle(ctx); err != nil {
		return err
	}
	if p.pcap != "" {
		f, err := os.Create(p.pcap)
		if err != nil {
			return fmt.Errorf("create the capture: %w", err)
		}
		defer func() { core.KeepFirst(&err, f.Close()) }()
		p.test.Capture = f
	}
	p.tell(c)
	dev, err := rping.Open(p.test, p.local)
	if err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, dev.Close()) }()
	doc := &rpingDocument{Local: p.local.String(), Port: p.port}
	switch {
	case p.loop:
		doc.Role, doc.Peer = "both", p.peer.String()
		doc.Result, err = p.both(ctx, dev)
	case p.client:
		doc.Role, doc.Peer = "client", p.peer.String()
		doc.Result, err = rping.Client(ctx, p.test, dev, netip.AddrPortFrom(p.peer, uint16(p.port)))
	default:
		doc.Role = "server"
		var t rping.Tally
		t, err = p.serve(ctx, c, dev)
		doc.Result, doc.Clients, doc.Failed = t.Result, &t.Clients, &t.Failed
	}
	return p.report(c, dev, doc, err)
}

// tell prints what the ends say, one at a time.
func (p *rpingFlags) tell(c *console) {
	var mu sync.Mutex
	if p.verbose && !c.json {
		before := ""
		if p.server {
			before = "server " // as in the original
		}
		p.test.Ping = func(text []byte) {
			mu.Lock()
			defer mu.Unlock()
			c.printf("%sping data: %s\n", before, text)
		}
	}
	if p.debug {
		p.test.Step = func(what string) {
			mu.Lock()
			defer mu.Unlock()
			c.notef("%s", what)
		}
	}
	if !p.test.Many {
		return
	}
	p.test.Ended = func(client netip.AddrPort, r rping.Result, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			c.notef("client %v, after %d pings: %v", client, r.Count, err)
		} else {
			c.notef("client %v: %s", client, rpingLine(r))
		}
	}
}

// serve answers clients.
func (p *rpingFlags) serve(ctx context.Context, c *console, dev *verbs.Device) (t rping.Tally, err error) {
	s, err := rping.Listen(p.test, dev, uint16(p.port))
	if err != nil {
		return t, err
	}
	defer func() { core.KeepFirst(&err, s.Close()) }()
	c.notef("waiting for a client on port %d of %v", p.port, p.local)
	return s.Serve(ctx)
}

// both runs a server and a client in this process; what is returned is the
// client's. Over IPv6, where there is one loopback address, both have one device.
func (p *rpingFlags) both(ctx context.Context, near *verbs.Device) (r rping.Result, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	far, theirs := near, p.test
	theirs.Ping, theirs.Capture = nil, nil
	if p.peer != p.local {
		if far, err = rping.Open(theirs, p.peer); err != nil {
			return r, err
		}
		defer func() { core.KeepFirst(&err, far.Close()) }()
	}
	s, err := rping.Listen(theirs, far, uint16(p.port))
	if err != nil {
		return r, err
	}
	defer func() { core.KeepFirst(&err, s.Close()) }()
	ended := make(chan error, 1)
	go func() {
		_, err := s.Serve(ctx)
		if err != nil {
			cancel(err) // the client would wait in vain
		}
		ended <- err
	}()
	r, err = rping.Client(ctx, p.test, near, s.Addr())
	if err != nil {
		cancel(err)
	}
	if failed := <-ended; err == nil {
		err = failed
	}
	return r, err
}

// report prints the result: also that of an end which goes on until it is
// interrupted.
func (p *rpingFlags) report(c *console, dev *verbs.Device, d *rpingDocument, err error) error {
	endless := p.test.Many || p.client && p.test.Count == 0
	if err != nil && !(endless && errors.Is(err, context.Canceled)) {
		if p.client {
			return fmt.Errorf("after %d pings: %w", d.Count, err)
		}
		return err
	}
	d.Counters = map[string]uint64{}
	for _, n := range dev.Counters() {
		if n.Value > 0 {
			d.Counters[n.Name] = n.Value
		}
	}
	if c.json {
		return errors.Join(err, c.emit(d))
	}
	if d.Clients != nil && p.test.Many {
		c.printf("%d clients, of which %d failed: ", *d.Clients, *d.Failed)
	}
	c.printf("%s\n", rpingLine(d.Result))
	return err
}

// rpingLine says what became of pings.
func rpingLine(r rping.Result) string {
	line := fmt.Sprintf("%d pings of %d bytes in %.2f seconds", r.Count, r.Size, r.Seconds)
	if r.Verified {
		line += ", all verified"
	}
	return line
}
