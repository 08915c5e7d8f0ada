package qp

import (
	"testing"

	"github.com/gantry-rdma/gantry/roce"
)

// FuzzUnreliable is FuzzMachines for the other transports, which the first byte
// tells apart.
func FuzzUnreliable(f *testing.F) {
	for op := range 12 {
		f.Add([]byte{0, 0, 4, 1, 5, byte(op), 0, 2, 100, 5, byte(op), 1, 0, 16, 3, 5, byte(op + 2), 0, 8, 0, 1, 2})
		f.Add([]byte{1, 2, 0, 100, 5, 4, 0, 0, 64, 9, 6, 3, 1, 5, 5, 0x40, 8, 255, 255, 1, 1, 1, 3})
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		next := func() byte {
			if len(in) == 0 {
				return 0
			}
			b := in[0]
			in = in[1:]
			return b
		}
		of := []roce.Transport{roce.UC, roce.UD}[next()%2]
		h := newUnreliable(t, of).a
		h.limit, h.cap = 6, 3
		for now := Instant(1); len(in) > 0; {
			if what := next(); what%8 > 4 {
				x := drawFrame(next)
				x.Head[0] = byte(of)<<5 | x.Head[0]&0x1f
				h.r.Receive(x, now)
			} else {
				first := true
				now += h.act(func() byte {
					if first {
						first = false
						return what
					}
					return next()
				}, now)
			}
			h.spread()
			h.sound(t)
			if n := h.s.framesOut(); n > 3 && h.s.State() != Failed {
				t.Fatalf("%d frames are out", n)
			}
		}
		if h.made > h.limit || h.s.Deadline() != 0 {
			t.Fatalf("made %d frames, deadline %d", h.made, h.s.Deadline())
		}
	})
}
