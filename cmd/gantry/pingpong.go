package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/pingpong"
	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/verbs"
)

// A pingpongFlags is the command line of gantry pingpong rc, uc or ud.
// pingpong_flags.go reads it.
type pingpongFlags struct {
	name  string // rc, uc or ud
	test  pingpong.Test
	host  string
	loop  bool
	size  sizeFlag
	limit durationFlag

	port, ibPort, level, gid int
	device, addr, pcap       string
	odp                      bool
}

// pingpongDocument is what gantry pingpong prints as JSON.
type pingpongDocument struct {
	Transport string `json:"transport"`
	Role      string `json:"role"` // server, client, or both
	Size      int    `json:"size"`
	MTU       int    `json:"mtu,omitempty"` // not of datagrams
	Events    bool   `json:"events"`
	CQMod     int    `json:"cq_mod"` // messages to a completion of this end
	pingpong.Result
	Local  pingpongDest `json:"local"`
	Remote pingpongDest `json:"remote"`
}

// A pingpongDest is an address in the document.
type pingpongDest struct {
	LID uint16 `json:"lid"`
	QPN uint32 `json:"qpn"`
	PSN uint32 `json:"psn"`
	GID string `json:"gid"`
}

// pingpongCommand holds what takes the place of three programs.
func pingpongCommand(c *console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "pingpong",
		Short: "send a message to and fro, as ibv_rc_pingpong, ibv_uc_pingpong and ibv_ud_pingpong do",
		Long: `Sends a message to and fro between two ends. Either end may be the original
program, ibv_rc_pingpong, ibv_uc_pingpong or ibv_ud_pingpong, on a machine with
RDMA hardware or the kernel's software RoCE: start it with -g and the index of
its GID.`,
	}
	for _, s := range []struct {
		name, what string
		service    verbs.QPType
	}{
		{"rc", "a reliable connection", verbs.RC}, {"uc", "an unreliable connection", verbs.UC}, {"ud", "datagrams", verbs.UD},
	} {
		cmd.AddCommand(pingpongOf(c, s.name, s.what, s.service))
	}
	return group(cmd)
}

// pingpongOf makes the command for one transport service.
func pingpongOf(c *console, name, what string, service verbs.QPType) *cobra.Command {
	p := &pingpongFlags{name: name, test: pingpong.NewTest(service)}
	cmd := &cobra.Command{
		Use:   name + " [HOST]",
		Short: "over " + what + ", as ibv_" + name + "_pingpong does",
		Long: `Sends a message to and fro over ` + what + `. Without HOST it is
the server, which plays with one client and ends; with HOST it is the client.
Either end may be
ibv_` + name + `_pingpong, which has to be started with -g. Both ends need the same
size, number of iterations` + mtuToo(service) + `: they do not tell each other.

The ends say over TCP where they are; the messages are RoCEv2 packets on UDP
port 4791. --addr chooses the address that this end has for them, which need
not be of the same IP version as that of TCP. Without it a client has the
address from which it reaches HOST, and a server the one from which it reaches
the client.`,
		Example: `  gantry pingpong ` + name + ` --loop -c
  gantry pingpong ` + name + ` &  gantry pingpong ` + name + ` localhost
  gantry pingpong ` + name + ` 192.0.2.2 --addr 2001:db8::1  # the original, with -g`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("%s takes one host, and %q is one argument too many", cmd.CommandPath(), args[1])
			}
			if len(args) == 1 {
				p.host = args[0]
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return p.carryOut(cmd, c) },
	}
	p.define(cmd.Flags())
	return cmd
}

func mtuToo(service verbs.QPType) string {
	if service == verbs.UD {
		return ""
	}
	return " and MTU"
}

