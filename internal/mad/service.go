package mad

import (
	"encoding/binary"
	"net/netip"
	"strconv"
)

// A ServiceID names what a REQ wants to be connected with. RDMA-CM makes it of
// a port space and a port.
type ServiceID uint64

// A PortSpace is what the ports of RDMA-CM are counted in.
type PortSpace uint16

// The port spaces of RDMA-CM.
const (
	SpaceIPoIB PortSpace = 0x0002
	SpaceTCP   PortSpace = 0x0106 // connections
	SpaceUDP   PortSpace = 0x0111 // datagrams
	SpaceIB    PortSpace = 0x013f
)

// Service returns the service of a port.
func Service(s PortSpace, port uint16) ServiceID { return ServiceID(s)<<16 | ServiceID(port) }

// Port returns space and port. It is not ok for a service of another kind.
func (s ServiceID) Port() (space PortSpace, port uint16, ok bool) {
	return PortSpace(s >> 16), uint16(s), s>>32 == 0
}

// String returns TCP:7174, or the number in hexadecimal.
func (s ServiceID) String() string {
	space, port, ok := s.Port()
	names := map[PortSpace]string{SpaceIPoIB: "IPOIB", SpaceTCP: "TCP", SpaceUDP: "UDP", SpaceIB: "IB"}
	if name := names[space]; ok && name != "" {
		return name + ":" + strconv.Itoa(int(port))
	}
	return "0x" + strconv.FormatUint(uint64(s), 16)
}

// CMALen is the length of what RDMA-CM puts first into the private data of a
// REQ and a SIDR_REQ.
const CMALen = 36

// A CMA is the header of RDMA-CM: the addresses and the port of the sender. The
// port of the receiver is in the service.
//
//	 0               1               2               4
//	+---------------+-------+-------+-------------------------------+
//	| version       | IP    | 0     | source port                   |
//	+---------------+-------+-------+-------------------------------+
//	| source address, 16 bytes; IPv4: 12 zero bytes, then 4         |
//	+---------------------------------------------------------------+
//	| destination address, likewise                                 |
//	+---------------------------------------------------------------+
type CMA [CMALen]byte

// ParseCMA checks that private data begins with the header, and splits it from
// the rest. It is not ok for another version or another family of addresses.
func ParseCMA(private []byte) (c *CMA, rest []byte, ok bool) {
	if len(private) < CMALen || private[0] != 0 || private[1]>>4 != 4 && private[1]>>4 != 6 {
		return nil, nil, false
	}
	return (*CMA)(private[:CMALen:CMALen]), private[CMALen:], true
}

// Set fills in the header. Both addresses are of one family.
func (c *CMA) Set(src netip.AddrPort, dst netip.Addr) {
	*c = CMA{1: 0x60}
	binary.BigEndian.PutUint16(c[2:], src.Port())
	from, to := src.Addr().Unmap(), dst.Unmap()
	if from.Is4() {
		c[1] = 0x40
	}
	putAddr(c[4:20], from)
	putAddr(c[20:36], to)
}

// Src returns the sender's address and port.
func (c *CMA) Src() netip.AddrPort {
	return netip.AddrPortFrom(c.addr(c[4:20]), binary.BigEndian.Uint16(c[2:]))
}

// Dst returns the address that the sender wants to be connected with.
func (c *CMA) Dst() netip.Addr { return c.addr(c[20:36]) }

func (c *CMA) addr(b []byte) netip.Addr {
	if c[1]>>4 == 4 {
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return netip.AddrFrom16([16]byte(b)).Unmap()
}

func putAddr(to []byte, a netip.Addr) {
	if a.Is4() {
		b := a.As4()
		copy(to[12:], b[:])
		return
	}
	b := a.As16()
	copy(to, b[:])
}
