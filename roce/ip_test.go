package roce

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
)

// TestParseIPRefuses changes one thing of a good packet at a time.
func TestParseIPRefuses(t *testing.T) {
	four := assemble(t, Path{Src: ends4[0], Dst: ends4[1], Ident: Segment(0)}, RCSendOnly, []byte("abcd"))
	six := assemble(t, Path{Src: ends6[0], Dst: ends6[1]}, RCSendOnly, []byte("abcd"))
	for _, c := range []struct {
		name   string
		ip     []byte
		change func(b []byte) []byte
		ok     bool
	}{
		{"IPv4", four, func(b []byte) []byte { return b }, true},
		{"IPv6", six, func(b []byte) []byte { return b }, true},
		{"IPv4 with Ethernet padding", four, func(b []byte) []byte { return append(b, 0, 0, 0) }, true},
		{"IPv6 with bytes behind", six, func(b []byte) []byte { return append(b, 0, 0, 0) }, true},
		{"nothing", four, func(b []byte) []byte { return nil }, false},
		{"version 5", four, func(b []byte) []byte { b[0] = 0x55; return b }, false},
		{"an IPv4 header of 16 bytes", four, func(b []byte) []byte { b[0] = 0x44; return b }, false},
		{"more fragments", four, func(b []byte) []byte { b[6] |= 0x20; return b }, false},
		{"a later fragment", four, func(b []byte) []byte { b[7] = 1; return b }, false},
		{"the reserved flag", four, func(b []byte) []byte { b[6] |= 0x80; return b }, false},
		{"IPv4 TCP", four, func(b []byte) []byte { b[9] = 6; return b }, false},
		{"an IPv6 extension header", six, func(b []byte) []byte { b[6] = 0; return b }, false},
		{"IPv4 cut by a byte", four, func(b []byte) []byte { return b[:len(b)-1] }, false},
		{"IPv6 cut by a byte", six, func(b []byte) []byte { return b[:len(b)-1] }, false},
		{"IPv6 cut to 20 bytes", six, func(b []byte) []byte { return b[:20] }, false},
		{"IPv4 longer than UDP", four, func(b []byte) []byte { b[3]++; return append(b, 0) }, false},
		{"UDP longer than IPv6", six, func(b []byte) []byte { b[45]++; return append(b, 0) }, false},
		{"no room for UDP", four, func(b []byte) []byte { binary.BigEndian.PutUint16(b[2:], 27); b[25] = 7; return b }, false},
		{"an IPv4 header longer than the packet", four, func(b []byte) []byte { b[0] = 0x4f; return b }, false},
	} {
		if _, ok := ParseIP(c.change(bytes.Clone(c.ip))); ok != c.ok {
			t.Errorf("%s: got %v, want %v", c.name, ok, c.ok)
		}
	}
}

func TestDatagramWithoutRoomForBTHIsNotValid(t *testing.T) {
	for n := range BTHLen + ICRCLen {
		path := Path{Src: ends4[0], Dst: ends4[1]}
		var net [Room]byte
		b := append(net[:path.Put(&net, n)], make([]byte, n)...)
		d, ok := ParseIP(b)
		if !ok || len(d.Payload()) != n {
			t.Fatalf("got no datagram of %d bytes", n)
		}
		if _, ok := d.ICRC(); ok || d.Valid() {
			t.Errorf("got an ICRC over %d bytes", n)
		}
	}
}

func TestPathPutRefusesWhatCannotBe(t *testing.T) {
	for _, c := range []struct {
		name     string
		src, dst netip.AddrPort
		n, want  int
	}{
		{"IPv4", ends4[0], ends4[1], 100, 28},
		{"IPv6", ends6[0], ends6[1], 100, 48},
		{"the longest over IPv4", ends4[0], ends4[1], 65507, 28},
		{"one more", ends4[0], ends4[1], 65508, 0},
		{"the longest over IPv6", ends6[0], ends6[1], 65527, 48},
		{"one more over IPv6", ends6[0], ends6[1], 65528, 0},
		{"a negative length", ends4[0], ends4[1], -1, 0},
		{"two families", ends4[0], ends6[1], 100, 0},
		{"no addresses", netip.AddrPort{}, netip.AddrPort{}, 100, 0},
	} {
		path := Path{Src: c.src, Dst: c.dst}
		var net [Room]byte
		if got := path.Put(&net, c.n); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
		var g GRH
		g[0] = 0xff
		if got := path.PutGRH(&g, c.n); got != (c.want > 0) {
			t.Errorf("%s: got a GRH: %v, want %v", c.name, got, c.want > 0)
		}
	}
}

// TestIPv4ChecksumAddsUp: the sum over a header with its checksum is all ones.
func TestIPv4ChecksumAddsUp(t *testing.T) {
	for id := range 1 << 16 {
		path := Path{Src: ends4[0], Dst: ends4[1], TrafficClass: uint8(id), HopLimit: 64, Ident: Ident{ID: uint16(id), DF: id&1 != 0}}
		var net [Room]byte
		path.Put(&net, id&0x7fff)
		if got := checksum(net[:20]); got != 0 {
			t.Fatalf("id %d: got %#x over the header, want 0", id, got)
		}
	}
}

func TestGRHHoldsTheIPHeader(t *testing.T) {
	for _, ends := range [][2]netip.AddrPort{ends4, ends6} {
		path := Path{Src: ends[0], Dst: ends[1], TrafficClass: 0xa5, HopLimit: 17, Ident: Ident{ID: 9}}
		var g GRH
		for i := range g {
			g[i] = 0xff // receive buffers are dirty
		}
		if !path.PutGRH(&g, 100) {
			t.Fatal("got no GRH")
		}
		if g.Src() != ends[0].Addr() || g.Dst() != ends[1].Addr() || g.TrafficClass() != 0xa5 || g.HopLimit() != 17 {
			t.Errorf("got %v > %v class %#x hops %d, want %+v", g.Src(), g.Dst(), g.TrafficClass(), g.HopLimit(), path)
		}
		var net [Room]byte
		n := path.Put(&net, 100) - udpLen
		if want := append(make([]byte, GRHLen-n), net[:n]...); !bytes.Equal(g[:], want) {
			t.Errorf("got %x, want %x", g[:], want)
		}
		if got, want := g.Is4(), ends[0].Addr().Is4(); got != want {
			t.Errorf("got IPv4 %v, want %v", got, want)
		}
	}
}
