package mad

import (
	"bytes"
	"encoding/hex"
	"strconv"
)

// A column is one field of a line.
type column struct {
	name  string
	f     Field
	style style
}

// A style is how a number is printed.
type style uint8

const (
	always style = iota // decimal
	other               // decimal, unless it is 0
	hexa                // hexadecimal
	rare                // hexadecimal, unless it is 0
)

// columns are the fields of each message, in the order of a line. A golden test
// fails when one is missing whose bytes a real peer fills.
var columns = [Attrs][]column{
	0: { // REQ
		{"id", ReqLocalID, hexa}, {"guid", ReqCAGUID, rare}, {"qkey", ReqQKey, rare}, {"qpn", ReqQPN, hexa}, {"psn", ReqPSN, always},
		{"res", ReqResources, always}, {"depth", ReqDepth, always}, {"eecn", ReqEECN, rare}, {"reecn", ReqRemoteEECN, rare},
		{"mtu", ReqPathMTU, always}, {"retry", ReqRetryCount, always}, {"rnr", ReqRNRRetry, always},
		{"service", ReqService, other}, {"ext", ReqExtended, other}, {"flow", ReqFlowControl, other}, {"rdc", ReqRDC, other},
		{"srq", ReqSRQ, other}, {"rto", ReqRemoteTimeout, always}, {"lto", ReqLocalTimeout, always},
		{"tries", ReqMaxRetries, always}, {"pkey", ReqPKey, hexa}, {"llid", ReqLocalLID, rare}, {"rlid", ReqRemoteLID, rare},
		{"label", ReqFlowLabel, rare}, {"rate", ReqRate, other}, {"tc", ReqTrafficClass, other}, {"hops", ReqHopLimit, always},
		{"sl", ReqSL, other}, {"subnet", ReqSubnetLocal, other}, {"ack", ReqAckTimeout, always},
		{"allid", ReqAltLocalLID, rare}, {"arlid", ReqAltRemoteLID, rare}, {"alabel", ReqAltFlowLabel, rare},
		{"arate", ReqAltRate, other}, {"atc", ReqAltTrafficClass, other}, {"ahops", ReqAltHopLimit, other}, {"asl", ReqAltSL, other},
		{"asubnet", ReqAltSubnetLocal, other}, {"aack", ReqAltAckTimeout, other},
	},
	REP - REQ: {
		{"id", RepLocalID, hexa}, {"to", RepRemoteID, hexa}, {"guid", RepCAGUID, rare}, {"qkey", RepQKey, rare}, {"qpn", RepQPN, hexa},
		{"psn", RepPSN, always}, {"res", RepResources, always}, {"depth", RepDepth, always}, {"eecn", RepEECN, rare},
		{"delay", RepAckDelay, always}, {"failover", RepFailover, other}, {"flow", RepFlowControl, other},
		{"rnr", RepRNRRetry, always}, {"srq", RepSRQ, other},
	},
	RTU - REQ:     {{"id", RtuLocalID, hexa}, {"to", RtuRemoteID, hexa}},
	REJ - REQ:     {{"id", RejLocalID, hexa}, {"to", RejRemoteID, hexa}, {"info", RejInfoLen, other}},
	MRA - REQ:     {{"id", MraLocalID, hexa}, {"to", MraRemoteID, hexa}, {"wait", MraTimeout, always}},
	DREQ - REQ:    {{"id", DreqLocalID, hexa}, {"to", DreqRemoteID, hexa}, {"qpn", DreqRemoteQPN, hexa}},
	DREP - REQ:    {{"id", DrepLocalID, hexa}, {"to", DrepRemoteID, hexa}},
	SIDRREQ - REQ: {{"id", SidrReqID, hexa}, {"pkey", SidrReqPKey, hexa}},
	SIDRREP - REQ: {
		{"id", SidrRepID, hexa}, {"qpn", SidrRepQPN, hexa}, {"qkey", SidrRepQKey, hexa}, {"info", SidrRepInfoLen, other},
	},
	LAP - REQ: {{"id", LapLocalID, hexa}, {"to", LapRemoteID, hexa}},
	APR - REQ: {{"id", AprLocalID, hexa}, {"to", AprRemoteID, hexa}, {"status", AprStatus, always}},
}

