package mad

import (
	"encoding/binary"
	"net/netip"
)

// A Field is a number in a MAD: so many bits, big-endian, as the tables of the
// specification have them.
type Field struct {
	at    uint8 // the byte in the MAD where it begins
	bit   uint8 // how many bits of that byte come before it
	width uint8 // in bits
}

// In returns the number that stands in m.
func (f Field) In(m *MAD) uint64 {
	w, shift, mask := f.word(m)
	return w >> shift & mask
}

// Set puts the low bits of v into m, and leaves all others as they are.
func (f Field) Set(m *MAD, v uint64) {
	w, shift, mask := f.word(m)
	w = w&^(mask<<shift) | v&mask<<shift
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], w)
	copy(m[f.at:], b[:f.bytes()])
}

// bytes returns how many bytes the field touches.
func (f Field) bytes() int { return (int(f.bit) + int(f.width) + 7) / 8 }

// word returns the bytes of the field, highest first in 64 bits, and where in
// them it is.
func (f Field) word(m *MAD) (w uint64, shift int, mask uint64) {
	var b [8]byte
	copy(b[:f.bytes()], m[f.at:])
	return binary.BigEndian.Uint64(b[:]), 64 - int(f.bit) - int(f.width), 1<<f.width - 1
}

// A Span is a run of bytes in a MAD.
type Span struct {
	at uint8
	n  uint8
}

// In returns the bytes in m: not a copy.
func (s Span) In(m *MAD) []byte { return m[s.at : int(s.at)+int(s.n) : int(s.at)+int(s.n)] }

// Len returns how many bytes there are.
func (s Span) Len() int { return int(s.n) }

// Put copies b into m, and zeros behind it. What is too long is cut.
func (s Span) Put(m *MAD, b []byte) {
	to := s.In(m)
	clear(to[copy(to, b):])
}

// Addr returns the address in a span of 16 bytes; IPv4 is not mapped.
func (s Span) Addr(m *MAD) netip.Addr { return netip.AddrFrom16([16]byte(s.In(m))).Unmap() }

// PutAddr writes an address into a span of 16 bytes, IPv4 as ::ffff:a.b.c.d.
func (s Span) PutAddr(m *MAD, a netip.Addr) {
	b := a.As16()
	s.Put(m, b[:])
}

// Shorthands for the tables. Offsets count from the end of the header.

func u8(at uint8) Field                 { return bits(at, 0, 8) }
func u16(at uint8) Field                { return bits(at, 0, 16) }
func u24(at uint8) Field                { return bits(at, 0, 24) }
func u32(at uint8) Field                { return bits(at, 0, 32) }
func u64(at uint8) Field                { return bits(at, 0, 64) }
func bits(at, bit, width uint8) Field   { return Field{at: headLen + at, bit: bit, width: width} }
func span(at, n uint8) Span             { return Span{at: headLen + at, n: n} }
func (f Field) plus(offset uint8) Field { return Field{at: f.at + offset, bit: f.bit, width: f.width} }
