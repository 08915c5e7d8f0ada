package roce

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"

	"pgregory.net/rapid"
)

// twin is the CRC bit by bit, from its definition.
func twin(b []byte) uint32 {
	r := ^uint32(0)
	for _, v := range b {
		r ^= uint32(v)
		for range 8 {
			if r&1 != 0 {
				r = r>>1 ^ 0xedb88320
			} else {
				r >>= 1
			}
		}
	}
	return ^r
}

// invariant returns what the ICRC covers of an IP packet without options, by
// offsets written out from the specification.
func invariant(ip []byte) []byte {
	b := append([]byte{255, 255, 255, 255, 255, 255, 255, 255}, ip[:len(ip)-4]...)
	mask := []int{1, 8, 10, 11, 26, 27, 32} // TOS, TTL, checksum, UDP checksum, BTH byte 4
	if ip[0]>>4 == 6 {
		b[8] |= 0x0f
		mask = []int{1, 2, 3, 7, 46, 47, 52}
	}
	for _, at := range mask {
		b[8+at] = 0xff
	}
	return b
}

var (
	ends4 = [2]netip.AddrPort{netip.MustParseAddrPort("10.1.2.3:49152"), netip.MustParseAddrPort("192.168.200.4:4791")}
	ends6 = [2]netip.AddrPort{netip.MustParseAddrPort("[fd77::2]:50000"), netip.MustParseAddrPort("[2001:db8::3]:4791")}
)

// assemble returns a whole IP packet.
func assemble(t testing.TB, path Path, o Opcode, payload []byte) []byte {
	t.Helper()
	var head [HeadSize]byte
	h := Build(&head, o)
	h.BTH().SetPSN(0xabcdef)
	h.BTH().SetDestQP(0x123456)
	pad := PadFor(len(payload))
	h.BTH().SetPad(pad)
	f, ok := NewFlow(path.Src, path.Dst)
	if !ok {
		t.Fatalf("got no flow from %v to %v", path.Src, path.Dst)
	}
	var net [Room]byte
	n := path.Put(&net, h.Len()+len(payload)+pad+ICRCLen)
	var tail [ICRCLen]byte
	f.Start(h, len(payload)+pad, path.Ident).Add(payload).AddPad(pad).Put(&tail)
	b := append(append(net[:n:n], h.Bytes()...), payload...)
	return append(append(b, make([]byte, pad)...), tail[:]...)
}

// TestICRCFollowsItsNaiveTwin computes the ICRC of random packets by table, by
// instruction, in pieces, and bit by bit.
func TestICRCFollowsItsNaiveTwin(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		ends := rapid.SampledFrom([][2]netip.AddrPort{ends4, ends6}).Draw(r, "ends")
		path := Path{
			Src: netip.AddrPortFrom(ends[0].Addr(), rapid.Uint16().Draw(r, "port")), Dst: ends[1],
			TrafficClass: rapid.Byte().Draw(r, "class"), HopLimit: rapid.Byte().Draw(r, "hops"),
			Ident: Ident{ID: rapid.Uint16().Draw(r, "id"), DF: rapid.Bool().Draw(r, "df")},
		}
		op := rapid.SampledFrom([]Opcode{RCSendOnly, RCWriteOnlyImm, UDSendOnlyImm, UCWriteMiddle, CNP}).Draw(r, "op")
		payload := rapid.SliceOfN(rapid.Byte(), 0, 600).Draw(r, "payload")
		ip := assemble(t, path, op, payload)

		d, ok := ParseIP(ip)
		if !ok || d.Src() != path.Src || d.Dst() != path.Dst || d.TrafficClass() != path.TrafficClass || d.HopLimit() != path.HopLimit {
			r.Fatalf("got %v > %v (%v), want %+v", d.Src(), d.Dst(), ok, path)
		}
		want := twin(invariant(ip))
		if got := binary.LittleEndian.Uint32(ip[len(ip)-4:]); got != want {
			r.Fatalf("got %#08x on the wire, want %#08x", got, want)
		}
		if got, ok := d.ICRC(); !ok || got != want {
			r.Fatalf("got %#08x of the datagram, want %#08x", got, want)
		}

		p, _ := Parse(d.Payload())
		f, _ := NewFlow(path.Src, path.Dst)
		c, rest := f.Start(p.Headers, len(p.Padded()), path.Ident), p.Padded()
		for len(rest) > 0 {
			n := rapid.IntRange(1, len(rest)).Draw(r, "piece")
			c, rest = c.Add(rest[:n]), rest[n:]
		}
		if uint32(c) != want {
			r.Fatalf("got %#08x in pieces, want %#08x", uint32(c), want)
		}
	})
}