// privates are where the private data of each message is.
var privates = [Attrs]Span{
	0: ReqPrivate, REP - REQ: RepPrivate, RTU - REQ: RtuPrivate, REJ - REQ: RejPrivate, MRA - REQ: MraPrivate,
	DREQ - REQ: DreqPrivate, DREP - REQ: DrepPrivate, SIDRREQ - REQ: SidrReqPrivate, SIDRREP - REQ: SidrRepPrivate,
}

// Private returns the private data of a message: not a copy. It has a fixed
// length, and what the sender did not fill is zero.
func (m *MAD) Private() []byte {
	if a := m.Attr(); a.Known() && privates[a-REQ].n > 0 {
		return privates[a-REQ].In(m)
	}
	return nil
}

// String returns the message as one line, like
//
//	REJ tid=0x2 id=0x0 to=0x5995b327 REQ: nobody listens
//
// with the fields that are not 0 or that matter, and the private data without
// the zeros at its end.
func (m *MAD) String() string {
	if !m.CM() {
		return "MAD class=" + strconv.Itoa(int(m.Class())) + " version=" + strconv.Itoa(int(m.ClassVersion())) +
			" method=" + strconv.Itoa(int(m.Method())) + " " + m.Attr().String()
	}
	a := m.Attr()
	b := append([]byte(a.String()), " tid="...)
	b = appendHex(b, m.Transaction())
	if !a.Known() {
		return string(b)
	}
	for _, c := range columns[a-REQ] {
		b = c.append(b, m)
	}
	b = m.appendWords(b)
	return string(m.appendPrivate(b))
}

func (c column) append(b []byte, m *MAD) []byte {
	v := c.f.In(m)
	if v == 0 && (c.style == other || c.style == rare) {
		return b
	}
	b = append(append(append(b, ' '), c.name...), '=')
	if c.style == hexa || c.style == rare {
		return appendHex(b, v)
	}
	return strconv.AppendUint(b, v, 10)
}

// appendWords appends what numbers would not tell.
func (m *MAD) appendWords(b []byte) []byte {
	switch m.Attr() {
	case REQ:
		b = append(append(b, ' '), ServiceID(ReqServiceID.In(m)).String()...)
		b = append(append(b, ' '), ReqLocalGID.Addr(m).String()...)
		return append(append(b, '>'), ReqRemoteGID.Addr(m).String()...)
	case REJ:
		b = append(append(b, ' '), Of(RejMessage.In(m)).String()...)
		return append(append(b, ": "...), Reason(RejReason.In(m)).String()...)
	case MRA:
		return append(append(b, ' '), Of(MraMessage.In(m)).String()...)
	case SIDRREQ:
		return append(append(b, ' '), ServiceID(SidrReqServiceID.In(m)).String()...)
	case SIDRREP:
		b = append(append(b, ' '), ServiceID(SidrRepServiceID.In(m)).String()...)
		return append(append(b, ' '), SidrStatus(SidrRepStatus.In(m)).String()...)
	default:
		return b
	}
}

// appendPrivate appends the private data, and the header of RDMA-CM in words.
func (m *MAD) appendPrivate(b []byte) []byte {
	data := m.Private()
	if a := m.Attr(); a == REQ || a == SIDRREQ {
		if c, rest, ok := ParseCMA(data); ok {
			b = append(append(b, " cma="...), c.Src().String()...)
			b = append(append(b, '>'), c.Dst().String()...)
			data = rest
		}
	}
	if data = bytes.TrimRight(data, "\x00"); len(data) > 0 {
		b = append(b, " private="...)
		b = hex.AppendEncode(b, data)
	}
	return b
}

func appendHex(b []byte, v uint64) []byte { return strconv.AppendUint(append(b, "0x"...), v, 16) }
