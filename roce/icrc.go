package roce

import (
	"encoding/binary"
	"hash/crc32"
	"net/netip"
)

// An Ident is what the ICRC covers of an IPv4 header and a UDP socket does not
// show: the identification and the don't-fragment flag. IPv6 has neither.
//
// A Linux UDP socket that is not connected and has IP_MTU_DISCOVER set to DO
// sends the zero ID with DF; the segments of a UDP_SEGMENT send carry the IDs
// 0, 1, 2 and so on.
type Ident struct {
	ID uint16 // identification
	DF bool   // don't fragment
}

// Segment returns the Ident of segment n of a UDP_SEGMENT send, and with 0 that
// of a packet sent alone.
func Segment(n int) Ident { return Ident{ID: uint16(n), DF: true} }

// flagDF is the don't-fragment flag in the word of flags and fragment offset.
const flagDF = 0x4000

func (i Ident) flags() uint16 {
	if i.DF {
		return flagDF
	}
	return 0
}

// The lengths of the headers under RoCE, without IPv4 options.
const (
	ipv4Len = 20
	ipv6Len = 40
	udpLen  = 8
)

// A Flow computes and checks the ICRC of packets between two UDP endpoints. It
// holds the CRC of the headers under the BTH with everything zero that differs
// from packet to packet; those fields are added by table. It is small, is
// copied freely and never changes.
type Flow struct {
	seed uint32 // register after IP and UDP header
	v6   bool
}

// NewFlow returns the flow from src to dst. An IPv4 address may be mapped into
// IPv6; a zone does not matter. It is not ok unless both are of one family.
func NewFlow(src, dst netip.AddrPort) (f Flow, ok bool) {
	from, to := src.Addr().Unmap(), dst.Addr().Unmap()
	r := crcWords(^uint32(0), ones[:])
	switch {
	case from.Is4() && to.Is4():
		a, b := from.As4(), to.As4()
		r = crcWords(r, ipv4Seed[:])
		r = crcWords(crcWords(r, a[:]), b[:])
	case from.Is6() && to.Is6():
		a, b := from.As16(), to.As16()
		r = crcWords(r, ipv6Seed[:])
		r = crcWords(crcWords(r, a[:]), b[:])
		f.v6 = true
	default:
		return Flow{}, false
	}
	r = crcWord(r, uint32(swap16(src.Port()))|uint32(swap16(dst.Port()))<<16)
	f.seed = crcWord(r, 0xffff0000) // length 0, checksum masked
	return f, true
}

// ones stand for the local route header of InfiniBand. The seeds are IP headers
// up to the addresses: what routers change is all ones, and what differs from
// packet to packet is zero.
var (
	ones     = [8]byte{255, 255, 255, 255, 255, 255, 255, 255}
	ipv4Seed = [12]byte{0: 0x45, 1: 255, 8: 255, 9: protocolUDP, 10: 255, 11: 255}
	ipv6Seed = [8]byte{0: 0x6f, 1: 255, 2: 255, 3: 255, 6: protocolUDP, 7: 255}
)

const protocolUDP = 17

func swap16(v uint16) uint16 { return v<<8 | v>>8 }

// A field has what a 16-bit field adds to the register after the UDP header:
// [0] by its first byte, [1] by its second.
type field [2][256]uint32

func (f *field) of(v uint16) uint32 { return f[0][v>>8] ^ f[1][byte(v)] }

// newField makes the table of a field with so many bytes between it and the
// end of the UDP header.
func newField(after int) *field {
	f := new(field)
	for v := range 256 {
		r := crcTables[0][v]
		for range after {
			r = r>>8 ^ crcTables[0][byte(r)]
		}
		f[1][v] = r
		f[0][v] = r>>8 ^ crcTables[0][byte(r)]
	}
	return f
}

// The fields that differ from packet to packet.
var (
	ipv4Total   = newField(ipv4Len - 4 + udpLen)
	ipv4ID      = newField(ipv4Len - 6 + udpLen)
	ipv4Flags   = newField(ipv4Len - 8 + udpLen)
	ipv6Payload = newField(ipv6Len - 6 + udpLen)
	udpLength   = newField(udpLen - 6)
)

// An ICRC is the invariant CRC over what was added so far. It is computed over
// headers, then payload and pad in order, in as many pieces as there are.
type ICRC uint32

// Start begins the ICRC of a packet with headers h and that many bytes of
// payload and pad behind them. For IPv6 the id means nothing.
//
// For a packet that cannot exist, because its UDP datagram would be longer than
// 65535 bytes, the result means nothing.
func (f Flow) Start(h Headers, body int, id Ident) ICRC {
	return ICRC(^crcHeaders(f.start(h.Len()+body, id), h.Bytes()))
}

