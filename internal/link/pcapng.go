package link

import (
	"encoding/binary"
	"time"
)

// pcapng makes the blocks of a capture file, in the order of bytes that it
// says at the start: little-endian.
//
//	+------+--------+------ … ------+---------+--------+
//	| type | length | body, padded  | options | length |
//	+------+--------+------ … ------+---------+--------+
type pcapng struct{ buf []byte }

// Types of blocks, and options inside them (draft-ietf-opsawg-pcapng).
const (
	blockSection   = 0x0a0d0d0a
	blockInterface = 1
	blockPacket    = 6

	optionEnd       = 0
	optionFlags     = 2 // of a packet
	optionName      = 2 // of an interface
	optionTimeUnits = 9 // of an interface

	byteOrder   = 0x1a2b3c4d
	linkTypeRaw = 101 // the packet begins with an IP header
	nanoseconds = 9   // 10^-9 s
)

func (p *pcapng) u16(v uint16) { p.buf = binary.LittleEndian.AppendUint16(p.buf, v) }
func (p *pcapng) u32(v uint32) { p.buf = binary.LittleEndian.AppendUint32(p.buf, v) }

// open begins a block and returns where.
func (p *pcapng) open(kind uint32) int {
	at := len(p.buf)
	p.u32(kind)
	p.u32(0)
	return at
}

// shut ends the block that began there.
func (p *pcapng) shut(at int) {
	n := uint32(len(p.buf) - at + 4)
	p.u32(n)
	binary.LittleEndian.PutUint32(p.buf[at+4:], n)
}

// option appends an option.
func (p *pcapng) option(code uint16, value ...byte) {
	p.u16(code)
	p.u16(uint16(len(value)))
	p.buf = append(p.buf, value...)
	p.pad(len(value))
}

// pad fills n bytes up to a multiple of four.
func (p *pcapng) pad(n int) {
	var zero [3]byte
	p.buf = append(p.buf, zero[:-n&3]...)
}

// start writes the section header and the one interface.
func (p *pcapng) start() {
	at := p.open(blockSection)
	p.u32(byteOrder)
	p.u16(1) // version 1.0
	p.u16(0)
	p.u32(0xffffffff) // length of the section: not known
	p.u32(0xffffffff)
	p.shut(at)

	at = p.open(blockInterface)
	p.u16(linkTypeRaw)
	p.u16(0)
	p.u32(0) // packets are whole
	p.option(optionName, []byte("gantry")...)
	p.option(optionTimeUnits, nanoseconds)
	p.option(optionEnd)
	p.shut(at)
}

// begin opens the block of a packet of n bytes, which the caller appends.
func (p *pcapng) begin(now time.Time, n int) (at int) {
	at = p.open(blockPacket)
	p.u32(0) // the interface
	stamp := uint64(now.UnixNano())
	p.u32(uint32(stamp >> 32))
	p.u32(uint32(stamp))
	p.u32(uint32(n)) // captured
	p.u32(uint32(n)) // on the wire
	return at
}

// packetStart is what begin writes.
const packetStart = 28

// end closes the block of a packet.
func (p *pcapng) end(at, direction int) {
	p.pad(len(p.buf) - at - packetStart)
	p.option(optionFlags, byte(1+direction), 0, 0, 0) // 1 inbound, 2 outbound
	p.option(optionEnd)
	p.shut(at)
}
