package verbs

import (
	"net/netip"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// An AHAttr says where datagrams go.
type AHAttr struct {
	// DGID is the GID of the peer, or the MGID of a multicast group: ff…, or
	// ::ffff:224.0.0.0 to ::ffff:239.255.255.255 for IPv4. See GIDOf.
	DGID         GID
	SGIDIndex    int   // always 0
	HopLimit     uint8 // 0: what the system has for such packets
	TrafficClass uint8 // DSCP and ECN; IPv4 calls it type of service
	Port         int   // always 1
}

// AHTo returns the attributes of an address handle for a peer's address, or for
// a multicast group's.
func AHTo(a netip.Addr) AHAttr { return AHAttr{DGID: GIDOf(a), Port: 1} }

// An AH is an address handle: it says where a datagram goes. Work requests name
// one, and have done with it once they are posted.
type AH struct {
	pd   *PD
	attr AHAttr
	to   frame.Addr
	dead atomic.Bool
}

// CreateAH makes an address handle for the queue pairs of p.
func (p *PD) CreateAH(a AHAttr) (*AH, error) {
	to := a.DGID.Addr()
	switch {
	case a.SGIDIndex != 0:
		return nil, invalid("GID index %d, want 0", a.SGIDIndex)
	case a.Port != 1:
		return nil, invalid("port %d, want 1", a.Port)
	case to.Is4() != p.d.addr.Is4():
		return nil, invalid("peer %v from %v: not of one address family", to, p.d.addr)
	case to.IsUnspecified():
		return nil, invalid("peer without an address")
	}
	p.n.Hold()
	return &AH{pd: p, attr: a, to: frame.Addr{IP: a.DGID, Port: roce.Port}}, nil
}

// Attr returns what the handle was made with.
func (a *AH) Attr() AHAttr { return a.attr }

// PD returns the protection domain.
func (a *AH) PD() *PD { return a.pd }

// Destroy gives the handle up. Work requests that were posted do not need it.
func (a *AH) Destroy() error {
	if a.dead.Swap(true) {
		return invalid("address handle is destroyed")
	}
	a.pd.n.Release()
	return nil
}

// InitAHFromWC returns the attributes of an address handle that leads back to
// where a datagram came from: wc is its completion, grh the first 40 bytes of
// its receive. The sender's queue pair is wc.SrcQP.
func (d *Device) InitAHFromWC(port int, wc *WC, grh *roce.GRH) (AHAttr, error) {
	switch {
	case port != 1:
		return AHAttr{}, invalid("port %d, want 1", port)
	case wc.Status != WCSuccess || wc.Flags&WCGRH == 0:
		return AHAttr{}, invalid("completion without a GRH")
	case grh.Is4() != d.addr.Is4():
		return AHAttr{}, invalid("GRH of another address family")
	}
	return AHAttr{
		DGID: GIDOf(grh.Src()), HopLimit: 0xff, TrafficClass: grh.TrafficClass(), Port: port,
	}, nil
}

// CreateAHFromWC makes the address handle of [Device.InitAHFromWC].
func (p *PD) CreateAHFromWC(port int, wc *WC, grh *roce.GRH) (*AH, error) {
	a, err := p.d.InitAHFromWC(port, wc, grh)
	if err != nil {
		return nil, err
	}
	return p.CreateAH(a)
}
