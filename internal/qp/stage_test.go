package qp

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// print adds a line to the trace, below the time if it has changed.
func (g *stage) print(format string, a ...any) {
	if g.middles > 4 {
		fmt.Fprintf(&g.trace, "      ... and %d more\n", g.middles-4)
	}
	g.middles = 0
	if g.now != g.shown {
		fmt.Fprintf(&g.trace, "after %v\n", time.Duration(g.now-g.shown))
		g.shown = g.now
	}
	fmt.Fprintf(&g.trace, format+"\n", a...)
}

// printPacket prints a packet, and a long run of MIDDLE packets as one line.
func (g *stage) printPacket(text string, f *frame.Frame) {
	b := (*roce.BTH)(f.Head[:])
	if !strings.HasSuffix(b.Opcode().Name(), "MIDDLE") || b.AckReq() {
		g.print("%s", text)
		return
	}
	n := g.middles + 1
	if n <= 4 {
		g.middles = 0
		g.print("%s", text)
	}
	g.middles = n
}

// forge sends a packet in the name of a host.
func (g *stage) forge(from string, a args) {
	f := &frame.Frame{}
	var op roce.Opcode
	for o := range 256 {
		if roce.Opcode(o).Transport() == g.send[from].Transport && roce.Opcode(o).Name() == a.words[0] {
			op = roce.Opcode(o)
		}
	}
	if o, err := strconv.ParseUint(a.words[0], 0, 8); err == nil {
		op = roce.Opcode(o)
	}
	h := roce.Build(&f.Head, op)
	h.BTH().SetPSN(roce.NewPSN(uint32(a.num("psn", 0))))
	h.BTH().SetAckReq(a.has("ask"))
	f.HeadLen, f.Len = uint8(h.Len()), a.num("len", 0)
	f.Pad = uint8(a.num("pad", roce.PadFor(f.Len)))
	h.BTH().SetPad(int(f.Pad))
	if f.Len > 0 {
		f.Payload = [][]byte{make([]byte, f.Len)}
	}
	key := uint32(a.num("key", 1))
	if x := h.RETH(); x != nil {
		x.Set(addr(key, a.num("at", 0)), key, uint32(a.num("of", f.Len)))
	}
	if x := h.AtomicETH(); x != nil {
		x.Set(addr(key, a.num("at", 0)), key, 1, 0)
	}
	if x := h.DETH(); x != nil {
		x.Set(uint32(a.num("qkey", int(g.send[from].QKey))), uint32(a.num("qpn", int(g.send[from].QPN))))
	}
	if x := h.FETH(); x != nil {
		x.Set(roce.Placement(a.num("place", 0)), roce.FlushLevel(a.num("level", 0)))
	}
	if x := h.AETH(); x != nil {
		x.Set(roce.Syndrome(a.num("code", int(roce.AckUnlimited))), 0)
	}
	g.carry(from, f, "   forged")
}

// carry lets a packet meet its fate.
func (g *stage) carry(from string, f *frame.Frame, note string) {
	to := "B"
	if from == "B" {
		to = "A"
	}
	what := fate{}
	for _, x := range g.fates {
		if x.from == from && x.n > 0 && x.psn == int((*roce.BTH)(f.Head[:]).PSN()) {
			if x.skip > 0 {
				x.skip--
				continue
			}
			x.n--
			what = *x
			break
		}
	}
	c := clone(f)
	text := fmt.Sprintf("%s>%s %s", from, to, line(f)) + note
	g.route(from, f, c)
	g.kept.back(from, f)
	switch what.what {
	case "drop":
		g.print("%s   lost", text)
		return
	case "dup":
		g.print("%s   doubled", text)
		g.queue[to] = append(g.queue[to], c, clone(c))
	case "hold":
		g.print("%s   held", text)
		g.late = append(g.late, parcel{c, to, 0, true})
		return
	case "delay":
		g.print("%s   delayed", text)
		g.late = append(g.late, parcel{c, to, g.now + what.by, false})
		return
	default:
		g.printPacket(text, c)
		g.queue[to] = append(g.queue[to], c)
	}
	keep := g.late[:0]
	for _, p := range g.late {
		if p.hold && p.to == to {
			g.queue[to] = append(g.queue[to], p.f)
		} else {
			keep = append(keep, p)
		}
	}
	g.late = keep
}

