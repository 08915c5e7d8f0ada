// Package pcapng makes the blocks of a capture file of IP packets, with
// nanosecond time stamps and directions, which Wireshark and tcpdump read.
package pcapng

import (
	"encoding/binary"
	"time"
)

// Blocks are the blocks of a file that were not written yet, in the order of
// bytes that it says at the start: little-endian. The owner appends to Buf
// between Begin and End, writes it, and makes it empty again.
//
//	+------+--------+------ … ------+---------+--------+
//	| type | length | body, padded  | options | length |
//	+------+--------+------ … ------+---------+--------+
type Blocks struct{ Buf []byte }

// Types of blocks, and options inside them (draft-ietf-opsawg-pcapng).
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 6

	optionEnd       = 0
	optionComment   = 1
	optionFlags     = 2 // of a packet
	optionName      = 2 // of an interface
	optionTimeUnits = 9 // of an interface

	byteOrder   = 0x1a2b3c4d
	linkTypeRaw = 101 // the packet begins with an IP header
	nanoseconds = 9   // 10^-9 s
)

func (b *Blocks) u16(v uint16) { b.Buf = binary.LittleEndian.AppendUint16(b.Buf, v) }
func (b *Blocks) u32(v uint32) { b.Buf = binary.LittleEndian.AppendUint32(b.Buf, v) }

// open begins a block and returns where.
func (b *Blocks) open(kind uint32) int {
	at := len(b.Buf)
	b.u32(kind)
	b.u32(0)
	return at
}

// shut ends the block that began there.
func (b *Blocks) shut(at int) {
	n := uint32(len(b.Buf) - at + 4)
	b.u32(n)
	binary.LittleEndian.PutUint32(b.Buf[at+4:], n)
}

// option appends an option.
func (b *Blocks) option(code uint16, value ...byte) {
	b.u16(code)
	b.u16(uint16(len(value)))
	b.Buf = append(b.Buf, value...)
	b.pad(len(value))
}

// pad fills n bytes up to a multiple of four.
func (b *Blocks) pad(n int) {
	var zero [3]byte
	b.Buf = append(b.Buf, zero[:-n&3]...)
}

// Start writes the section header and the one interface.
func (b *Blocks) Start() {
	at := b.open(blockSection)
	b.u32(byteOrder)
	b.u16(1) // version 1.0
	b.u16(0)
	b.u32(0xffffffff) // length of the section: not known
	b.u32(0xffffffff)
	b.shut(at)

	at = b.open(blockInterface)
	b.u16(linkTypeRaw)
	b.u16(0)
	b.u32(0) // packets are whole
	b.option(optionName, []byte("gantry")...)
	b.option(optionTimeUnits, nanoseconds)
	b.option(optionEnd)
	b.shut(at)
}

// Begin opens the block of a packet of n bytes, which the caller appends.
func (b *Blocks) Begin(now time.Time, n int) (at int) {
	at = b.open(blockPacket)
	b.u32(0) // the interface
	stamp := uint64(now.UnixNano())
	b.u32(uint32(stamp >> 32))
	b.u32(uint32(stamp))
	b.u32(uint32(n)) // captured
	b.u32(uint32(n)) // on the wire
	return at
}

// packetStart is what Begin writes.
const packetStart = 28

// A Direction is where a packet passed.
type Direction byte

// The directions.
const (
	Inbound  Direction = 1
	Outbound Direction = 2
)

// End closes the block of a packet.
func (b *Blocks) End(at int, d Direction) { b.EndNoted(at, d, "") }

// EndNoted is End with a comment on the packet; "" is none.
func (b *Blocks) EndNoted(at int, d Direction, comment string) {
	b.pad(len(b.Buf) - at - packetStart)
	if comment != "" {
		b.option(optionComment, []byte(comment)...)
	}
	b.option(optionFlags, byte(d), 0, 0, 0)
	b.option(optionEnd)
	b.shut(at)
}
