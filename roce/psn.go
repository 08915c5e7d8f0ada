package roce

// A PSN is a packet sequence number: a serial number of 24 bits that wraps.
//
// Two PSNs are never compared with < or >, only through Sub: after the wrap the
// later one is the smaller number. Equality is ==, provided that both come from
// a header, from NewPSN or from the methods here, which keep the top byte zero.
type PSN uint32

// psnMask has the bits that a PSN uses.
const psnMask = 1<<24 - 1

// MaxPSNWindow is the most PSNs that may be outstanding, so that Sub can tell a
// late packet from an early one: 2^23 - 1.
const MaxPSNWindow = 1<<23 - 1

// NewPSN returns the low 24 bits of v as a PSN.
func NewPSN(v uint32) PSN { return PSN(v & psnMask) }

// Add returns the PSN n after p, or before it when n is negative.
func (p PSN) Add(n int) PSN { return PSN((uint32(p) + uint32(n)) & psnMask) }

// Next returns the PSN after p.
func (p PSN) Next() PSN { return p.Add(1) }

// Sub returns how far p is after q: negative when p is before q. Exactly half
// way round the circle, where both are true, it is -2^23.
func (p PSN) Sub(q PSN) int {
	// Moved to the top of a word, the 24-bit difference has its sign where
	// the machine expects it.
	return int(int32(uint32(p-q)<<8) >> 8)
}
