package qp

import (
	"net/netip"
	"slices"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// What the stage needs for transports without answers.

var transports = map[string]roce.Transport{"rc": roce.RC, "uc": roce.UC, "ud": roce.UD}

// setUnreliable is the part of set that is about them.
func setUnreliable(s *SenderConfig, r *ResponderConfig, h *host, a args) {
	if name, ok := a.text("transport"); ok {
		t, ok := transports[name]
		if !ok {
			a.t.Fatalf("%s: no such transport", a.line)
		}
		s.Transport, r.Transport = t, t
	}
	s.QPN, r.QPN = uint32(a.num("qpn", int(s.QPN))), uint32(a.num("qpn", int(r.QPN)))
	s.QKey, r.QKey = uint32(a.num("qkey", int(s.QKey))), uint32(a.num("qkey", int(r.QKey)))
	if family := a.num("ip", 0); family != 0 {
		h.addr = addrOf(h.name, family)
	}
}

// addrOf is the address of a host.
func addrOf(host string, family int) frame.Addr {
	ip := map[string]string{"A4": "192.0.2.1", "B4": "192.0.2.2", "A6": "2001:db8::1", "B6": "2001:db8::2"}
	return frame.AddrOf(netip.AddrPortFrom(netip.MustParseAddr(ip[host+string(rune('0'+family))]), roce.Port))
}

// address says where a datagram goes: to the other host, unless the line says
// something else.
func (g *stage) address(h *host, w *WQE, a args) {
	n := g.other(h.name)
	w.Peer, w.DestQPN = g.hosts[n].addr, uint32(a.num("qpn", int(g.send[n].QPN)))
	w.QKey = uint32(a.num("qkey", int(g.send[n].QKey)))
}

// other is the name of the other host.
func (g *stage) other(n string) string {
	if n == "A" {
		return "B"
	}
	return "A"
}

// route does to a copy of a packet what a network does: it says where it came
// from. Datagrams know where they go.
func (g *stage) route(from string, f, c *frame.Frame) {
	to := g.hosts[g.other(from)].addr
	if g.send[from].Transport == roce.UD && f.Owner != nil && f.Peer != to {
		g.t.Fatalf("a datagram goes to %v, want %v", f.Peer, to)
	}
	c.Peer, c.Local = g.hosts[from].addr, to
}

// A keeper has the frames of hosts that do not get them back at once.
type keeper map[string]*[]*frame.Frame

// do begins to keep, or gives back, and returns how many frames.
func (k keeper) do(verb, host string, a args) int {
	if verb == "keep" {
		k[host] = new([]*frame.Frame)
		return 0
	}
	frames := *k[host]
	n := min(a.num("n", len(frames)), len(frames))
	if a.has("newest") {
		slices.Reverse(frames)
		defer func() { slices.Reverse(*k[host]) }()
	}
	for _, f := range frames[:n] {
		f.Back()
	}
	*k[host] = frames[n:]
	if a.has("end") {
		defer delete(k, host)
	}
	return n
}

// back gives a frame back, or keeps it.
func (k keeper) back(host string, f *frame.Frame) {
	if frames := k[host]; frames != nil && f.Owner != nil {
		*frames = append(*frames, f)
		return
	}
	f.Back()
}
