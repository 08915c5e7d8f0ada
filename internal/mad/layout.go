package mad

// The fields of a REQ. What is called local belongs to the sender.
var (
	ReqLocalID         = u32(0)
	ReqServiceID       = u64(8)
	ReqCAGUID          = u64(16)
	ReqQKey            = u32(28)
	ReqQPN             = u24(32)
	ReqResources       = u8(35) // READs and atomics that the sender answers at once
	ReqEECN            = u24(36)
	ReqDepth           = u8(39) // READs and atomics that the sender has outstanding
	ReqRemoteEECN      = u24(40)
	ReqRemoteTimeout   = bits(43, 0, 5) // how soon the receiver shall answer
	ReqService         = bits(43, 5, 2) // the transport: 0 RC, 1 UC, 3 see ReqExtended
	ReqFlowControl     = bits(43, 7, 1)
	ReqPSN             = u24(44)
	ReqLocalTimeout    = bits(47, 0, 5) // how soon the sender will answer
	ReqRetryCount      = bits(47, 5, 3)
	ReqPKey            = u16(48)
	ReqPathMTU         = bits(50, 0, 4)
	ReqRDC             = bits(50, 4, 1)
	ReqRNRRetry        = bits(50, 5, 3)
	ReqMaxRetries      = bits(51, 0, 4) // how often a message is repeated
	ReqSRQ             = bits(51, 4, 1)
	ReqExtended        = bits(51, 5, 3) // 1: XRC
	ReqLocalLID        = u16(52)
	ReqRemoteLID       = u16(54)
	ReqLocalGID        = span(56, 16)
	ReqRemoteGID       = span(72, 16)
	ReqFlowLabel       = bits(88, 0, 20)
	ReqRate            = bits(91, 2, 6)
	ReqTrafficClass    = u8(92)
	ReqHopLimit        = u8(93)
	ReqSL              = bits(94, 0, 4)
	ReqSubnetLocal     = bits(94, 4, 1)
	ReqAckTimeout      = bits(95, 0, 5)
	ReqAltLocalLID     = ReqLocalLID.plus(alternate)
	ReqAltRemoteLID    = ReqRemoteLID.plus(alternate)
	ReqAltLocalGID     = span(56+alternate, 16)
	ReqAltRemoteGID    = span(72+alternate, 16)
	ReqAltFlowLabel    = ReqFlowLabel.plus(alternate)
	ReqAltRate         = ReqRate.plus(alternate)
	ReqAltTrafficClass = ReqTrafficClass.plus(alternate)
	ReqAltHopLimit     = ReqHopLimit.plus(alternate)
	ReqAltSL           = ReqSL.plus(alternate)
	ReqAltSubnetLocal  = ReqSubnetLocal.plus(alternate)
	ReqAltAckTimeout   = ReqAckTimeout.plus(alternate)
	ReqPrivate         = span(140, 92)
)

// alternate is how far behind the primary path the alternate one stands.
const alternate = 44

// The fields of a REP.
var (
	RepLocalID     = u32(0)
	RepRemoteID    = u32(4)
	RepQKey        = u32(8)
	RepQPN         = u24(12)
	RepEECN        = u24(16)
	RepPSN         = u24(20)
	RepResources   = u8(24) // as ReqResources, of the sender of the REP
	RepDepth       = u8(25)
	RepAckDelay    = bits(26, 0, 5)
	RepFailover    = bits(26, 5, 2)
	RepFlowControl = bits(26, 7, 1)
	RepRNRRetry    = bits(27, 0, 3)
	RepSRQ         = bits(27, 3, 1)
	RepCAGUID      = u64(28)
	RepPrivate     = span(36, 196)
)

// The fields of an RTU.
var (
	RtuLocalID  = u32(0)
	RtuRemoteID = u32(4)
	RtuPrivate  = span(8, 224)
)

// The fields of a REJ.
var (
	RejLocalID  = u32(0)
	RejRemoteID = u32(4)
	RejMessage  = bits(8, 0, 2) // what is rejected: an Of
	RejInfoLen  = bits(9, 0, 7) // bytes of RejInfo that mean something
	RejReason   = u16(10)
	RejInfo     = span(12, 72)
	RejPrivate  = span(84, 148)
)

// The fields of an MRA.
var (
	MraLocalID  = u32(0)
	MraRemoteID = u32(4)
	MraMessage  = bits(8, 0, 2) // what was received: an Of
	MraTimeout  = bits(9, 0, 5) // how long the answer takes
	MraPrivate  = span(10, 222)
)

// The fields of a DREQ.
var (
	DreqLocalID   = u32(0)
	DreqRemoteID  = u32(4)
	DreqRemoteQPN = u24(8) // the queue pair of the receiver
	DreqPrivate   = span(12, 220)
)

// The fields of a DREP.
var (
	DrepLocalID  = u32(0)
	DrepRemoteID = u32(4)
	DrepPrivate  = span(8, 224)
)

// The fields of a SIDR_REQ.
var (
	SidrReqID        = u32(0)
	SidrReqPKey      = u16(4)
	SidrReqServiceID = u64(8)
	SidrReqPrivate   = span(16, 216)
)

// The fields of a SIDR_REP.
var (
	SidrRepID        = u32(0)
	SidrRepStatus    = u8(4)
	SidrRepInfoLen   = u8(5)
	SidrRepQPN       = u24(8)
	SidrRepServiceID = u64(12)
	SidrRepQKey      = u32(20)
	SidrRepInfo      = span(24, 72)
	SidrRepPrivate   = span(96, 136)
)

// The fields of LAP and APR that are read.
var (
	LapLocalID  = u32(0)
	LapRemoteID = u32(4)
	AprLocalID  = u32(0)
	AprRemoteID = u32(4)
	AprStatus   = u8(9)
)

// IDs returns the two communication identifiers of a message as its sender sees
// them: its own, and that of the receiver. A REQ has none of the receiver; the
// SIDR messages have one for both.
func (m *MAD) IDs() (local, remote uint32) {
	local = uint32(ReqLocalID.In(m))
	switch m.Attr() {
	case REQ:
		return local, 0
	case SIDRREQ, SIDRREP:
		return local, local
	default:
		return local, uint32(RepRemoteID.In(m))
	}
}

// An Of says which message a REJ or an MRA is about.
type Of uint8

// What is rejected, or was received.
const (
	OfREQ   Of = iota // a REQ
	OfREP             // a REP
	OfOther           // REJ: none of them; MRA: a LAP
)

// String returns the name of the message.
func (o Of) String() string { return [...]string{"REQ", "REP", "other", "3"}[o&3] }
