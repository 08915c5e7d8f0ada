package roce

import "encoding/binary"

// A RETH is the RDMA extended transport header: the remote memory of a WRITE,
// a READ, an ATOMIC WRITE or a FLUSH.
//
//	 0                               4                              8
//	+-------------------------------+-------------------------------+
//	| virtual address                                               |
//	+-------------------------------+-------------------------------+
//	| R_Key                         | DMA length                    |
//	+-------------------------------+-------------------------------+
type RETH [RETHLen]byte

// VA returns the remote virtual address.
func (h *RETH) VA() uint64 { return binary.BigEndian.Uint64(h[0:]) }

// RKey returns the key of the remote memory.
func (h *RETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// DMALen returns the length of the whole message, in bytes.
func (h *RETH) DMALen() uint32 { return binary.BigEndian.Uint32(h[12:]) }

// Set sets all three fields.
func (h *RETH) Set(va uint64, rkey, dmaLen uint32) {
	binary.BigEndian.PutUint64(h[0:], va)
	binary.BigEndian.PutUint32(h[8:], rkey)
	binary.BigEndian.PutUint32(h[12:], dmaLen)
}

// An AtomicETH is the atomic extended transport header, of COMPARE SWAP and
// FETCH ADD. Operands are big-endian on the wire and numbers here.
//
//	 0                               4                              8
//	+-------------------------------+-------------------------------+
//	| virtual address                                               |
//	+-------------------------------+-------------------------------+
//	| R_Key                         | swap or add, high half        |
//	+-------------------------------+-------------------------------+
//	| swap or add, low half         | compare, high half            |
//	+-------------------------------+-------------------------------+
//	| compare, low half             |
//	+-------------------------------+
type AtomicETH [AtomicETHLen]byte

// VA returns the remote virtual address.
func (h *AtomicETH) VA() uint64 { return binary.BigEndian.Uint64(h[0:]) }

// RKey returns the key of the remote memory.
func (h *AtomicETH) RKey() uint32 { return binary.BigEndian.Uint32(h[8:]) }

// SwapAdd returns what is to be stored (COMPARE SWAP) or added (FETCH ADD).
func (h *AtomicETH) SwapAdd() uint64 { return binary.BigEndian.Uint64(h[12:]) }

// Compare returns what the memory must hold for COMPARE SWAP to store.
func (h *AtomicETH) Compare() uint64 { return binary.BigEndian.Uint64(h[20:]) }

// Set sets all four fields.
func (h *AtomicETH) Set(va uint64, rkey uint32, swapAdd, compare uint64) {
	binary.BigEndian.PutUint64(h[0:], va)
	binary.BigEndian.PutUint32(h[8:], rkey)
	binary.BigEndian.PutUint64(h[12:], swapAdd)
	binary.BigEndian.PutUint64(h[20:], compare)
}

// An AETH is the acknowledge extended transport header, of every response but
// READ RESPONSE MIDDLE.
//
//	 0             1             2             3            4
//	+-------------+-------------+-------------+-------------+
//	| syndrome    | MSN                                     |
//	+-------------+-------------+-------------+-------------+
type AETH [AETHLen]byte

// Syndrome returns what the responder says.
func (h *AETH) Syndrome() Syndrome { return Syndrome(h[0]) }

// MSN returns the responder's count of completed request messages, 24 bits.
func (h *AETH) MSN() uint32 { return uint24(h[1:4]) }

// Set sets the syndrome, and the MSN to the low 24 bits of msn.
func (h *AETH) Set(s Syndrome, msn uint32) {
	h[0] = byte(s)
	putUint24(h[1:4], msn)
}

// An AtomicAckETH holds what the memory held before an atomic operation: 64
// bits, big-endian.
type AtomicAckETH [AtomicAckETHLen]byte

// Original returns the value from before.
func (h *AtomicAckETH) Original() uint64 { return binary.BigEndian.Uint64(h[:]) }

// SetOriginal sets the value from before.
func (h *AtomicAckETH) SetOriginal(v uint64) { binary.BigEndian.PutUint64(h[:], v) }

// A DETH is the datagram extended transport header, of UD.
//
//	 0             1             2             3            4
//	+-------------+-------------+-------------+-------------+
//	| Q_Key                                                 |
//	+-------------+-------------+-------------+-------------+
//	| reserved    | source QP                               |
//	+-------------+-------------+-------------+-------------+
type DETH [DETHLen]byte

// QKey returns the queue key, which must be that of the receiving queue pair.
func (h *DETH) QKey() uint32 { return binary.BigEndian.Uint32(h[0:]) }

// SrcQP returns the number of the queue pair that sent the packet, 24 bits.
func (h *DETH) SrcQP() uint32 { return uint24(h[5:8]) }

// Set sets the queue key, and the source queue pair to the low 24 bits of qpn.
func (h *DETH) Set(qkey, qpn uint32) {
	binary.BigEndian.PutUint32(h[0:], qkey)
	binary.BigEndian.PutUint32(h[4:], qpn&psnMask)
}

// An ImmDt holds immediate data: 32 bits that mean nothing to the transport,
// big-endian.
type ImmDt [ImmDtLen]byte

// Value returns the data as a number.
func (h *ImmDt) Value() uint32 { return binary.BigEndian.Uint32(h[:]) }

// SetValue sets the data.
func (h *ImmDt) SetValue(v uint32) { binary.BigEndian.PutUint32(h[:], v) }

// An IETH is the invalidate extended transport header: 32 bits of key.
type IETH [IETHLen]byte

// RKey returns the key that the receiver shall invalidate.
func (h *IETH) RKey() uint32 { return binary.BigEndian.Uint32(h[:]) }

// SetRKey sets the key that the receiver shall invalidate.
func (h *IETH) SetRKey(k uint32) { binary.BigEndian.PutUint32(h[:], k) }

// A FETH is the flush extended transport header. In a FLUSH it stands before
// the RETH.
//
//	 0             1             2             3            4
//	+-------------+-------------+-------------+---+---------+
//	| reserved                                | L | place   |
//	+-------------+-------------+-------------+---+---------+
//
// L, selectivity level: bits 5 and 4 of the last byte; placement: bits 3 to 0.
type FETH [FETHLen]byte

// A Placement says how far a FLUSH reaches; the bits may be combined.
type Placement uint8

// The placements of FLUSH.
const (
	PlaceGlobal     Placement = 1 << iota // visible to all
	PlacePersistent                       // safe from a loss of power
)

// A FlushLevel says what of the memory a FLUSH covers.
type FlushLevel uint8

// The selectivity levels of FLUSH.
const (
	FlushRange  FlushLevel = iota // what the RETH names
	FlushRegion                   // the whole memory region
)

// Placement returns how far the FLUSH reaches.
func (h *FETH) Placement() Placement { return Placement(h[3] & 15) }

// Level returns what the FLUSH covers.
func (h *FETH) Level() FlushLevel { return FlushLevel(h[3] >> 4 & 3) }

// Set sets both fields.
func (h *FETH) Set(p Placement, l FlushLevel) { *h = FETH{3: byte(p&15) | byte(l&3)<<4} }