// TestICRCCoversWhatItShould flips every single bit of a packet. The ones that
// routers and switches may change do not matter; any other is noticed.
func TestICRCCoversWhatItShould(t *testing.T) {
	for _, c := range []struct {
		ends [2]netip.AddrPort
		free map[int]byte // byte: bits that the ICRC does not cover
	}{
		{ends4, map[int]byte{1: 255, 8: 255, 10: 255, 11: 255, 26: 255, 27: 255, 32: 255}},
		{ends6, map[int]byte{0: 0x0f, 1: 255, 2: 255, 3: 255, 7: 255, 46: 255, 47: 255, 52: 255}},
	} {
		ip := assemble(t, Path{Src: c.ends[0], Dst: c.ends[1], HopLimit: 64, Ident: Ident{ID: 77, DF: true}}, RCWriteOnly, []byte("0123456789"))
		for bit := range len(ip) * 8 {
			at, mask := bit/8, byte(0x80>>(bit%8))
			ip[at] ^= mask
			d, ok := ParseIP(ip)
			if got, want := ok && d.Valid(), c.free[at]&mask != 0; got != want {
				t.Errorf("%v, byte %d changed by %#02x: valid is %v, want %v", c.ends[0], at, mask, got, want)
			}
			ip[at] ^= mask
		}
	}
}

// TestICRCCoversOptions: options of IPv4 are part of it, though a Flow cannot
// know them.
func TestICRCCoversOptions(t *testing.T) {
	ip := assemble(t, Path{Src: ends4[0], Dst: ends4[1]}, RCSendOnly, []byte("abcd"))
	with := append(append(append([]byte{}, ip[:20]...), 1, 1, 1, 0), ip[20:]...)
	with[0] = 0x46
	binary.BigEndian.PutUint16(with[2:], uint16(len(with)))
	d, ok := ParseIP(with)
	if !ok || d.Valid() {
		t.Fatalf("got %v, and an ICRC that does not cover options", ok)
	}
	sum, _ := d.ICRC()
	binary.LittleEndian.PutUint32(with[len(with)-4:], sum)
	if !d.Valid() {
		t.Error("the ICRC with options is not valid")
	}
	masked := append([]byte{255, 255, 255, 255, 255, 255, 255, 255}, with[:len(with)-4]...)
	for _, at := range []int{1, 8, 10, 11, 30, 31, 36} {
		masked[8+at] = 0xff
	}
	if want := twin(masked); sum != want {
		t.Errorf("got %#08x, want %#08x", sum, want)
	}
}

func TestFlowWantsOneFamily(t *testing.T) {
	mapped := netip.AddrPortFrom(netip.MustParseAddr("::ffff:10.1.2.3"), 49152)
	a, ok := NewFlow(mapped, ends4[1])
	b, _ := NewFlow(ends4[0], ends4[1])
	if !ok || a != b {
		t.Errorf("got %v (%v) for a mapped address, want %v", a, ok, b)
	}
	zoned := netip.AddrPortFrom(netip.MustParseAddr("fe80::1%eth0"), 1)
	plain := netip.AddrPortFrom(netip.MustParseAddr("fe80::1"), 1)
	a, ok = NewFlow(zoned, ends6[1])
	b, _ = NewFlow(plain, ends6[1])
	if !ok || a != b {
		t.Errorf("got %v (%v) for a zoned address, want %v", a, ok, b)
	}
	for _, c := range [][2]netip.AddrPort{{ends4[0], ends6[0]}, {ends6[0], ends4[0]}, {{}, ends4[0]}, {ends6[0], {}}} {
		if _, ok := NewFlow(c[0], c[1]); ok {
			t.Errorf("got a flow from %v to %v", c[0], c[1])
		}
	}
}

// TestCheckFindsEveryIdent goes through all identifications with and without
// DF, for a short packet and one of the longest.
func TestCheckFindsEveryIdent(t *testing.T) {
	f, _ := NewFlow(ends4[0], ends4[1])
	for _, n := range []int{0, 4, 200, 232, 256, 4096, 9000} {
		var head [HeadSize]byte
		h := Build(&head, RCSendMiddle)
		buf := append(h.Bytes(), make([]byte, n+ICRCLen)...)
		for i := range n {
			buf[BTHLen+i] = byte(i * 7)
		}
		p, ok := Parse(buf)
		if !ok {
			t.Fatal("got no packet")
		}
		step := 1
		if n > 256 {
			step = 251 // the CRC over the payload is what takes time
		}
		for id := 0; id <= 0xffff; id += step {
			for _, want := range []Ident{{uint16(id), true}, {uint16(id), false}} {
				binary.LittleEndian.PutUint32(buf[len(buf)-4:], f.Sum(p, want))
				if got, ok := f.Check(p, Segment(id&63)); !ok || got != want {
					t.Fatalf("%d bytes: got %v %v, want %v", n, got, ok, want)
				}
			}
		}
	}
}

