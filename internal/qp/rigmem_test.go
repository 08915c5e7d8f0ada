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
