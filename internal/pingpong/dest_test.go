package pingpong

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
)

// What ibv_rc_pingpong wrote on a machine with the address 10.77.0.2.
const (
	kernelDest = "0000:000012:b0c9f4:00000000000000000000ffff0a4d0002\x00"
	kernelText = "LID 0x0000, QPN 0x000012, PSN 0xb0c9f4, GID ::ffff:10.77.0.2"
)

func kernel() Dest {
	return Dest{QPN: 0x12, PSN: 0xb0c9f4, GID: verbs.GIDOf(netip.MustParseAddr("10.77.0.2"))}
}

func TestDestLooksLikeTheOriginals(t *testing.T) {
	if got := string(kernel().Append(nil)); got != kernelDest || len(got) != DestLen {
		t.Errorf("got %q, want %q", got, kernelDest)
	}
	if got := kernel().String(); got != kernelText {
		t.Errorf("got %q, want %q", got, kernelText)
	}
	for _, text := range []string{kernelDest, strings.ToUpper(kernelDest)} {
		if got, err := ParseDest([]byte(text)); got != kernel() || err != nil {
			t.Errorf("%q: got %v, %v, want %v", text, got, err, kernel())
		}
	}
}

func TestDestIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Dest{
			LID: rapid.Uint16().Draw(t, "lid"), QPN: rapid.Uint32Max(0xffffff).Draw(t, "qpn"),
			PSN: roce.PSN(rapid.Uint32Max(0xffffff).Draw(t, "psn")),
		}
		copy(d.GID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "gid"))
		if got, err := ParseDest(d.Append(nil)); got != d || err != nil {
			t.Errorf("got %v, %v, want %v", got, err, d)
		}
	})
}

func TestWrongDestsAreRefused(t *testing.T) {
	for _, text := range []string{
		"", kernelDest[:51], kernelDest + "\x00", strings.Replace(kernelDest, ":", ".", 1), strings.Replace(kernelDest, "b", "g", 1),
		strings.Replace(kernelDest, "\x00", "\n", 1), strings.Replace(kernelDest, "0000:", " 000:", 1), strings.Replace(kernelDest, "0000:", "0x00:", 1),
	} {
		if d, err := ParseDest([]byte(text)); !errors.Is(err, rendezvous.ErrPeer) {
			t.Errorf("%q: got %v, %v, want an error", text, d, err)
		}
	}
}
