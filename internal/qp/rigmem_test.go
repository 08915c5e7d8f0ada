package qp

import (
	"github.com/gantry-rdma/gantry/roce"
)

// Flush notes what was flushed. A whole region has no address and no length
// that count.
func (h *host) Flush(t *FlushTarget) bool {
	at, n := t.Addr, int(t.Len)
	if t.Level == roce.FlushRegion {
		at, n = addr(t.RKey, 0), 1
	}
	_, rights, ok := h.find(t.RKey, at, max(n, 1))
	if !ok || rights&t.Need() != t.Need() {
		return false
	}
	h.flushes = append(h.flushes, *t)
	if h.onFlush != nil {
		h.onFlush()
	}
	return true
}

// BindWindow binds a window: a region without memory of its own, which has the
// next address range of its own key.
func (h *host) BindWindow(b *Binding) bool {
	mem, rights, ok := h.find(b.LKey, b.Addr, int(b.Len))
	if !ok || rights&BindWindow == 0 || b.Window != b.Key || b.Window == 0 || int(b.Window) > len(h.regions) ||
		!h.regions[b.Window-1].gone {
		return false
	}
	h.regions[b.Window-1] = region{mem: mem, rights: b.Access}
	h.bound = append(h.bound, *b)
	return true
}

// everything is all that may be granted.
const everything = LocalWrite | RemoteWrite | RemoteRead | RemoteAtomic | BindWindow | RemoteFlushGlobal |
	RemoteFlushPersistent

// The regions that registerMemory adds to a host of a stage.
const (
	keyVolatile = 4 // everything but to be made persistent
	keyWindows  = 5 // and 6: windows that are not bound
)

// registerMemory registers them.
func (h *host) registerMemory() {
	h.register(make([]byte, 1<<16), everything&^RemoteFlushPersistent)
	for range 2 {
		h.regions[h.register(nil, 0)-1].gone = true
	}
}

// fillMemory fills in what only FLUSHes and binds have, and reports whether w is
// one.
func fillMemory(w *WQE, a args) bool {
	key := uint32(a.num("key", 1))
	switch w.Op {
	case OpFlush:
		w.Len = uint32(a.num("len", 8))
		w.Placement, w.Level = roce.Placement(a.num("place", 1)), roce.FlushLevel(a.num("level", 0))
		if a.has("scattered") {
			w.SG = append(w.SG, SGE{addr(key, 0), 8, key})
		}
	case OpBindMW:
		window := uint32(a.num("window", keyWindows))
		w.Bind = Binding{Window: window, Key: window, LKey: key, Access: Access(a.num("access", int(RemoteWrite))),
			Addr: addr(key, a.num("at", 0)), Len: uint64(a.num("of", 64))}
	default:
		return false
	}
	return true
}

// reportMemory prints what was flushed, bound and given up since.
func (g *stage) reportMemory(h *host, was []int) {
	for _, t := range h.flushes[was[0]:] {
		if t.Level == roce.FlushRegion {
			g.print("%s   flushed all of key=%d place=%d", h.name, t.RKey, t.Placement)
			continue
		}
		g.print("%s   flushed key=%d at=%d of=%d place=%d", h.name, t.RKey, t.Addr%regionGap, t.Len, t.Placement)
	}
	for _, b := range h.bound[was[1]:] {
		g.print("%s   bound window=%d to key=%d at=%d of=%d", h.name, b.Window, b.LKey, b.Addr%regionGap, b.Len)
	}
	if h.givenUp > was[2] {
		g.print("%s   a receive is given up", h.name)
	}
}
