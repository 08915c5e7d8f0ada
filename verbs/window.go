package verbs

import (
	"sync"

	"github.com/gantry-rdma/gantry/internal/nic"
	"github.com/gantry-rdma/gantry/internal/qp"
)

// An MWType is how a memory window is bound. The numbers are those of
// libibverbs.
type MWType uint8

// The types of memory windows.
const (
	// MWType1 is bound with [MW.Bind], as often as wanted, and counts for all
	// queue pairs of its domain.
	MWType1 MWType = 1
	// MWType2 is bound with WRBindMW, counts for the queue pair that bound it
	// alone (2B of the specification), and has to be invalidated before it is
	// bound again: by WRLocalInv of that queue pair, or by its peer's
	// WRSendWithInv.
	MWType2 MWType = 2
)

// An MW is a memory window: a key that lets peers into a part of a region, given
// and taken by work requests, in the order of the send queue and without the cost
// of a registration. A window is for peers alone; scatter entries name regions.
type MW struct {
	pd  *PD
	typ MWType
	n   *nic.MW

	mu   sync.Mutex // of type 1: orders binds
	rkey uint32     // of type 1: the one that was posted last
}

// AllocMW allocates a window, which is not bound yet.
func (p *PD) AllocMW(t MWType) (*MW, error) {
	n, err := p.n.NewMW(nic.WindowType(t))
	if err != nil {
		return nil, numbered(err)
	}
	return &MW{pd: p, typ: t, n: n, rkey: n.Key()}, nil
}

// RKey returns the key of the window: of type 1 the one that the last Bind gives
// it, of type 2 the one that it has.
func (w *MW) RKey() uint32 {
	if w.typ == MWType1 {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.rkey
	}
	return w.n.Key()
}

// Type returns the type of the window.
func (w *MW) Type() MWType { return w.typ }

// PD returns the protection domain.
func (w *MW) PD() *PD { return w.pd }

// Dealloc gives the window up, bound or not. When it returns nil, no packet
// refers to the memory through it. EBUSY: a peer has not taken all packets; call
// Dealloc again.
func (w *MW) Dealloc() error { return numbered(w.n.Dealloc()) }

// IncRKey returns the key that follows: same window, next of 256 generations.
// A window of type 2 is bound with a new key each time, so that the old one
// opens nothing.
func IncRKey(rkey uint32) uint32 { return rkey&^0xff | (rkey+1)&0xff }

// accessWindow is what the binding of a window may ask for.
const accessWindow = accessRemote | accessFlush | AccessZeroBased

// A BindMW is what WRBindMW asks for.
type BindMW struct {
	MW   *MW    // of type 2
	RKey uint32 // that it gets: see IncRKey
	MR   *MR    // with AccessMWBind
	Addr uint64 // of the first byte, in the addresses of the region
	Len  uint64 // bytes, all within the region

	// Access are the rights of peers: they need not be rights to the region,
	// which must be writable locally for those to write. With AccessZeroBased
	// the addresses of the window begin at 0, else at Addr.
	Access Access

	first bool // it is of type 1, and this is from Bind
}

// An MWBind is what [MW.Bind] asks for.
type MWBind struct {
	ID     uint64    // comes back in the completion
	Flags  SendFlags // Signaled, Fence
	MR     *MR       // with AccessMWBind; may be nil if Len is 0
	Addr   uint64    // of the first byte
	Len    uint64    // bytes; 0 takes the window back
	Access Access    // of peers; not AccessZeroBased
}

// Bind posts a request to q that binds a window of type 1. The window has its
// new RKey at once, and peers may use it when the request has completed. EINVAL:
// the window is of type 2, or the request is one that cannot be posted. ENOMEM:
// the send queue is full. A bind that is not allowed completes with WCMWBindErr.
func (w *MW) Bind(q *QP, b MWBind) error {
	if w.typ != MWType1 || b.Access&AccessZeroBased != 0 || b.MR == nil && b.Len > 0 {
		return EINVAL
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	next := IncRKey(w.rkey)
	bind := BindMW{MW: w, RKey: next, MR: b.MR, Addr: b.Addr, Len: b.Len, Access: b.Access, first: true}
	if _, err := q.PostSend(SendWR{ID: b.ID, Opcode: WRBindMW, Flags: b.Flags, BindMW: &bind}); err != nil {
		return err
	}
	w.rkey = next
	return nil
}

// bindable reports whether a request to bind makes sense as far as can be told
// before its turn.
func (b *BindMW) bindable() bool {
	return b != nil && b.MW != nil && b.first == (b.MW.typ == MWType1) && (b.MR != nil || b.first) && b.Access&^accessWindow == 0
}

// binding writes a request to bind as the transport has it.
func (b *BindMW) binding(to *qp.Binding) {
	var lkey uint32
	if b.MR != nil {
		lkey = b.MR.LKey()
	}
	*to = qp.Binding{Window: b.MW.n.Key(), Key: b.RKey, LKey: lkey, Access: qp.Access(b.Access), Addr: b.Addr, Len: b.Len}
}
