package roce

// An Opcode is the first byte of a packet: the transport in bits 7 to 5, the
// operation in bits 4 to 0.
type Opcode uint8

// The opcodes of the reliable connection.
const (
	RCSendFirst          Opcode = 0x00
	RCSendMiddle         Opcode = 0x01
	RCSendLast           Opcode = 0x02
	RCSendLastImm        Opcode = 0x03
	RCSendOnly           Opcode = 0x04
	RCSendOnlyImm        Opcode = 0x05
	RCWriteFirst         Opcode = 0x06
	RCWriteMiddle        Opcode = 0x07
	RCWriteLast          Opcode = 0x08
	RCWriteLastImm       Opcode = 0x09
	RCWriteOnly          Opcode = 0x0a
	RCWriteOnlyImm       Opcode = 0x0b
	RCReadRequest        Opcode = 0x0c
	RCReadResponseFirst  Opcode = 0x0d
	RCReadResponseMiddle Opcode = 0x0e
	RCReadResponseLast   Opcode = 0x0f
	RCReadResponseOnly   Opcode = 0x10
	RCAck                Opcode = 0x11
	RCAtomicAck          Opcode = 0x12
	RCCompareSwap        Opcode = 0x13
	RCFetchAdd           Opcode = 0x14
	RCSendLastInv        Opcode = 0x16
	RCSendOnlyInv        Opcode = 0x17
	RCFlush              Opcode = 0x1c
	RCAtomicWrite        Opcode = 0x1d
)

// The opcodes of the unreliable connection.
const (
	UCSendFirst    Opcode = 0x20
	UCSendMiddle   Opcode = 0x21
	UCSendLast     Opcode = 0x22
	UCSendLastImm  Opcode = 0x23
	UCSendOnly     Opcode = 0x24
	UCSendOnlyImm  Opcode = 0x25
	UCWriteFirst   Opcode = 0x26
	UCWriteMiddle  Opcode = 0x27
	UCWriteLast    Opcode = 0x28
	UCWriteLastImm Opcode = 0x29
	UCWriteOnly    Opcode = 0x2a
	UCWriteOnlyImm Opcode = 0x2b
)

// The opcodes of the unreliable datagram, and the one of no transport.
const (
	UDSendOnly    Opcode = 0x64
	UDSendOnlyImm Opcode = 0x65
	CNP           Opcode = 0x81 // congestion notification; 16 reserved bytes follow
)

// CNPLen is how many reserved bytes follow the BTH of a CNP.
const CNPLen = 16

// A Transport is the transport service that an opcode belongs to.
type Transport uint8

// The transports, as bits 7 to 5 of the opcode have them. Values 6 and 7 have
// no name.
const (
	RC               Transport = 0 // reliable connection
	UC               Transport = 1 // unreliable connection
	RD               Transport = 2 // reliable datagram: recognised, not read
	UD               Transport = 3 // unreliable datagram
	CongestionPacket Transport = 4 // the CNP
	XRC              Transport = 5 // extended reliable connection: recognised, not read
)

// Traits say what an opcode is, in bits that can be combined.
type Traits uint32

// The traits of opcodes. FIRST is IsStart alone, MIDDLE neither IsStart nor
// IsEnd, LAST IsEnd alone, ONLY both.
const (
	IsStart         Traits = 1 << iota // the first packet of its message
	IsEnd                              // the last packet of its message
	IsRequest                          // goes to a responder
	IsResponse                         // goes to a requester
	IsSend                             // a SEND of any kind
	IsWrite                            // an RDMA WRITE of any kind
	IsRead                             // READ REQUEST
	IsReadResponse                     // READ RESPONSE of any kind
	IsAtomic                           // COMPARE SWAP or FETCH ADD
	IsAck                              // ACKNOWLEDGE or ATOMIC ACKNOWLEDGE
	IsFlush                            // FLUSH
	IsAtomicWrite                      // ATOMIC WRITE
	HasPayload                         // may carry payload; all others must not
	HasDETH                            // a DETH follows the BTH
	HasFETH                            // a FETH follows the BTH
	HasRETH                            // has a RETH
	HasAtomicETH                       // has an AtomicETH
	HasAETH                            // has an AETH
	HasAtomicAckETH                    // has an AtomicAckETH
	HasImmDt                           // has immediate data
	HasIETH                            // has an IETH
	TakesReceive                       // begins to use a posted receive
	EndsReceive                        // completes the posted receive

	IsOnly = IsStart | IsEnd // the only packet of its message
)

// Known reports whether o is in the table. What is not known has a BTH, no
// traits, and is refused by [Parse]; [ParseReserved] takes it.
func (o Opcode) Known() bool { return opcodes[o].name != "" }

// Transport returns the transport service, of any opcode.
func (o Opcode) Transport() Transport { return Transport(o >> 5) }

// Traits returns all traits of o.
func (o Opcode) Traits() Traits { return opcodes[o].traits }

// Has reports whether o has all of these traits.
func (o Opcode) Has(all Traits) bool { return opcodes[o].traits&all == all }

// HeadLen returns the length of the BTH and the headers after it, in bytes.
func (o Opcode) HeadLen() int { return int(opcodes[o].headLen) }

// Name returns the operation without its transport, like SEND_ONLY, or "" when
// o is not known.
func (o Opcode) Name() string { return opcodes[o].name }

// Append appends transport and operation, like RC SEND_ONLY.
func (o Opcode) Append(b []byte) []byte {
	if o == CNP {
		return append(b, "CNP"...)
	}
	b = append(append(b, o.Transport().String()...), ' ')
	if o.Known() {
		return append(b, o.Name()...)
	}
	return appendHex(b, uint64(o))
}

// String returns what Append appends.
func (o Opcode) String() string { return string(o.Append(nil)) }

// String returns the transport's short name.
func (t Transport) String() string {
	switch t {
	case RC:
		return "RC"
	case UC:
		return "UC"
	case RD:
		return "RD"
	case UD:
		return "UD"
	case CongestionPacket:
		return "CNP"
	case XRC:
		return "XRC"
	}
	return "?"
}
