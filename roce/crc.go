package roce

import "encoding/binary"

// The CRC is the Ethernet one, in its usual reflected form: of the 32-bit
// register, bit 31 is the coefficient of x^0 and bit 0 that of x^31, and four
// message bytes enter as a little-endian word. Feeding zero bytes multiplies
// the register by x^8 each, modulo the polynomial. All of it is linear, which
// is what Flow and its Check rest on.
//
// Payload goes through hash/crc32, which uses the processor's instructions for
// it. Headers are too short for those, and a slice that hash/crc32 has seen
// escapes to the heap, so they go through crcWords.

// crcPoly is the polynomial without its x^32, reflected.
const crcPoly = 0xedb88320

// crcTables has in [k][v] the register after byte v and k zero bytes.
var crcTables = makeCRCTables()

func makeCRCTables() *[4][256]uint32 {
	t := new([4][256]uint32)
	for v := range 256 {
		r := uint32(v)
		for range 8 {
			r = timesX(r)
		}
		t[0][v] = r
	}
	for k := 1; k < len(t); k++ {
		for v := range 256 {
			t[k][v] = t[k-1][v]>>8 ^ t[0][byte(t[k-1][v])]
		}
	}
	return t
}

// timesX multiplies a register by x.
func timesX(r uint32) uint32 { return r>>1 ^ crcPoly&-(r&1) }

// overX divides a register by x: the inverse of timesX, which exists because
// the polynomial has a constant term.
func overX(r uint32) uint32 {
	if r&(1<<31) != 0 {
		return (r^crcPoly)<<1 | 1
	}
	return r << 1
}

// crcWord feeds one little-endian word to the register.
func crcWord(r, word uint32) uint32 {
	r ^= word
	t := crcTables
	return t[3][byte(r)] ^ t[2][byte(r>>8)] ^ t[1][byte(r>>16)] ^ t[0][r>>24]
}

// crcWords feeds p, of which a rest shorter than a word is left out.
func crcWords(r uint32, p []byte) uint32 {
	for ; len(p) >= 4; p = p[4:] {
		r = crcWord(r, binary.LittleEndian.Uint32(p))
	}
	return r
}

// times multiplies two registers, four bits of a at a time: from those of the
// highest powers, which are the lowest bits, to those of the lowest.
func times(a, b uint32) uint32 {
	var of [16]uint32 // b times each polynomial of four bits
	for bit := 8; bit > 0; bit >>= 1 {
		of[bit] = b
		for low := 15 &^ (bit*2 - 1); low > 0; low -= bit * 2 {
			of[low|bit] = of[low] ^ b
		}
		b = timesX(b)
	}
	var p uint32
	for range 8 {
		p = p>>4 ^ crcTables[0][p&15<<4] ^ of[a&15] // times x^4, and add
		a >>= 4
	}
	return p
}

// back has in [0][n] the inverse of feeding n zero bytes, as a factor, and in
// [1][n] that of 256 times as many.
var back = makeBack()

func makeBack() *[2][256]uint32 {
	t := new([2][256]uint32)
	one := uint32(1 << 31)
	step := one
	for range 8 {
		step = overX(step)
	}
	for k := range t {
		t[k][0] = one
		for n := 1; n < 256; n++ {
			t[k][n] = times(t[k][n-1], step)
		}
		step = times(t[k][255], step)
	}
	return t
}

// rewind undoes what n zero bytes did to a register, for n below 65536.
func rewind(r uint32, n int) uint32 {
	r = times(back[0][n&255], r)
	if n > 255 {
		r = times(back[1][n>>8&255], r)
	}
	return r
}
