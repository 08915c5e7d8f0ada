package conn

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/mad"
	"github.com/gantry-rdma/gantry/roce"
)

// A stage is two hosts, A and B, and what lies between them. A third, X, exists
// only in forged messages.
type stage struct {
	t     *testing.T
	now   Instant
	shown Instant
	hosts map[string]*host
	fates []*fate
	wire  []parcel
	trace strings.Builder
}

// A fate is what becomes of messages.
type fate struct {
	what, from string
	attr       mad.Attr
	n, skip    int
}

// A parcel is a message on its way.
type parcel struct {
	from netip.Addr
	to   string
	m    *mad.MAD
}

// A host is one agent and its program.
type host struct {
	g         *stage
	name      string
	addr      netip.Addr
	agent     *Agent
	conns     []*Conn
	listeners map[uint16]*Listener
	drawn     uint64
	auto      bool // the program accepts and confirms by itself
	todo      []func()
}

var addrs = map[string]netip.Addr{
	"A": netip.MustParseAddr("10.0.0.1"), "B": netip.MustParseAddr("10.0.0.2"), "X": netip.MustParseAddr("10.0.0.9"),
}

func nameOf(a netip.Addr) string {
	for n, b := range addrs {
		if a == b {
			return n
		}
	}
	return a.String()
}

func newStage(t *testing.T) *stage {
	g := &stage{t: t, now: 1000, shown: 1000, hosts: map[string]*host{}}
	for i, n := range []string{"A", "B"} {
		h := &host{g: g, name: n, addr: addrs[n], drawn: uint64(0xa0 + 0x10*i), listeners: map[uint16]*Listener{}}
		h.agent = New(h.config(), h)
		g.hosts[n] = h
	}
	return g
}

func (h *host) config() Config {
	// Names that are read well: the numbers of A begin with a, those of B with b.
	random := func() uint64 { h.drawn++; return h.drawn }
	return Config{Addr: h.addr, GUID: uint64(h.name[0]), MTU: roce.MTU1024, Random: random}
}

// Send is part of Env.
func (h *host) Send(to netip.Addr, m *mad.MAD) {
	g := h.g
	line := fmt.Sprintf("%s>%s %s", h.name, nameOf(to), brief(m))
	copies, word := 1, ""
	for _, f := range g.fates {
		if f.from != h.name || f.attr != m.Attr() || f.n == 0 {
			continue
		}
		if f.skip > 0 {
			f.skip--
			continue
		}
		f.n--
		word = map[string]string{"drop": "   lost", "dup": "   twice", "swap": "   overtaken"}[f.what]
		copies = map[string]int{"drop": 0, "dup": 2, "swap": -1}[f.what]
		break
	}
	g.print("%s%s", line, word)
	for range max(copies, -copies) {
		p := parcel{h.addr, nameOf(to), m}
		if copies < 0 {
			p.to += "later"
		}
		g.wire = append(g.wire, p)
	}
}

// Event is part of Env.
func (h *host) Event(e Event) {
	c := e.Conn
	i := slices.Index(h.conns, c)
	if i < 0 {
		h.conns = append(h.conns, c)
		i = len(h.conns) - 1
	}
	line := fmt.Sprintf("%s   %s%d %v", h.name, h.name, i+1, e.Kind)
	switch e.Kind {
	case EventRejected:
		line += ": " + e.Reason.String()
	case EventSidrReply:
		line += fmt.Sprintf(": %v qpn=%#x qkey=%#x", e.Status, c.Remote().QPN, c.Remote().QKey)
	case EventRequest, EventReply:
		r := c.Remote()
		line += fmt.Sprintf(" qpn=%#x psn=%d res=%d depth=%d", r.QPN, r.PSN, r.Resources, r.Depth)
	}
	p := e.Private()
	if e.Kind == EventRequest || e.Kind == EventSidrRequest {
		_, p, _ = mad.ParseCMA(p)
	}
	if s := strings.TrimRight(string(p), "\x00"); s != "" {
		line += " private=" + s
	}
	h.g.print("%s", line)
	if h.auto {
		switch e.Kind {
		case EventRequest:
			h.todo = append(h.todo, func() { h.must(c.Accept(h.answer(args{t: h.g.t}), h.g.now)) })
		case EventReply:
			h.todo = append(h.todo, func() { h.must(c.Confirm(nil, h.g.now)) })
		}
	}
}

