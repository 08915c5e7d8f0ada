package conn

import (
	"flag"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/mad"
)

var update = flag.Bool("update", false, "write what the scenarios print into their files")

// TestScenarios plays testdata/*.txt: what to do, a line of dashes, and the
// trace that comes of it.
//
// Lines; a connection is named by its host and its number there, as A1:
//
//	auto A|B|AB                        the program accepts and confirms by itself
//	listen HOST [port=] [backlog=] [any] [udp];  unlisten HOST [port=]
//	limit HOST conns= half=            what the agent keeps at most
//	connect HOST [to=] [for=] [port=] [qpn=] [psn=] [res=] [depth=] [mtu=] [timeout=] [tries=] [ack=] [private=] [fill=]
//	resolve HOST                       likewise, of datagrams
//	accept|confirm|disconnect|close|established|state CONN [qpn=] [private=] [fill=]
//	reject CONN [reason=] [private=];  answer CONN [status=] [qpn=] [qkey=] [private=]
//	drop|dup|swap HOST ATTR [n=] [skip=]   the fate of messages that a host sends
//	forge HOST ATTR FIELD=...          the host receives what nobody sent; from=X is a stranger
//	wait DURATION                      let time pass;  run: until nothing is due any more
//	restart HOST                       it has forgotten everything
//	count HOST                         what was counted, and how many connections there are
func TestScenarios(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 30 {
		t.Fatalf("found %d scenarios (%v), want at least 30", len(files), err)
	}
	for _, name := range files {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			script, want, _ := strings.Cut(strings.ReplaceAll(string(text), "\r\n", "\n"), "----\n")
			got := newStage(t).play(script)
			if *update {
				if err := os.WriteFile(name, []byte(script+"----\n"+got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

// play runs a script and returns the trace.
func (g *stage) play(script string) string {
	for line := range strings.Lines(script) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) > 0 {
			g.do(f[0], f[1:])
			if f[0] != "wait" && f[0] != "run" {
				g.settle()
			}
		}
	}
	return g.trace.String()
}

// do carries out one line.
func (g *stage) do(verb string, words []string) {
	a := args{g.t, words}
	switch verb {
	case "wait":
		d, err := time.ParseDuration(words[0])
		if err != nil {
			g.t.Fatal(err)
		}
		g.pass(g.now + Instant(d))
		return
	case "run":
		g.pass(0)
		return
	case "auto":
		for _, n := range strings.Split(words[0], "") {
			g.hosts[n].auto = true
		}
		return
	}
	h := g.hosts[words[0][:1]]
	if h == nil {
		g.t.Fatalf("%s %v: who?", verb, words)
	}
	if len(words[0]) > 1 {
		n, err := strconv.Atoi(words[0][1:])
		if err != nil || n < 1 || n > len(h.conns) {
			g.t.Fatalf("%s %v: there is no such connection", verb, words)
		}
		g.doConn(verb, h, h.conns[n-1], a)
		return
	}
	g.doHost(verb, h, a)
}

// doHost carries out the lines about a host.
func (g *stage) doHost(verb string, h *host, a args) {
	port := uint16(a.num("port", 7))
	switch verb {
	case "listen":
		addr, space := h.addr, mad.SpaceTCP
		if a.has("any") {
			addr = netip.IPv4Unspecified()
		}
		if a.has("udp") {
			space = mad.SpaceUDP
		}
		l, err := h.agent.Listen(mad.Service(space, port), addr, a.num("backlog", 8))
		h.must(err)
		if err == nil {
			h.listeners[port] = l
		}
	case "unlisten":
		h.listeners[port].Close()
	case "limit":
		h.agent.config.Conns, h.agent.config.HalfOpen = a.num("conns", 100), a.num("half", 100)
	case "connect", "resolve":
		call := h.agent.Connect
		if verb == "resolve" {
			call = h.agent.Resolve
		}
		c, err := call(h.call(a), g.now)
		h.must(err)
		if err == nil {
			h.conns = append(h.conns, c)
		}
	case "drop", "dup", "swap":
		g.fates = append(g.fates, &fate{what: verb, from: h.name, attr: attrOf(g.t, a.words[1]), n: a.num("n", 1), skip: a.num("skip", 0)})
	case "forge":
		g.forge(h, attrOf(g.t, a.words[1]), a)
	case "restart":
		h.agent, h.listeners = New(h.config(), h), map[uint16]*Listener{}
	case "count":
		g.count(h)
	default:
		g.t.Fatalf("what is %s %v?", verb, a.words)
	}
}

// doConn carries out the lines about a connection.
func (g *stage) doConn(verb string, h *host, c *Conn, a args) {
	switch verb {
	case "accept":
		h.must(c.Accept(h.answer(a), g.now))
	case "confirm":
		h.must(c.Confirm(a.data(0), g.now))
	case "disconnect":
		h.must(c.Disconnect(a.data(0), g.now))
	case "reject":
		h.must(c.Reject(mad.Reason(a.num("reason", 28)), nil, a.data(0), g.now))
	case "answer":
		h.must(c.Answer(&Service{Status: mad.SidrStatus(a.num("status", 0)), QPN: uint32(a.num("qpn", 0x22)),
			QKey: 0x01234567, Private: a.data(0)}, g.now))
	case "established":
		h.must(c.Established())
	case "close":
		c.Close(g.now)
	case "state":
		g.print("%s   %s is %v", h.name, a.words[0], c.State())
	default:
		g.t.Fatalf("what is %s %v?", verb, a.words)
	}
}

func attrOf(t *testing.T, name string) mad.Attr {
	for a := mad.REQ; a <= mad.APR; a++ {
		if a.String() == name {
			return a
		}
	}
	t.Fatalf("no message is called %s", name)
	return 0
}

// count prints what is not 0.
func (g *stage) count(h *host) {
	n := h.agent.Counters()
	var s []string
	for i := range n.Sent {
		for _, x := range []struct {
			name string
			n    uint64
		}{{"sent", n.Sent[i]}, {"retried", n.Retried[i]}, {"received", n.Received[i]}, {"duplicate", n.Duplicate[i]}} {
			if x.n > 0 {
				s = append(s, fmt.Sprintf("%s_%v=%d", x.name, mad.REQ+mad.Attr(i), x.n))
			}
		}
	}
	for i, v := range n.Dropped {
		if v > 0 {
			s = append(s, fmt.Sprintf("drop_%v=%d", Drop(i), v))
		}
	}
	waiting := 0
	for _, l := range h.listeners {
		waiting += l.waiting
	}
	g.print("%s   %d connections, %d half open, %d in backlogs; %s", h.name, h.agent.Conns(), h.agent.HalfOpen(), waiting,
		strings.Join(s, " "))
}
