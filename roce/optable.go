package roce

// An operation is one row of the opcode table: what it is called, which
// transports have it, what it is, and the headers after the BTH in their order.
type operation struct {
	code    Opcode // without the transport
	name    string
	on      services
	traits  Traits
	headers []Traits
}

// services are the transports that have an operation. UD puts a DETH before
// the headers of the row.
type services uint8

const (
	onRC services = 1 << iota
	onUC
	onUD
)

// What many rows share.
const (
	send     = IsRequest | IsSend | HasPayload
	write    = IsRequest | IsWrite | HasPayload
	response = IsResponse | IsReadResponse | HasPayload
	receives = TakesReceive | EndsReceive
	allThree = onRC | onUC | onUD
)

// operations is the whole opcode table (IBTA Vol 1, 9.2.1, and its annex on
// memory placement extensions for the last two).
var operations = []operation{
	{0x00, "SEND_FIRST", onRC | onUC, send | IsStart | TakesReceive, nil},
	{0x01, "SEND_MIDDLE", onRC | onUC, send, nil},
	{0x02, "SEND_LAST", onRC | onUC, send | IsEnd | EndsReceive, nil},
	{0x03, "SEND_LAST_IMM", onRC | onUC, send | IsEnd | EndsReceive, []Traits{HasImmDt}},
	{0x04, "SEND_ONLY", allThree, send | IsOnly | receives, nil},
	{0x05, "SEND_ONLY_IMM", allThree, send | IsOnly | receives, []Traits{HasImmDt}},

	{0x06, "WRITE_FIRST", onRC | onUC, write | IsStart, []Traits{HasRETH}},
	{0x07, "WRITE_MIDDLE", onRC | onUC, write, nil},
	{0x08, "WRITE_LAST", onRC | onUC, write | IsEnd, nil},
	{0x09, "WRITE_LAST_IMM", onRC | onUC, write | IsEnd | receives, []Traits{HasImmDt}},
	{0x0a, "WRITE_ONLY", onRC | onUC, write | IsOnly, []Traits{HasRETH}},
	{0x0b, "WRITE_ONLY_IMM", onRC | onUC, write | IsOnly | receives, []Traits{HasRETH, HasImmDt}},

	{0x0c, "READ_REQUEST", onRC, IsRequest | IsRead | IsOnly, []Traits{HasRETH}},
	{0x0d, "READ_RESPONSE_FIRST", onRC, response | IsStart, []Traits{HasAETH}},
	{0x0e, "READ_RESPONSE_MIDDLE", onRC, response, nil},
	{0x0f, "READ_RESPONSE_LAST", onRC, response | IsEnd, []Traits{HasAETH}},
	{0x10, "READ_RESPONSE_ONLY", onRC, response | IsOnly, []Traits{HasAETH}},

	{0x11, "ACK", onRC, IsResponse | IsAck | IsOnly, []Traits{HasAETH}},
	{0x12, "ATOMIC_ACK", onRC, IsResponse | IsAck | IsOnly, []Traits{HasAETH, HasAtomicAckETH}},
	{0x13, "COMPARE_SWAP", onRC, IsRequest | IsAtomic | IsOnly, []Traits{HasAtomicETH}},
	{0x14, "FETCH_ADD", onRC, IsRequest | IsAtomic | IsOnly, []Traits{HasAtomicETH}},

	{0x16, "SEND_LAST_INV", onRC, send | IsEnd | EndsReceive, []Traits{HasIETH}},
	{0x17, "SEND_ONLY_INV", onRC, send | IsOnly | receives, []Traits{HasIETH}},
	{0x1c, "FLUSH", onRC, IsRequest | IsFlush | IsOnly, []Traits{HasFETH, HasRETH}},
	{0x1d, "ATOMIC_WRITE", onRC, IsRequest | IsAtomicWrite | IsOnly | HasPayload, []Traits{HasRETH}},
}

// An opcodeInfo is what the data path asks about an opcode. An offset of 0 says
// that there is no such header.
type opcodeInfo struct {
	name    string
	traits  Traits
	code    Opcode
	headLen uint8
	deth, feth, reth, atomicETH,
	aeth, atomicAckETH, immDt, ieth uint8
}

// opcodes has an entry for every byte there is, so that looking one up cannot
// fail.
var opcodes = layOut(operations)

func layOut(rows []operation) *[256]opcodeInfo {
	table := new([256]opcodeInfo)
	for i := range table {
		table[i].code, table[i].headLen = Opcode(i), BTHLen
	}
	for _, r := range rows {
		for _, s := range []struct {
			on    services
			base  Transport
			extra []Traits
		}{{onRC, RC, nil}, {onUC, UC, nil}, {onUD, UD, []Traits{HasDETH}}} {
			if r.on&s.on == 0 {
				continue
			}
			e := &table[Opcode(s.base)<<5|r.code]
			e.name, e.traits = r.name, r.traits
			e.place(s.extra)
			e.place(r.headers)
		}
	}
	table[CNP].name, table[CNP].traits = "CNP", IsOnly|HasPayload
	return table
}

// place puts headers behind those that e has.
func (e *opcodeInfo) place(headers []Traits) {
	for _, h := range headers {
		offset, size := e.slot(h)
		*offset = e.headLen
		e.headLen += size
		e.traits |= h
	}
}

// slot returns where e keeps the offset of a header, and the header's length.
func (e *opcodeInfo) slot(h Traits) (offset *uint8, size uint8) {
	switch h {
	case HasDETH:
		return &e.deth, DETHLen
	case HasFETH:
		return &e.feth, FETHLen
	case HasRETH:
		return &e.reth, RETHLen
	case HasAtomicETH:
		return &e.atomicETH, AtomicETHLen
	case HasAETH:
		return &e.aeth, AETHLen
	case HasAtomicAckETH:
		return &e.atomicAckETH, AtomicAckETHLen
	case HasImmDt:
		return &e.immDt, ImmDtLen
	}
	return &e.ieth, IETHLen
}