// brief prints what a reader of a scenario wants to see of a message.
func brief(m *mad.MAD) string {
	a := m.Attr()
	theirs, to := m.IDs()
	s := fmt.Sprintf("%v id=%x", a, theirs)
	switch a {
	case mad.REQ:
		return s + fmt.Sprintf(" qpn=%#x %v", mad.ReqQPN.In(m), mad.ServiceID(mad.ReqServiceID.In(m)))
	case mad.SIDRREQ:
		return s + " " + mad.ServiceID(mad.SidrReqServiceID.In(m)).String()
	case mad.SIDRREP:
		return s + " " + mad.SidrStatus(mad.SidrRepStatus.In(m)).String()
	}
	s += fmt.Sprintf(" to=%x", to)
	switch a {
	case mad.REP:
		s += fmt.Sprintf(" qpn=%#x", mad.RepQPN.In(m))
	case mad.REJ:
		s += fmt.Sprintf(" %v: %v", mad.Of(mad.RejMessage.In(m)), mad.Reason(mad.RejReason.In(m)))
	case mad.MRA:
		s += fmt.Sprintf(" %v wait=%d", mad.Of(mad.MraMessage.In(m)), mad.MraTimeout.In(m))
	}
	return s
}

// print adds a line, and before it how much time has passed.
func (g *stage) print(format string, a ...any) {
	if g.now != g.shown {
		fmt.Fprintf(&g.trace, "     after %v\n", time.Duration(g.now-g.shown).Round(time.Microsecond))
		g.shown = g.now
	}
	fmt.Fprintf(&g.trace, format+"\n", a...)
}

// settle delivers what is on its way, and what that causes.
func (g *stage) settle() {
	for {
		switch {
		case len(g.wire) > 0:
			p := g.wire[0]
			g.wire = g.wire[1:]
			if name, late := strings.CutSuffix(p.to, "later"); late {
				p.to = name
				if len(g.wire) == 0 {
					g.wire = []parcel{p} // nothing to be overtaken by
					break
				}
				g.wire = slices.Insert(g.wire, 1, p)
				break
			}
			if h := g.hosts[p.to]; h != nil {
				h.agent.Receive(p.from, p.m, g.now)
			}
		default:
			did := false
			for _, n := range []string{"A", "B"} {
				for _, f := range g.hosts[n].todo {
					did = true
					f()
				}
				g.hosts[n].todo = nil
			}
			if !did {
				return
			}
		}
	}
}

// pass lets time pass until then, or until nothing is due any more.
func (g *stage) pass(until Instant) {
	g.settle()
	for {
		next := Instant(0)
		for _, h := range g.hosts {
			if d := h.agent.Deadline(); d != 0 && (next == 0 || d < next) {
				next = d
			}
		}
		if next == 0 || until != 0 && next > until {
			break
		}
		g.now = max(g.now, next)
		for _, n := range []string{"A", "B"} {
			g.hosts[n].agent.Tick(g.now)
		}
		g.settle()
	}
	g.now = max(g.now, until)
}

// args are the words of a line behind the verb.
type args struct {
	t     *testing.T
	words []string
}

func (a args) text(key, other string) string {
	for _, w := range a.words {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			return v
		}
	}
	return other
}

func (a args) num(key string, other int) int {
	v := a.text(key, "")
	if v == "" {
		return other
	}
	n, err := strconv.ParseInt(v, 0, 64)
	if err != nil {
		a.t.Fatalf("%v: %v", a.words, err)
	}
	return int(n)
}

func (a args) has(word string) bool { return slices.Contains(a.words, word) }

func (a args) data(n int) []byte {
	p := []byte(a.text("private", ""))
	if n = a.num("fill", n); n > len(p) {
		p = append(p, make([]byte, n-len(p))...)
	}
	return p
}

func (h *host) must(err error) {
	if err != nil {
		h.g.print("%s   error: %v", h.name, err)
	}
}

