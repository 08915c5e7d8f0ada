package roce

import (
	"encoding/binary"
	"net/netip"
)

// A Path says what the IP and UDP headers of a packet hold. It is for those who
// write whole IP packets: captures, raw sockets, and the room that a receive
// buffer of UD has for a [GRH].
type Path struct {
	// Src and Dst are the two ends. An IPv4 address may be mapped into IPv6.
	Src, Dst netip.AddrPort
	// TrafficClass has DSCP and ECN; IPv4 calls it type of service.
	TrafficClass uint8
	// HopLimit is what IPv4 calls time to live.
	HopLimit uint8
	// Ident is for IPv4 alone.
	Ident Ident
}

// Room is the size of the array that [Path.Put] writes into: the longer of the
// IP headers and that of UDP.
const Room = ipv6Len + udpLen

// Put writes IP and UDP header for a UDP payload of n bytes at the start of b,
// and returns their length: 28 or 48. It returns 0 if the two ends are not of
// one family or n is too large for a datagram.
//
// IPv4 gets its header checksum. The UDP checksum is 0, none, as the kernel's
// driver sends it over IPv6 too: receivers of RoCEv2 do not look at it.
func (p *Path) Put(b *[Room]byte, n int) int {
	head := p.putIP(b[:ipv6Len], udpLen+n)
	if head == 0 {
		return 0
	}
	u := b[head : head+udpLen]
	binary.BigEndian.PutUint16(u[0:], p.Src.Port())
	binary.BigEndian.PutUint16(u[2:], p.Dst.Port())
	binary.BigEndian.PutUint16(u[4:], uint16(udpLen+n))
	binary.BigEndian.PutUint16(u[6:], 0)
	return head + udpLen
}

// PutGRH writes what a UD receive buffer begins with, for a packet whose UDP
// payload had n bytes: the IPv6 header, or 20 zero bytes and the IPv4 header.
// It reports whether it could; see [Path.Put].
func (p *Path) PutGRH(g *GRH, n int) bool {
	if p.putIP(g[:], udpLen+n) == ipv4Len {
		copy(g[ipv4Len:], g[:ipv4Len])
		clear(g[:ipv4Len])
		return true
	}
	return g[0] != 0
}

// putIP writes the IP header for n bytes behind it, and returns its length or 0.
func (p *Path) putIP(b []byte, n int) int {
	_ = b[ipv6Len-1]
	src, dst := p.Src.Addr().Unmap(), p.Dst.Addr().Unmap()
	clear(b)
	switch {
	case n < udpLen:
	case src.Is4() && dst.Is4() && ipv4Len+n <= 0xffff:
		b[0], b[1] = 0x45, p.TrafficClass
		binary.BigEndian.PutUint16(b[2:], uint16(ipv4Len+n))
		binary.BigEndian.PutUint16(b[4:], p.Ident.ID)
		binary.BigEndian.PutUint16(b[6:], p.Ident.flags())
		b[8], b[9] = p.HopLimit, protocolUDP
		from, to := src.As4(), dst.As4()
		copy(b[12:], from[:])
		copy(b[16:], to[:])
		binary.BigEndian.PutUint16(b[10:], checksum(b[:ipv4Len]))
		return ipv4Len
	case src.Is6() && dst.Is6() && n <= 0xffff:
		binary.BigEndian.PutUint32(b[0:], 6<<28|uint32(p.TrafficClass)<<20)
		binary.BigEndian.PutUint16(b[4:], uint16(n))
		b[6], b[7] = protocolUDP, p.HopLimit
		from, to := src.As16(), dst.As16()
		copy(b[8:], from[:])
		copy(b[24:], to[:])
		return ipv6Len
	}
	return 0
}

// checksum returns the Internet checksum of an even number of bytes.
func checksum(b []byte) uint16 {
	var sum uint32
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	sum = sum>>16 + sum&0xffff
	return ^uint16(sum>>16 + sum)
}

// A GRH is the 40 bytes before the payload in a UD receive buffer, as RoCEv2
// fills them. They count in the length of the completion.
//
//	IPv6: |             IPv6 header, 40 bytes             |
//	IPv4: |    20 zero bytes     |  IPv4 header, 20 bytes |
type GRH [GRHLen]byte

// Is4 reports whether the packet came over IPv4.
func (g *GRH) Is4() bool { return g[0]>>4 != 6 }

// Src returns the sender's address.
func (g *GRH) Src() netip.Addr {
	if g.Is4() {
		return netip.AddrFrom4([4]byte(g[32:]))
	}
	return netip.AddrFrom16([16]byte(g[8:]))
}

// Dst returns the address that the packet was sent to, which may be that of a
// multicast group.
func (g *GRH) Dst() netip.Addr {
	if g.Is4() {
		return netip.AddrFrom4([4]byte(g[36:]))
	}
	return netip.AddrFrom16([16]byte(g[24:]))
}

// TrafficClass returns the traffic class or type of service.
func (g *GRH) TrafficClass() uint8 {
	if g.Is4() {
		return g[21]
	}
	return uint8(binary.BigEndian.Uint16(g[:]) >> 4)
}

// HopLimit returns the hop limit or time to live.
func (g *GRH) HopLimit() uint8 {
	if g.Is4() {
		return g[28]
	}
	return g[7]
}
