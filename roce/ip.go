package roce

import (
	"encoding/binary"
	"net/netip"
)

// A Datagram is a whole IP packet with a UDP datagram in it, from the IP header
// to the ICRC, as captures and raw sockets have it. It is a view, valid as long
// as the bytes are.
type Datagram struct {
	b    []byte // from the IP header to the end of the UDP datagram
	head int    // length of the IP header
}

// ParseIP checks that b begins with an IPv4 or IPv6 header, that a UDP header
// follows at once, and that their lengths agree and lie within b. Bytes behind
// the packet, such as Ethernet padding, are ignored. IPv4 options are allowed;
// fragments and IPv6 extension headers are not ok.
//
// It looks at no port, and the UDP payload may be anything: see [Parse].
func ParseIP(b []byte) (d Datagram, ok bool) {
	if len(b) < ipv4Len {
		return Datagram{}, false
	}
	var head, total int
	var protocol byte
	switch b[0] >> 4 {
	case 4:
		head, total, protocol = int(b[0]&15)*4, int(binary.BigEndian.Uint16(b[2:])), b[9]
		if head < ipv4Len || binary.BigEndian.Uint16(b[6:])&^flagDF != 0 {
			return Datagram{}, false
		}
	case 6:
		head, total, protocol = ipv6Len, ipv6Len+int(binary.BigEndian.Uint16(b[4:])), b[6]
	default:
		return Datagram{}, false
	}
	if protocol != protocolUDP || total < head+udpLen || len(b) < total {
		return Datagram{}, false
	}
	if int(binary.BigEndian.Uint16(b[head+4:])) != total-head {
		return Datagram{}, false
	}
	return Datagram{b[:total:total], head}, true
}

// Payload returns the UDP payload: from BTH to ICRC.
func (d Datagram) Payload() []byte { return d.b[d.head+udpLen:] }

// Src returns the source address and port.
func (d Datagram) Src() netip.AddrPort {
	return netip.AddrPortFrom(d.addr(0), binary.BigEndian.Uint16(d.b[d.head:]))
}

// Dst returns the destination address and port.
func (d Datagram) Dst() netip.AddrPort {
	return netip.AddrPortFrom(d.addr(1), binary.BigEndian.Uint16(d.b[d.head+2:]))
}

// addr returns address n: 0 is the source, 1 the destination.
func (d Datagram) addr(n int) netip.Addr {
	if d.v6() {
		return netip.AddrFrom16([16]byte(d.b[8+16*n:]))
	}
	return netip.AddrFrom4([4]byte(d.b[12+4*n:]))
}

// Ident returns what the ICRC covers of an IPv4 header and sockets do not show.
// For IPv6 it is zero.
func (d Datagram) Ident() Ident {
	if d.v6() {
		return Ident{}
	}
	return Ident{ID: binary.BigEndian.Uint16(d.b[4:]), DF: binary.BigEndian.Uint16(d.b[6:])&flagDF != 0}
}

// TrafficClass returns the IPv6 traffic class, or the byte that IPv4 calls type
// of service: DSCP, and ECN in the low two bits.
func (d Datagram) TrafficClass() uint8 {
	if d.v6() {
		return uint8(binary.BigEndian.Uint16(d.b) >> 4)
	}
	return d.b[1]
}

// HopLimit returns the hop limit, which IPv4 calls time to live.
func (d Datagram) HopLimit() uint8 {
	if d.v6() {
		return d.b[7]
	}
	return d.b[8]
}

// ICRC returns the ICRC that the packet should carry, computed over all that
// comes before it. It is not ok for a UDP payload that has no room for a BTH
// and an ICRC.
//
// It takes the bytes as they are, IPv4 options and BTH reserved bits included,
// and is independent of the tables that a Flow uses.
func (d Datagram) ICRC() (sum uint32, ok bool) {
	payload := d.Payload()
	if len(payload) < BTHLen+ICRCLen {
		return 0, false
	}
	r := crcWords(^uint32(0), ones[:])
	if d.v6() {
		r = crcWord(r, binary.LittleEndian.Uint32(d.b)|0xffffff0f)
		r = crcWord(r, binary.LittleEndian.Uint32(d.b[4:])|0xff000000)
		r = crcWords(r, d.b[8:d.head])
	} else {
		r = crcWord(r, binary.LittleEndian.Uint32(d.b)|0x0000ff00)
		r = crcWord(r, binary.LittleEndian.Uint32(d.b[4:]))
		r = crcWord(r, binary.LittleEndian.Uint32(d.b[8:])|0xffff00ff)
		r = crcWords(r, d.b[12:d.head])
	}
	r = crcWord(r, binary.LittleEndian.Uint32(d.b[d.head:]))
	r = crcWord(r, binary.LittleEndian.Uint32(d.b[d.head+4:])|0xffff0000)
	r = crcHeaders(r, payload[:BTHLen])
	return uint32(ICRC(^r).Add(payload[BTHLen : len(payload)-ICRCLen])), true
}

// Valid reports whether the packet carries the right ICRC.
func (d Datagram) Valid() bool {
	sum, ok := d.ICRC()
	return ok && sum == binary.LittleEndian.Uint32(d.b[len(d.b)-ICRCLen:])
}

func (d Datagram) v6() bool { return d.b[0]>>4 == 6 }
