package frame

import "net/netip"

// An Addr is an IP address and a UDP port. IPv4 is ::ffff:a.b.c.d. It is
// smaller than a netip.AddrPort, holds no pointer, and has no zone.
type Addr struct {
	IP   [16]byte
	Port uint16
}

// AddrOf returns a as an Addr, without its zone. An invalid address gives the
// unspecified one.
func AddrOf(a netip.AddrPort) Addr {
	if !a.Addr().IsValid() {
		return Addr{Port: a.Port()}
	}
	return Addr{IP: a.Addr().As16(), Port: a.Port()}
}

// AddrPort returns a as a netip.AddrPort; IPv4 is not mapped.
func (a Addr) AddrPort() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom16(a.IP).Unmap(), a.Port)
}

// String returns the address as 192.0.2.1:4791 or [2001:db8::1]:4791.
func (a Addr) String() string { return a.AddrPort().String() }