// call makes a call of a line.
func (h *host) call(a args) *Call {
	peer := a.text("to", map[string]string{"A": "B", "B": "A"}[h.name])
	space := mad.SpaceTCP
	if a.has("udp") {
		space = mad.SpaceUDP
	}
	var cma mad.CMA
	cma.Set(netip.AddrPortFrom(h.addr, 5000), addrs[a.text("for", peer)])
	return &Call{
		To: addrs[peer], Service: mad.Service(space, uint16(a.num("port", 7))),
		Private: append(cma[:], a.data(0)...),
		Local: Side{QPN: uint32(a.num("qpn", 0x11)), PSN: roce.PSN(a.num("psn", 100)),
			Resources: uint8(a.num("res", 1)), Depth: uint8(a.num("depth", 1)), RNRRetry: 7},
		Terms:   Terms{MTU: roce.MTU(a.num("mtu", int(roce.MTU1024))), RetryCount: 7, AckTimeout: uint8(a.num("ack", 16))},
		Timeout: uint8(a.num("timeout", 18)), Retries: uint8(a.num("tries", 3)),
	}
}

func (h *host) answer(a args) *Answer {
	return &Answer{
		Local: Side{QPN: uint32(a.num("qpn", 0x22)), PSN: roce.PSN(a.num("psn", 200)),
			Resources: uint8(a.num("res", 1)), Depth: uint8(a.num("depth", 1)), RNRRetry: 7},
		AckDelay: 15, Private: a.data(0),
	}
}

// forge delivers a message that nobody sent. Its fields are named as String
// prints them, or given as raw bytes from the end of the header: at12=00ff.
func (g *stage) forge(h *host, attr mad.Attr, a args) {
	m := mad.New(attr, uint64(a.num("tid", 1)))
	id, to := mad.RepLocalID, mad.RepRemoteID
	id.Set(m, uint64(a.num("id", 0)))
	if attr != mad.REQ {
		to.Set(m, uint64(a.num("to", 0)))
	}
	from := addrs[a.text("from", map[string]string{"A": "B", "B": "A"}[h.name])]
	switch attr {
	case mad.REQ:
		g.forgeREQ(m, h, from, a)
	case mad.REP:
		mad.RepQPN.Set(m, uint64(a.num("qpn", 0x33)))
		mad.RepCAGUID.Set(m, uint64(a.num("guid", int(nameOf(from)[0]))))
	case mad.REJ:
		mad.RejReason.Set(m, uint64(a.num("reason", 28)))
		mad.RejMessage.Set(m, uint64(a.num("of", 0)))
		mad.RejPrivate.Put(m, a.data(0))
	case mad.MRA:
		mad.MraTimeout.Set(m, uint64(a.num("wait", 20)))
	case mad.DREQ:
		mad.DreqRemoteQPN.Set(m, uint64(a.num("qpn", 0x11)))
	}
	for _, w := range a.words {
		if at, raw, ok := strings.Cut(w, "="); ok && strings.HasPrefix(at, "at") {
			n, err := strconv.Atoi(at[2:])
			b, err2 := hex.DecodeString(raw)
			if err != nil || err2 != nil {
				g.t.Fatalf("%s: %v %v", w, err, err2)
			}
			copy(m[24+n:], b)
		}
	}
	if v := a.num("version", 2); v != 2 {
		m[2] = byte(v)
	}
	g.print("%s>%s %s   forged", nameOf(from), h.name, brief(m))
	h.agent.Receive(from, m, g.now)
}

func (g *stage) forgeREQ(m *mad.MAD, h *host, from netip.Addr, a args) {
	var cma mad.CMA
	cma.Set(netip.AddrPortFrom(from, 5000), h.addr)
	mad.ReqPrivate.Put(m, cma[:])
	mad.ReqServiceID.Set(m, uint64(mad.Service(mad.SpaceTCP, uint16(a.num("port", 7)))))
	mad.ReqQPN.Set(m, uint64(a.num("qpn", 0x33)))
	mad.ReqCAGUID.Set(m, uint64(a.num("guid", int(nameOf(from)[0]))))
	mad.ReqPathMTU.Set(m, uint64(a.num("mtu", 3)))
	mad.ReqMaxRetries.Set(m, uint64(a.num("tries", 3)))
	mad.ReqLocalTimeout.Set(m, uint64(a.num("timeout", 18)))
	mad.ReqRemoteTimeout.Set(m, uint64(a.num("timeout", 18)))
	mad.ReqAckTimeout.Set(m, uint64(a.num("ack", 16)))
	mad.ReqLocalGID.PutAddr(m, addrs[a.text("lgid", nameOf(from))])
	mad.ReqRemoteGID.PutAddr(m, addrs[a.text("rgid", h.name)])
}
