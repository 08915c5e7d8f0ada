package pingpong

import (
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/roce"
	"github.com/gantry-rdma/gantry/verbs"
)

// DestLen is the length of a Dest on the wire, with the zero byte at its end.
const DestLen = len(destShape)

// destShape is what a Dest looks like on the wire: LID, QPN, PSN and GID in
// hexadecimal digits, each of which an x stands for here.
const destShape = "xxxx:xxxxxx:xxxxxx:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\x00"

// A Dest says where an end is: what one end tells the other.
type Dest struct {
	LID uint16    // 0 with RoCE
	QPN uint32    // of its queue pair, 24 bits
	PSN roce.PSN  // of the first packet that it will send
	GID verbs.GID // its address
}

// Append appends the DestLen bytes that stand for d on the wire.
func (d Dest) Append(b []byte) []byte {
	return fmt.Appendf(b, "%04x:%06x:%06x:%x\x00", d.LID, d.QPN&0xffffff, uint32(d.PSN)&0xffffff, d.GID[:])
}

// ParseDest reads what Append writes; digits may be capital letters.
func ParseDest(b []byte) (d Dest, err error) {
	if len(b) != DestLen {
		return d, rendezvous.Errorf(rendezvous.ErrPeer, "an address has %d bytes, and not %d", DestLen, len(b))
	}
	if at := misfit(destShape, b); at < len(b) {
		return d, rendezvous.Errorf(rendezvous.ErrPeer, "byte %d of the address %q is wrong", at, b)
	}
	number := func(from, to int) uint32 {
		v, _ := strconv.ParseUint(string(b[from:to]), 16, 32) // hexadecimal digits only, as misfit found
		return uint32(v)
	}
	d.LID, d.QPN, d.PSN = uint16(number(0, 4)), number(5, 11), roce.NewPSN(number(12, 18))
	_, err = hex.Decode(d.GID[:], b[19:51])
	return d, err
}

// misfit returns the index of the first byte of b that shape does not allow, or
// len(b). An x stands for a hexadecimal digit. Bytes after the end of shape do
// not fit.
func misfit(shape string, b []byte) int {
	for i, c := range b {
		switch {
		case i >= len(shape):
			return i
		case shape[i] != 'x':
			if c != shape[i] {
				return i
			}
		case c < '0' || c > '9' && c < 'A' || c > 'F' && c < 'a' || c > 'f':
			return i
		}
	}
	return len(b)
}

// String returns the form in which the originals print it.
func (d Dest) String() string {
	return fmt.Sprintf("LID 0x%04x, QPN 0x%06x, PSN 0x%06x, GID %v", d.LID, d.QPN, uint32(d.PSN), netip.AddrFrom16(d.GID))
}