// start returns the register after the headers under the BTH, for a packet with
// so many bytes from the BTH to the ICRC, which is not counted.
func (f Flow) start(covered int, id Ident) uint32 {
	n := udpLen + covered + ICRCLen
	r := f.seed ^ udpLength.of(uint16(n))
	if f.v6 {
		return r ^ ipv6Payload.of(uint16(n))
	}
	return r ^ ipv4Total.of(uint16(n+ipv4Len)) ^ ipv4ID.of(id.ID) ^ ipv4Flags.of(id.flags())
}

// crcHeaders feeds a BTH, of which byte 4 is masked, and the headers after it.
// All headers are whole words long.
func crcHeaders(r uint32, b []byte) uint32 {
	r = crcWord(r, binary.LittleEndian.Uint32(b))
	r = crcWord(r, binary.LittleEndian.Uint32(b[4:])|0xff)
	return crcWords(r, b[8:])
}

// Add returns the ICRC after p as well. Bytes count one by one: a piece may
// have any length.
func (c ICRC) Add(p []byte) ICRC { return ICRC(crc32.Update(uint32(c), crc32.IEEETable, p)) }

// AddPad returns the ICRC after n zero bytes as well; see [PadFor].
func (c ICRC) AddPad(n int) ICRC {
	r := ^uint32(c)
	for range n & 3 {
		r = r>>8 ^ crcTables[0][byte(r)]
	}
	return ICRC(^r)
}

// Put writes the ICRC as it goes on the wire: least significant byte first,
// alone of all fields.
func (c ICRC) Put(b *[ICRCLen]byte) { binary.LittleEndian.PutUint32(b[:], uint32(c)) }

// Sum returns the ICRC that p should carry if it was sent with id.
func (f Flow) Sum(p Packet, id Ident) uint32 {
	return uint32(f.Over(p.b[:len(p.b)-ICRCLen], p.Len(), id))
}

// Over returns the ICRC of a packet whose headers, payload and pad lie together
// in b, which begins with so many bytes of headers: a BTH at least. For IPv6
// the id means nothing.
//
// It is faster than piece by piece, because most of the headers go the fast way
// with the payload: hash/crc32 takes 16 bytes at once, and of what is left over
// one byte after the other. So that goes ahead.
func (f Flow) Over(b []byte, headers int, id Ident) ICRC {
	r := f.start(len(b), id)
	if len(b) < fastCRC+BTHLen {
		return ICRC(^crcHeaders(r, b[:headers])).Add(b[headers:])
	}
	ahead := 8 + (len(b)-8)&12 // the word of the BTH with a mask is among them
	return ICRC(^crcHeaders(r, b[:ahead])).Add(b[ahead:])
}

// fastCRC is from how many bytes on hash/crc32 is fast.
const fastCRC = 128

// Check verifies the ICRC of a packet whose IPv4 header nobody saw. It first
// takes the Ident to be guess: Segment(0) for a datagram that came alone, the
// index for one that was merged with others. If that is wrong it looks for the
// Ident that makes the ICRC right, and returns it.
//
// What was found has used up 17 bits of the 32: random damage passes once in
// 2^15 packets. A caller that refuses an Ident without DF, which RoCEv2 senders
// set, halves that and notices every single flipped bit in packets up to the
// largest MTU. One that knows how the peer numbers may refuse all but the guess.
//
// With IPv6 everything covered is known, and the check is full.
func (f Flow) Check(p Packet, guess Ident) (id Ident, ok bool) {
	wrong := f.Sum(p, guess) ^ p.ICRC()
	if wrong == 0 {
		return guess, true
	}
	if f.v6 {
		return Ident{}, false
	}
	return solve(wrong, p.Len()+len(p.Padded()), guess)
}

// solve returns the Ident that explains an ICRC that is wrong by that much
// under guess, given the bytes between UDP header and ICRC.
//
// The CRC is linear, so the difference of the two CRCs is the difference of the
// two IPv4 headers, moved on by the bytes behind. Moved back, it is the
// difference itself if it lies in the four bytes of identification, flags and
// fragment offset. Every difference does: that the offset and two of the three
// flags must be zero is all that is left of the check.
func solve(wrong uint32, covered int, guess Ident) (id Ident, ok bool) {
	const after = ipv4Len - 8 + udpLen // bytes of the headers behind those four
	word := rewind(wrong, 4+after+covered)
	flags := guess.flags() ^ swap16(uint16(word>>16))
	if flags&^flagDF != 0 {
		return Ident{}, false
	}
	return Ident{ID: guess.ID ^ swap16(uint16(word)), DF: flags != 0}, true
}