// settle lets happen all that happens now.
func (g *stage) settle() {
	for range 10000 {
		busy := false
		for i, p := range g.late {
			if !p.hold && p.at <= g.now {
				g.late = append(g.late[:i], g.late[i+1:]...)
				g.queue[p.to] = append(g.queue[p.to], p.f)
				busy = true
				break
			}
		}
		for _, n := range []string{"A", "B"} {
			busy = g.turn(n) || busy
		}
		if !busy {
			return
		}
	}
	g.t.Fatalf("it goes on for ever:\n%s", g.trace.String())
}

// turn gives both halves of a host one run.
func (g *stage) turn(n string) bool {
	h := g.hosts[n]
	in := g.queue[n]
	h.inbox = &in
	did := len(in) > 0
	if g.deaf[n] {
		in, g.queue[n] = nil, nil
	}
	for len(in) > 0 {
		f := in[0]
		if isRequest(f) {
			if !h.r.Receive(f, g.now) {
				break
			}
		} else {
			h.s.Receive(f, g.now)
		}
		in = in[1:]
	}
	g.queue[n] = in
	more := h.s.Step(g.now, g.budget)
	h.spread()
	more = h.r.Step(g.now, g.budget) || more
	h.spread()
	out := h.takeOut()
	for _, f := range out {
		g.carry(n, f, "")
	}
	return g.report(n) || did || more || len(out) > 0
}

// report prints what a host was told since the last report.
func (g *stage) report(n string) bool {
	h, was := g.hosts[n], g.seen[n]
	for _, e := range h.received[was[0]:] {
		g.print("%s   received id=%d %s", n, e.ID, describe(e))
	}
	for _, e := range h.sent[was[1]:] {
		g.print("%s   done id=%d %s", n, e.ID, describe(e))
	}
	for _, e := range h.events[was[2]:] {
		if e != CommEstablished {
			g.print("%s   event %v", n, e)
		}
	}
	for _, s := range h.fatal[was[3]:] {
		g.print("%s   error state: %v", n, s)
	}
	g.reportMemory(h, was[4:])
	is := [7]int{len(h.received), len(h.sent), len(h.events), len(h.fatal), len(h.flushes), len(h.bound), h.givenUp}
	g.seen[n] = is
	return is != was
}

// describe prints a completion.
func describe(e CQE) string {
	if e.Status != StatusSuccess {
		return e.Status.String()
	}
	s := "ok"
	if e.Op == OpRecv || e.Op == OpRecvWriteImm || e.Op == OpRead {
		s += fmt.Sprintf(" len=%d", e.ByteLen)
	}
	if e.WithImm && e.Op >= OpRecv {
		s += fmt.Sprintf(" imm=%d", e.Imm)
	}
	if e.WithInv {
		s += fmt.Sprintf(" inv=%d", e.Imm)
	}
	if e.Solicited {
		s += " solicited"
	}
	if e.WithGRH {
		s += fmt.Sprintf(" grh from=%#x", e.SrcQP)
	}
	return s
}

// next returns when something happens by itself; 0: never.
func (g *stage) next() (at Instant) {
	for _, p := range g.late {
		if !p.hold && (at == 0 || p.at < at) {
			at = p.at
		}
	}
	for _, h := range g.hosts {
		if d := h.s.Deadline(); d != 0 && (at == 0 || d < at) {
			at = d
		}
	}
	return at
}

// pass lets time pass.
func (g *stage) pass(until Instant) {
	g.settle()
	for {
		at := g.next()
		if at == 0 || at > until {
			g.now = until
			return
		}
		g.now = max(g.now, at)
		g.settle()
	}
}

// run goes on until nothing happens any more, or for a minute.
func (g *stage) run() {
	g.settle()
	for end := g.now + Instant(time.Minute); ; {
		at := g.next()
		if at == 0 || at > end {
			return
		}
		g.now = max(g.now, at)
		g.settle()
	}
}
