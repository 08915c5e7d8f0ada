package device

import (
	"net"
	"net/netip"
	"slices"
)

// A FuncType says what kind of PCI function a device is. The numbers are
// those of DOCA.
type FuncType uint8

// The kinds of function.
const (
	PF FuncType = 0 // physical function
	VF FuncType = 1 // virtual function of a physical one
	SF FuncType = 2 // sub-function of a physical one
)

// String returns "PF", "VF" or "SF".
func (t FuncType) String() string {
	switch t {
	case PF:
		return "PF"
	case VF:
		return "VF"
	case SF:
		return "SF"
	}
	return "unknown function type"
}

// A Feature is a purpose that a device can be fit for.
type Feature uint32

// The features. They are bits, so a set of them is their sum.
const (
	// FeatureDMA is copying between memory maps. Every device has it.
	FeatureDMA Feature = 1 << iota
	// FeatureRDMA needs an interface that is up and has an address.
	FeatureRDMA
	// FeatureComch is the message channel between the two sides of one card:
	// DPU functions and host functions have it.
	FeatureComch
	// FeatureSyncEvent is a value that several sides wait on. Every device has
	// it.
	FeatureSyncEvent
)

// An Info describes a device. It does not change once it was listed, stays
// valid for ever, and may be shared between goroutines; it is a picture of
// the moment, so an address that the interface gets later is not in it.
// Only listing makes one: the zero value is refused wherever one is wanted.
type Info struct {
	pci       Address
	ibdev     string
	iface     string
	mac       [6]byte
	gids      []netip.Addr
	mtu       int
	activeMTU int
	rate      uint64
	features  Feature
	vhca      uint16
	up        bool
	rep       *RepInfo // what a DPU function represents; nil elsewhere
}

// PCI returns the address of the device.
func (i *Info) PCI() Address { return i.pci }

// Equal reports whether addr, in either form of [ParseAddress], is the
// address of the device. Text that is no address is ErrInvalidValue.
func (i *Info) Equal(addr string) (bool, error) {
	a, err := ParseAddress(addr)
	return err == nil && a == i.pci, err
}

// IBDev returns the name that RDMA tools use, such as gantry0: at most 63
// bytes.
func (i *Info) IBDev() string { return i.ibdev }

// Iface returns the name of the network interface, at most 255 bytes, or ""
// for a virtual function, which has none.
func (i *Info) Iface() string { return i.iface }

// Up reports whether the interface was up; a virtual function always is.
func (i *Info) Up() bool { return i.up }

// MAC returns the hardware address: zero where the interface has none, as
// loopback, or has one of another length than six bytes.
func (i *Info) MAC() [6]byte { return i.mac }

// GIDs returns every address of the interface in the order in which the
// operating system gives them, IPv4 in its v4-mapped form: the GID table of
// the port. The index in it is the GID index. The slice is the caller's.
func (i *Info) GIDs() []netip.Addr { return slices.Clone(i.gids) }

// IPv4 returns the first IPv4 address, or the zero Addr if there is none.
func (i *Info) IPv4() netip.Addr {
	for _, g := range i.gids {
		if g.Is4In6() {
			return g.Unmap()
		}
	}
	return netip.Addr{}
}

// IPv6 returns the first IPv6 address, without its zone, or the zero Addr if
// there is none.
func (i *Info) IPv6() netip.Addr {
	for _, g := range i.gids {
		if !g.Is4In6() {
			return g
		}
	}
	return netip.Addr{}
}

// MTU returns the interface's MTU in bytes of IP packet.
func (i *Info) MTU() int { return i.mtu }

// ActiveMTU returns the RoCE MTU in bytes of payload: the largest of 256,
// 512, 1024, 2048 and 4096 that fits into the interface's MTU beside 80 bytes
// of headers. So an Ethernet of 1500 gives 1024, and 4176 or more give 4096.
func (i *Info) ActiveMTU() int { return i.activeMTU }

// ActiveRate returns the speed of the link in bits per second, or 0 where the
// operating system does not tell: loopback and virtual functions.
func (i *Info) ActiveRate() uint64 { return i.rate }

// FuncType returns the kind of function. Software devices are all physical
// functions.
func (i *Info) FuncType() FuncType { return PF }

// SFIndex returns the index of a sub-function; ok is false for other kinds.
func (i *Info) SFIndex() (index uint32, ok bool) { return 0, false }

// VHCA returns a number that tells devices of one machine apart. It is stable
// as long as the device's address is.
func (i *Info) VHCA() uint16 { return i.vhca }

// LID returns the local identifier of the port, which is 0: RoCE has none.
func (i *Info) LID() uint16 { return 0 }

// Supports reports whether the device is fit for everything in f. It needs no
// resource, so it is the question to ask before opening.
func (i *Info) Supports(f Feature) bool { return f != 0 && i.features&f == f }

// OnDPU reports whether this is a DPU function: one that has representors.
func (i *Info) OnDPU() bool { return i.rep != nil }

// roceHeaders is what RoCEv2 practice reserves beside the payload. IP, UDP,
// BTH and the longest extension headers fit; the Linux driver keeps the same
// number, and both ends of a connection should come to the same MTU.
const roceHeaders = 80

// activeMTU returns the RoCE MTU for an interface MTU. The smallest one is
// the answer even for interfaces that cannot carry it in one piece.
func activeMTU(mtu int) int {
	best := 256
	for m := 512; m <= 4096 && m+roceHeaders <= mtu; m *= 2 {
		best = m
	}
	return best
}

// gidsOf makes the GID table of an interface. A zone is local knowledge and
// is no part of the sixteen bytes.
func gidsOf(addrs []net.Addr) []netip.Addr {
	var gids []netip.Addr
	for _, a := range addrs {
		n, ok := a.(*net.IPNet)
		if !ok {
			continue
		}
		if ip, ok := netip.AddrFromSlice(n.IP); ok {
			gids = append(gids, netip.AddrFrom16(ip.As16()))
		}
	}
	return gids
}
