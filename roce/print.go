package roce

import "strconv"

// Append appends p as one line without a newline, like
//
//	RC SEND_ONLY psn=5 qp=0x11 ack pad=0 len=64
//
// with the flags that are set, then pad count and payload length, then the
// fields of the extension headers. It allocates only if b is too short.
func (p Packet) Append(b []byte) []byte {
	return p.AppendLine(b, len(p.Payload()))
}

// String returns what Append appends.
func (p Packet) String() string { return string(p.Append(make([]byte, 0, lineSize))) }

// lineSize is enough for every line.
const lineSize = 192

// AppendLine appends the headers as a line, with a payload of so many bytes.
func (h Headers) AppendLine(b []byte, payload int) []byte {
	bth := h.BTH()
	b = h.Opcode().Append(b)
	b = strconv.AppendUint(append(b, " psn="...), uint64(bth.PSN()), 10)
	b = appendHex(append(b, " qp="...), uint64(bth.DestQP()))
	if k := bth.PKey(); k != DefaultPKey {
		b = appendHex(append(b, " pkey="...), uint64(k))
	}
	b = appendFlag(b, bth.Solicited(), " se")
	b = appendFlag(b, bth.MigReq(), " mig")
	b = appendFlag(b, bth.FECN(), " fecn")
	b = appendFlag(b, bth.BECN(), " becn")
	b = appendFlag(b, bth.AckReq(), " ack")
	b = strconv.AppendUint(append(b, " pad="...), uint64(bth.Pad()), 10)
	b = strconv.AppendInt(append(b, " len="...), int64(payload), 10)
	return h.appendExt(b)
}

// appendExt appends the fields of the extension headers, in their order.
func (h Headers) appendExt(b []byte) []byte {
	if x := h.DETH(); x != nil {
		b = appendHex(append(b, " qkey="...), uint64(x.QKey()))
		b = appendHex(append(b, " src="...), uint64(x.SrcQP()))
	}
	if x := h.FETH(); x != nil {
		b = appendHex(append(b, " place="...), uint64(x.Placement()))
		b = appendHex(append(b, " level="...), uint64(x.Level()))
	}
	if x := h.RETH(); x != nil {
		b = appendMemory(b, x.VA(), x.RKey())
		b = strconv.AppendUint(append(b, " dma="...), uint64(x.DMALen()), 10)
	}
	if x := h.AtomicETH(); x != nil {
		b = appendMemory(b, x.VA(), x.RKey())
		b = appendHex(append(b, " swapadd="...), x.SwapAdd())
		b = appendHex(append(b, " compare="...), x.Compare())
	}
	if x := h.AETH(); x != nil {
		b = x.Syndrome().Append(append(b, ' '))
		b = strconv.AppendUint(append(b, " msn="...), uint64(x.MSN()), 10)
	}
	if x := h.AtomicAckETH(); x != nil {
		b = appendHex(append(b, " orig="...), x.Original())
	}
	if x := h.ImmDt(); x != nil {
		b = appendHex(append(b, " imm="...), uint64(x.Value()))
	}
	if x := h.IETH(); x != nil {
		b = appendHex(append(b, " inv="...), uint64(x.RKey()))
	}
	return b
}

func appendMemory(b []byte, va uint64, rkey uint32) []byte {
	b = appendHex(append(b, " va="...), va)
	return appendHex(append(b, " rkey="...), uint64(rkey))
}

func appendFlag(b []byte, on bool, name string) []byte {
	if on {
		b = append(b, name...)
	}
	return b
}

func appendHex(b []byte, v uint64) []byte { return strconv.AppendUint(append(b, "0x"...), v, 16) }
