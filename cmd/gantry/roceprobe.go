package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/peer"
	"github.com/gantry-rdma/gantry/internal/script"
)

// A probeFlags is the command line of gantry roceprobe.
type probeFlags struct {
	addr, peer string
	self       bool
	set        []string
	limit      durationFlag
	pcap       string
	verbose    bool
}

// probeDocument is what gantry roceprobe prints as JSON.
type probeDocument struct {
	Script     string     `json:"script"`
	Steps      int        `json:"steps"` // statements carried out
	OK         bool       `json:"ok"`
	FailedStep *probeStep `json:"failed_step"` // or null
	Seconds    float64    `json:"seconds"`
}

// A probeStep is the statement that was not fulfilled.
type probeStep struct {
	Line      int    `json:"line"`
	Statement string `json:"statement"`
	Error     string `json:"error"`
}

// roceprobeCommand plays a script.
func roceprobeCommand(c *console) *cobra.Command {
	f := &probeFlags{limit: durationFlag(5 * time.Second)}
	cmd := &cobra.Command{
		Use:   "roceprobe SCRIPT",
		Short: "play one side of a RoCEv2 exchange from a script",
		Long: `Plays one side of a RoCEv2 exchange from a text: send this packet, expect that
one, drop it, answer with a NAK, be silent. It uses UDP port 4791 over IPv4 or
IPv6 and needs no privileges.

The peer under test is another machine, whose address --peer gives and whose
queue pair number, keys and addresses --set gives; what it has to do is printed.
Or, with --self, it is a device of this process, set up as the script says, so
that the script alone is a test.

docs/roceprobe.md is the reference of the language. docs/probes has scripts.`,
		Example: `  gantry roceprobe --self docs/probes/psn-gap-nak-once.probe
  gantry roceprobe --self -v --pcap gap.pcapng docs/probes/flush.probe
  gantry roceprobe --addr 192.0.2.1 --peer 192.0.2.2 --set qpn=0x11 my.probe`,
		Args: wantArgs("SCRIPT"),
		RunE: func(cmd *cobra.Command, args []string) error { return f.carryOut(cmd.Context(), c, args[0]) },
	}
	n := cmd.Flags()
	n.SortFlags = false
	n.StringVar(&f.addr, "addr", "", "address of this end (default what the script says, or 127.0.0.1)")
	n.StringVar(&f.peer, "peer", "", "address of the peer (default what the script says; with --self the next one)")
	n.BoolVar(&f.self, "self", false, "the peer is a device of this process, as the script says")
	n.StringArrayVar(&f.set, "set", nil, "`NAME=VALUE` of a variable; may be given several times")
	n.Var(&f.limit, "timeout", "how long a statement waits that does not say")
	n.StringVar(&f.pcap, "pcap", "", "write the packets to a pcapng `file`")
	n.BoolVarP(&f.verbose, "verbose", "v", false, "print each packet on standard error")
	return cmd
}

// carryOut plays one script.
func (f *probeFlags) carryOut(ctx context.Context, c *console, file string) (err error) {
	config, err := f.config(c)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the script: %w", err)
	}
	s, err := script.Parse(file, string(text))
	if err != nil {
		return err
	}
	if f.pcap != "" {
		to, err := os.Create(f.pcap)
		if err != nil {
			return fmt.Errorf("create the capture: %w", err)
		}
		defer func() { core.KeepFirst(&err, to.Close()) }()
		config.Capture = to
	}
	begin := time.Now()
	result, err := peer.Play(ctx, s, config)
	if errors.Is(err, peer.ErrNoPeer) {
		return usagef("%w: give its address with --peer, or have it in this process with --self", err)
	}
	doc := probeDocument{Script: file, Steps: result.Steps, OK: err == nil, Seconds: time.Since(begin).Seconds()}
	failed := (*script.Failure)(nil)
	if errors.As(err, &failed) {
		doc.FailedStep = &probeStep{failed.Line, failed.Statement, failed.Err.Error()}
	}
	return f.report(c, doc, err)
}

// report prints how it went. A script that failed is a result as well.
func (f *probeFlags) report(c *console, doc probeDocument, failed error) error {
	var err error
	switch {
	case c.json && (failed == nil || doc.FailedStep != nil):
		err = c.emit(doc)
	case failed == nil:
		c.printf("%s: ok, %d steps in %.3f s\n", doc.Script, doc.Steps, doc.Seconds)
	}
	core.KeepFirst(&failed, err)
	return failed
}

// config reads the flags.
func (f *probeFlags) config(c *console) (p peer.Config, err error) {
	p.Self = f.self
	for _, a := range []struct {
		flag, text string
		to         *netip.Addr
	}{{"addr", f.addr, &p.Local}, {"peer", f.peer, &p.Peer}} {
		if a.text == "" {
			continue
		}
		if *a.to, err = netip.ParseAddr(a.text); err != nil {
			return p, usagef("--%s %q: write an IPv4 or IPv6 address", a.flag, a.text)
		}
	}
	p.Play.Set = map[string]uint64{}
	for _, s := range f.set {
		name, value, ok := strings.Cut(s, "=")
		v, err := script.ParseValue(value)
		if !ok || err != nil || name == "" {
			return p, usagef("--set %q: write NAME=VALUE, such as qpn=0x11", s)
		}
		p.Play.Set[strings.TrimSpace(name)] = v
	}
	if f.limit == 0 {
		return p, usagef("--timeout 0: there must be some time to wait")
	}
	p.Play.Limit = time.Duration(f.limit)
	p.Play.Note = func(text string) { c.notef("%s", text) }
	if f.verbose {
		begin := time.Now()
		p.Play.Trace = func(text string) {
			fmt.Fprintf(c.err, "%9.6f %s\n", time.Since(begin).Seconds(), text)
		}
	}
	return p, nil
}