// TestCheckNeverBelievesWhatDoesNotAddUp gives random ICRCs: what is accepted
// must come true when computed, and about one in 2^15 is accepted.
func TestCheckNeverBelievesWhatDoesNotAddUp(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	ip := assemble(t, Path{Src: ends4[0], Dst: ends4[1], Ident: Segment(0)}, RCWriteOnly, []byte("0123456789abcdef"))
	d, _ := ParseIP(ip)
	p, _ := Parse(d.Payload())
	f, _ := NewFlow(ends4[0], ends4[1])
	const tries = 1 << 20
	accepted := 0
	for range tries {
		binary.LittleEndian.PutUint32(ip[len(ip)-4:], random.Uint32())
		id, ok := f.Check(p, Segment(0))
		if !ok {
			continue
		}
		accepted++
		if f.Sum(p, id) != p.ICRC() {
			t.Fatalf("%v does not give the ICRC %#08x", id, p.ICRC())
		}
	}
	if accepted < 8 || accepted > 96 {
		t.Errorf("got %d of %d random ICRCs accepted, want about 32", accepted, tries)
	}
}

// TestCheckIsFullOverIPv6: what would pass as another identification over IPv4
// is a wrong ICRC over IPv6.
func TestCheckIsFullOverIPv6(t *testing.T) {
	ip := assemble(t, Path{Src: ends6[0], Dst: ends6[1]}, RCSendOnly, []byte("0123"))
	d, _ := ParseIP(ip)
	p, _ := Parse(d.Payload())
	f4, _ := NewFlow(ends4[0], ends4[1])
	f6, _ := NewFlow(ends6[0], ends6[1])
	if _, ok := f6.Check(p, Segment(0)); !ok {
		t.Fatal("got a wrong ICRC")
	}
	wrong := f4.Sum(p, Segment(0)) ^ f4.Sum(p, Segment(5))
	binary.LittleEndian.PutUint32(ip[len(ip)-4:], p.ICRC()^wrong)
	if id, ok := f6.Check(p, Segment(0)); ok {
		t.Errorf("got a wrong ICRC accepted as %v", id)
	}
}

// TestCheckSeesEveryFlippedBit: with the identification unknown too, single
// bits do not hide behind it, if DF is insisted on.
func TestCheckSeesEveryFlippedBit(t *testing.T) {
	for _, ends := range [][2]netip.AddrPort{ends4, ends6} {
		ip := assemble(t, Path{Src: ends[0], Dst: ends[1], Ident: Ident{ID: 3, DF: true}}, RCWriteOnly, make([]byte, 1024))
		d, _ := ParseIP(ip)
		f, _ := NewFlow(ends[0], ends[1])
		b := d.Payload()
		for bit := range len(b) * 8 {
			if bit/8 == 4 {
				continue // not covered
			}
			b[bit/8] ^= 0x80 >> (bit % 8)
			if p, ok := Parse(b); ok {
				if id, ok := f.Check(p, Segment(0)); ok && id.DF {
					t.Errorf("%v: bit %d flipped and accepted as %v", ends[0], bit, id)
				}
			}
			b[bit/8] ^= 0x80 >> (bit % 8)
		}
	}
}

// TestNoSingleBitLooksLikeAnIdentification goes through the distances between a
// flipped bit and the identification, up to beyond the largest packet. Without
// DF in the bargain none of them looks like another identification.
func TestNoSingleBitLooksLikeAnIdentification(t *testing.T) {
	flipped := uint32(1 << 31)
	for bit := range 8 * (MTU4096.Bytes() + HeadSize + ipv4Len + udpLen) {
		flipped = overX(flipped)
		if bit >= 32 && flipped>>16 == 0 {
			t.Errorf("a bit %d bits behind looks like the identification changed by %#x", bit, flipped)
		}
	}
}

// TestRewindUndoesZeroBytes holds the solver's one piece of arithmetic.
func TestRewindUndoesZeroBytes(t *testing.T) {
	r := uint32(0xdeadbeef)
	moved := r
	for n := range 70000 {
		if n < 1<<16 && rewind(moved, n) != r {
			t.Fatalf("%d zero bytes are not undone", n)
		}
		moved = moved>>8 ^ crcTables[0][byte(moved)]
	}
	for bit := range 32 {
		if v := uint32(1) << bit; overX(timesX(v)) != v || timesX(overX(v)) != v || times(1<<31, v) != v {
			t.Errorf("bit %d: x and its inverse do not cancel", bit)
		}
	}
}
