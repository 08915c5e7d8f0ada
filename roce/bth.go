package roce

import "encoding/binary"

// A BTH is the base transport header, the first of every packet.
//
//	 0                   1                   2                   3
//	 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//	+---------------+-+-+---+-------+-------------------------------+
//	| opcode        |S|M|pad|version| P_Key                         |
//	+-+-+-----------+-+-+---+-------+-------------------------------+
//	|F|B| reserved  | destination QP                                |
//	+-+-+-----------+-----------------------------------------------+
//	|A| reserved    | PSN                                           |
//	+-+-------------+-----------------------------------------------+
//
// S: solicited event, M: migration request, F and B: forward and backward
// congestion, A: acknowledge request. The ICRC does not cover byte 4.
type BTH [BTHLen]byte

// DefaultPKey is the partition key of the default partition, full member.
const DefaultPKey = 0xffff

// Opcode returns what the packet is.
func (h *BTH) Opcode() Opcode { return Opcode(h[0]) }

// SetOpcode sets the opcode. It does not move the headers behind it.
func (h *BTH) SetOpcode(o Opcode) { h[0] = byte(o) }

// Solicited reports whether the receiver's completion shall raise an event.
func (h *BTH) Solicited() bool { return h[1]&0x80 != 0 }

// SetSolicited sets the solicited event bit.
func (h *BTH) SetSolicited(on bool) { setBit(&h[1], 0x80, on) }

// MigReq returns the migration request bit. Hardware sets it, the kernel's
// driver does not; either is to be accepted.
func (h *BTH) MigReq() bool { return h[1]&0x40 != 0 }

// SetMigReq sets the migration request bit.
func (h *BTH) SetMigReq(on bool) { setBit(&h[1], 0x40, on) }

// Pad returns how many pad bytes stand between payload and ICRC: 0 to 3.
func (h *BTH) Pad() int { return int(h[1] >> 4 & 3) }

// SetPad sets the pad count to n modulo 4; see [PadFor].
func (h *BTH) SetPad(n int) { h[1] = h[1]&^0x30 | byte(n&3)<<4 }

// Version returns the header version, which is 0.
func (h *BTH) Version() int { return int(h[1] & 15) }

// PKey returns the partition key.
func (h *BTH) PKey() uint16 { return binary.BigEndian.Uint16(h[2:]) }

// SetPKey sets the partition key.
func (h *BTH) SetPKey(k uint16) { binary.BigEndian.PutUint16(h[2:], k) }

// FECN returns the forward explicit congestion notification bit.
func (h *BTH) FECN() bool { return h[4]&0x80 != 0 }

// SetFECN sets the forward explicit congestion notification bit.
func (h *BTH) SetFECN(on bool) { setBit(&h[4], 0x80, on) }

// BECN returns the backward explicit congestion notification bit.
func (h *BTH) BECN() bool { return h[4]&0x40 != 0 }

// SetBECN sets the backward explicit congestion notification bit.
func (h *BTH) SetBECN(on bool) { setBit(&h[4], 0x40, on) }

// DestQP returns the number of the queue pair that the packet is for, 24 bits.
func (h *BTH) DestQP() uint32 { return uint24(h[5:8]) }

// SetDestQP sets the destination queue pair to the low 24 bits of qpn.
func (h *BTH) SetDestQP(qpn uint32) { putUint24(h[5:8], qpn) }

// AckReq reports whether the sender asks for an acknowledgement.
func (h *BTH) AckReq() bool { return h[8]&0x80 != 0 }

// SetAckReq sets the acknowledge request bit.
func (h *BTH) SetAckReq(on bool) { setBit(&h[8], 0x80, on) }

// PSN returns the packet sequence number.
func (h *BTH) PSN() PSN { return PSN(uint24(h[9:12])) }

// SetPSN sets the packet sequence number.
func (h *BTH) SetPSN(p PSN) { putUint24(h[9:12], uint32(p)) }

// PadFor returns how many pad bytes follow a payload of n bytes.
func PadFor(n int) int { return -n & 3 }

func setBit(b *byte, bit byte, on bool) {
	*b &^= bit
	if on {
		*b |= bit
	}
}

func uint24(b []byte) uint32 {
	_ = b[2]
	return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2])
}

func putUint24(b []byte, v uint32) {
	_ = b[2]
	b[0], b[1], b[2] = byte(v>>16), byte(v>>8), byte(v)
}
