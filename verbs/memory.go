package verbs

import (
	"github.com/gantry-rdma/gantry/internal/nic"
	"github.com/gantry-rdma/gantry/internal/qp"
)

// Access says what may be done to memory. The numbers are those of libibverbs.
type Access uint32

// The rights.
const (
	AccessLocalWrite   Access = 1 << 0 // receives, READs and atomics may put their data there
	AccessRemoteWrite  Access = 1 << 1 // also for ATOMIC_WRITE
	AccessRemoteRead   Access = 1 << 2
	AccessRemoteAtomic Access = 1 << 3
	AccessMWBind       Access = 1 << 4 // memory windows may be bound to the region

	// AccessZeroBased is no right: the addresses of the region begin at 0.
	AccessZeroBased Access = 1 << 5

	// Peers may ask with FLUSH that what they wrote be visible to all, or be
	// still there after a loss of power. The second is for shared mappings of
	// files that are not in memory themselves; answering it waits for the disk,
	// and whoever runs the queue pair with it.
	AccessFlushGlobal     Access = 1 << 8
	AccessFlushPersistent Access = 1 << 9

	// AccessRelaxedOrdering allows what a device like this has no use for. It
	// is the first of those bits that libibverbs lets a device ignore.
	AccessRelaxedOrdering Access = 1 << 20
)

const (
	accessRemote   = AccessRemoteWrite | AccessRemoteRead | AccessRemoteAtomic
	accessFlush    = AccessFlushGlobal | AccessFlushPersistent
	accessQP       = AccessLocalWrite | accessRemote | accessFlush
	accessRegion   = accessQP | AccessMWBind | AccessZeroBased
	accessOptional = 0x3ff << 20
)

// ofRegion returns the rights as the device knows them.
func (a Access) ofRegion() (qp.Access, error) {
	if a&^(accessRegion|accessOptional) != 0 {
		return 0, invalid("register with access %#x", uint32(a))
	}
	return qp.Access(a & accessRegion), nil
}

// A PD is a protection domain: a queue pair reaches memory of its own domain
// only.
type PD struct {
	d *Device
	n *nic.PD
}

// AllocPD allocates a protection domain.
func (d *Device) AllocPD() *PD { return &PD{d: d, n: d.n.NewPD()} }

// Device returns the device of the domain.
func (p *PD) Device() *Device { return p.d }

// Dealloc gives the domain up. EBUSY: it has memory regions or windows, queue
// pairs, shared receive queues or address handles.
func (p *PD) Dealloc() error { return numbered(p.n.Free()) }

// An MR is a registered memory region.
type MR struct {
	d *Device
	n *nic.MR
}

// RegMR registers b. Peers get at it with its RKey and the rights in access;
// remote write and remote atomic need local write. The memory stays the
// program's own, and has to stay where it is: Go's does.
func (p *PD) RegMR(b []byte, access Access) (*MR, error) {
	a, err := access.ofRegion()
	if err != nil {
		return nil, err
	}
	n, err := p.n.Register(b, a)
	if err != nil {
		return nil, numbered(err)
	}
	return &MR{d: p.d, n: n}, nil
}

// LKey returns the key for the scatter entries of work requests.
func (m *MR) LKey() uint32 { return m.n.Key() }

// RKey returns the key for peers. It is the same number as LKey.
func (m *MR) RKey() uint32 { return m.n.Key() }

// Addr returns the address of the first byte, as scatter entries and peers
// name it.
func (m *MR) Addr() uint64 { return m.n.Addr() }

// Len returns the length in bytes.
func (m *MR) Len() int { return len(m.n.Bytes()) }

// Bytes returns the memory.
func (m *MR) Bytes() []byte { return m.n.Bytes() }

// SGE returns a scatter entry for n bytes at offset off. It checks nothing: a
// work request with a wrong one fails.
func (m *MR) SGE(off, n int) SGE {
	return SGE{Addr: m.n.Addr() + uint64(off), Len: uint32(n), LKey: m.n.Key()}
}

// Rereg says what Rereg changes.
type Rereg struct {
	PD     *PD     // nil: stays
	Mem    []byte  // nil: stays
	Access *Access // nil: stays
}

// Rereg changes a region. Its key changes with it: the old key opens nothing
// any more, and neither did an invalidated one. EBUSY: it is changed, but a
// peer has not taken all packets into the old memory, which must stay; or a
// memory window is bound to it, and nothing is changed.
func (m *MR) Rereg(c Rereg) error {
	var n nic.Change
	if c.Access != nil {
		a, err := c.Access.ofRegion()
		if err != nil {
			return err
		}
		n.Access = &a
	}
	if c.PD != nil {
		if c.PD.d != m.d {
			return invalid("protection domain of another device")
		}
		n.PD = c.PD.n
	}
	n.Mem = c.Mem
	return numbered(m.n.Reregister(n))
}

// Dereg makes the key invalid. When it returns nil, no packet refers to the
// memory. EBUSY: a peer has not taken all packets, so the memory must stay, or a
// memory window is bound to it; call Dereg again.
func (m *MR) Dereg() error { return numbered(m.n.Deregister()) }