// carryOut checks the flags and plays.
func (p *pingpongFlags) carryOut(cmd *cobra.Command, c *console) (err error) {
	if err = p.settle(cmd); err != nil {
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
	doc := &pingpongDocument{Transport: p.name, Size: p.test.Size, Events: p.test.Events, CQMod: p.test.Moderation}
	if p.test.Type != verbs.UD {
		doc.MTU = p.test.MTU
	}
	switch told := p.told(c, doc); {
	case p.loop:
		doc.Role = "both"
		doc.Result, err = p.both(cmd.Context(), told)
	case p.host != "":
		doc.Role = "client"
		doc.Result, err = p.client(cmd.Context(), told)
	default:
		doc.Role = "server"
		doc.Result, err = p.server(cmd.Context(), c, told)
	}
	if errors.Is(err, rendezvous.ErrParameter) {
		return usagef("--%w", err)
	}
	if err != nil {
		return err
	}
	return p.report(c, doc)
}

// told keeps and prints where the ends are.
func (p *pingpongFlags) told(c *console, doc *pingpongDocument) pingpong.Told {
	note := func(which string, to *pingpongDest) func(pingpong.Dest) {
		return func(d pingpong.Dest) {
			*to = pingpongDest{d.LID, d.QPN, uint32(d.PSN), netip.AddrFrom16(d.GID).String()}
			if !c.json {
				c.printf("  %-15s %v\n", which+" address:", d)
			}
		}
	}
	return pingpong.Told{Local: note("local", &doc.Local), Remote: note("remote", &doc.Remote)}
}

func (p *pingpongFlags) client(ctx context.Context, told pingpong.Told) (pingpong.Result, error) {
	at := net.JoinHostPort(p.host, strconv.Itoa(p.port))
	r, err := pingpong.Client(ctx, p.test, at, told)
	if err != nil && !errors.Is(err, rendezvous.ErrParameter) {
		err = fmt.Errorf("%s: %w", at, err)
	}
	return r, err
}

// server waits for one client, as the originals do: on all addresses, because
// the one of the device may be of another IP version than the client's TCP.
func (p *pingpongFlags) server(ctx context.Context, c *console, told pingpong.Told) (r pingpong.Result, err error) {
	s, err := pingpong.NewServer(p.test, told)
	if err != nil {
		return r, err
	}
	defer func() { core.KeepFirst(&err, s.Close()) }()
	l, err := listenTCP(ctx, ":"+strconv.Itoa(p.port))
	if err != nil {
		return r, err
	}
	c.notef("waiting for a client on TCP port %d", p.port)
	conn, err := l.accept(ctx)
	if err != nil {
		return r, err
	}
	from := conn.RemoteAddr()
	if r, err = s.Serve(ctx, conn); err != nil && !errors.Is(err, rendezvous.ErrParameter) {
		err = fmt.Errorf("client %v: %w", from, err)
	}
	return r, err
}

// both plays a client and a server in this process; what is told and returned
// is the client's.
func (p *pingpongFlags) both(ctx context.Context, told pingpong.Told) (r pingpong.Result, err error) {
	server := *p
	p.test.Addr = server.test.Addr.Next()
	server.test.Capture = nil
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := pingpong.NewServer(server.test, pingpong.Told{})
	if err != nil {
		return r, err
	}
	defer func() { core.KeepFirst(&err, s.Close()) }()
	l, err := listenTCP(ctx, "127.0.0.1:0")
	if err != nil {
		return r, err
	}
	ended := make(chan error, 1)
	go func() {
		conn, err := l.accept(ctx)
		if err == nil {
			_, err = s.Serve(ctx, conn)
		}
		if err != nil {
			cancel(err) // the client would wait in vain
		}
		ended <- err
	}()
	r, err = pingpong.Client(ctx, p.test, l.Addr().String(), told)
	if err != nil {
		cancel(err)
	}
	if failed := <-ended; err == nil {
		err = failed
	}
	return r, err
}

// report prints the result in the form of the originals.
func (p *pingpongFlags) report(c *console, d *pingpongDocument) error {
	if c.json {
		return c.emit(d)
	}
	c.printf("%d bytes in %.2f seconds = %.2f Mbit/sec\n", d.Bytes, d.Seconds, d.MbitPerSecond)
	c.printf("%d iters in %.2f seconds = %.2f usec/iter\n", d.Iters, d.Seconds, d.MicrosPerIter)
	if t := d.Times; t != nil {
		c.printf("Max receive completion clock cycles = %d\n", t.Max)
		c.printf("Min receive completion clock cycles = %d\n", t.Min)
		c.printf("Average receive completion clock cycles = %f\n", t.Average)
	}
	if d.Validated {
		c.printf("%d messages validated\n", d.Checked)
	}
	return nil
}

// A tcpListener waits for one client.
type tcpListener struct{ net.Listener }

func listenTCP(ctx context.Context, at string) (*tcpListener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("listen on TCP %s: %w: choose another port with -p, at both ends", at, err)
	}
	return &tcpListener{l}, nil
}

// accept waits for the client, and closes the listener.
func (l *tcpListener) accept(ctx context.Context) (net.Conn, error) {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	conn, err := l.Accept()
	_ = l.Close() // one client is served
	if ctx.Err() != nil {
		if err == nil {
			_ = conn.Close()
		}
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("wait for a client: %w", err)
	}
	return conn, nil
}
