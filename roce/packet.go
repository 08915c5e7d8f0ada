package roce

import "encoding/binary"

// Headers are the BTH of a packet and the headers after it, as views of bytes
// that belong to the caller. [Build] and [ParseHeaders] make them; the zero
// value is of no use.
//
// The accessors of extension headers return nil for one that the opcode does
// not have: ask [Opcode.Has], or know the opcode, before following the pointer.
//
// What the opcode was when the headers were made is kept beside the bytes, so
// that a view stays within its bounds even if somebody else writes to them.
type Headers struct {
	b    []byte // begins with the headers; nothing else looks further
	info *opcodeInfo
}

// Build lays out the headers of a packet with opcode o at the start of head:
// all zero but for the opcode and the default partition key. The caller fills
// them in through the views. For an opcode that is not known it is a BTH.
func Build(head *[HeadSize]byte, o Opcode) Headers {
	info := &opcodes[o]
	n := int(info.headLen)
	clear(head[:n])
	h := Headers{head[:n:n], info}
	h.BTH().SetOpcode(o)
	h.BTH().SetPKey(DefaultPKey)
	return h
}

// ParseHeaders splits b, which begins with a BTH, into headers and the rest. It
// is not ok when the version is not 0, the opcode is not known, or b is too
// short for what the opcode needs. It does not look at the rest: see
// [Headers.Fits].
func ParseHeaders(b []byte) (h Headers, rest []byte, ok bool) {
	if len(b) < BTHLen {
		return Headers{}, nil, false
	}
	bth := (*BTH)(b)
	info := &opcodes[bth.Opcode()]
	n := int(info.headLen)
	if bth.Version() != 0 || info.name == "" || len(b) < n {
		return Headers{}, nil, false
	}
	return Headers{b, info}, b[n:], true
}

// Fits reports whether body bytes may follow the headers, payload and pad
// together: a multiple of 4, no less than the pad count, and none at all where
// the opcode has no payload.
func (h Headers) Fits(body int) bool { return h.fits(body, h.BTH().Pad()) }

func (h Headers) fits(body, pad int) bool {
	if h.info.traits&HasPayload == 0 && body != 0 {
		return false
	}
	return body&3 == 0 && body >= pad
}

// Bytes returns the bytes of the headers.
func (h Headers) Bytes() []byte { return h.b[:h.info.headLen:h.info.headLen] }

// Len returns the length of the headers in bytes.
func (h Headers) Len() int { return int(h.info.headLen) }

// Opcode returns the opcode that the headers were made with.
func (h Headers) Opcode() Opcode { return h.info.code }

// BTH returns the base transport header, which is always there.
func (h Headers) BTH() *BTH { return (*BTH)(h.b) }

// DETH returns the datagram header, or nil.
func (h Headers) DETH() *DETH {
	if at := h.info.deth; at != 0 {
		return (*DETH)(h.b[at:])
	}
	return nil
}

// FETH returns the flush header, or nil.
func (h Headers) FETH() *FETH {
	if at := h.info.feth; at != 0 {
		return (*FETH)(h.b[at:])
	}
	return nil
}

// RETH returns the RDMA header, or nil.
func (h Headers) RETH() *RETH {
	if at := h.info.reth; at != 0 {
		return (*RETH)(h.b[at:])
	}
	return nil
}

// AtomicETH returns the header of an atomic request, or nil.
func (h Headers) AtomicETH() *AtomicETH {
	if at := h.info.atomicETH; at != 0 {
		return (*AtomicETH)(h.b[at:])
	}
	return nil
}

// AETH returns the acknowledge header, or nil.
func (h Headers) AETH() *AETH {
	if at := h.info.aeth; at != 0 {
		return (*AETH)(h.b[at:])
	}
	return nil
}

// AtomicAckETH returns the header of an atomic response, or nil.
func (h Headers) AtomicAckETH() *AtomicAckETH {
	if at := h.info.atomicAckETH; at != 0 {
		return (*AtomicAckETH)(h.b[at:])
	}
	return nil
}

// ImmDt returns the immediate data, or nil.
func (h Headers) ImmDt() *ImmDt {
	if at := h.info.immDt; at != 0 {
		return (*ImmDt)(h.b[at:])
	}
	return nil
}

// IETH returns the invalidate header, or nil.
func (h Headers) IETH() *IETH {
	if at := h.info.ieth; at != 0 {
		return (*IETH)(h.b[at:])
	}
	return nil
}

// A Packet is a whole RoCEv2 packet, as a view of the UDP payload that it came
// in. It is valid as long as those bytes are.
type Packet struct {
	// Its b is the whole UDP payload. There is no more: four words go from
	// function to function in registers, five do not.
	Headers
}

// Parse checks a UDP payload from BTH to ICRC. It is not ok when the headers
// are not (see [ParseHeaders]), when there is no room for the ICRC, or when
// payload and pad break a rule of [Headers.Fits]. It does not check the ICRC:
// that takes the addresses, see [Flow.Check].
func Parse(udpPayload []byte) (p Packet, ok bool) {
	h, body, ok := ParseHeaders(udpPayload)
	if !ok || len(body) < ICRCLen {
		return Packet{}, false
	}
	pad, padded := h.BTH().Pad(), len(body)-ICRCLen
	if !h.fits(padded, pad) {
		return Packet{}, false
	}
	return Packet{h}, true
}

// ParseReserved is Parse for a packet whose opcode is not known. It has a BTH,
// and all behind it is its payload: whether there are more headers is for
// nobody to say. It is not ok when the opcode is known.
func ParseReserved(udpPayload []byte) (p Packet, ok bool) {
	body := len(udpPayload) - BTHLen - ICRCLen
	if body < 0 {
		return Packet{}, false
	}
	b := (*BTH)(udpPayload)
	if b.Version() != 0 || b.Opcode().Known() || body&3 != 0 || body < b.Pad() {
		return Packet{}, false
	}
	return Packet{Headers{udpPayload, &opcodes[b.Opcode()]}}, true
}

// Payload returns the payload without its pad bytes.
func (p Packet) Payload() []byte {
	end := max(len(p.b)-ICRCLen-p.BTH().Pad(), p.Len()) // the bytes may have changed
	return p.b[p.Len():end:end]
}

// Padded returns the payload with its pad bytes, which the ICRC covers.
func (p Packet) Padded() []byte {
	end := len(p.b) - ICRCLen
	return p.b[p.Len():end:end]
}

// ICRC returns the ICRC that the packet carries. Alone of all fields it is
// little-endian on the wire.
func (p Packet) ICRC() uint32 { return binary.LittleEndian.Uint32(p.b[len(p.b)-ICRCLen:]) }
