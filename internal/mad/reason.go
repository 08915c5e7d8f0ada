package mad

import "strconv"

// A Reason is why a message was rejected.
type Reason uint16

// The reasons of a REJ.
const (
	RejNoQP                Reason = 1
	RejNoEEC               Reason = 2
	RejNoResources         Reason = 3
	RejTimeout             Reason = 4
	RejUnsupported         Reason = 5
	RejInvalidCommID       Reason = 6
	RejInvalidCommInstance Reason = 7
	RejInvalidServiceID    Reason = 8
	RejInvalidTransport    Reason = 9
	RejStaleConn           Reason = 10
	RejRDCAbsent           Reason = 11
	RejInvalidGID          Reason = 12
	RejInvalidLID          Reason = 13
	RejInvalidSL           Reason = 14
	RejInvalidTrafficClass Reason = 15
	RejInvalidHopLimit     Reason = 16
	RejInvalidRate         Reason = 17
	RejInvalidAltGID       Reason = 18
	RejInvalidAltLID       Reason = 19
	RejInvalidAltSL        Reason = 20
	RejInvalidAltTraffic   Reason = 21
	RejInvalidAltHopLimit  Reason = 22
	RejInvalidAltRate      Reason = 23
	RejCMRedirect          Reason = 24
	RejPortRedirect        Reason = 25
	RejInvalidMTU          Reason = 26
	RejResources           Reason = 27
	RejConsumer            Reason = 28
	RejInvalidRNRRetry     Reason = 29
	RejDuplicateCommID     Reason = 30
	RejClassVersion        Reason = 31
	RejInvalidFlowLabel    Reason = 32
	RejInvalidAltFlowLabel Reason = 33
	RejVendorOption        Reason = 34
)

// Reasons is how many reasons have a name, counting 0, which is none.
const Reasons = int(RejVendorOption) + 1

var reasonNames = [Reasons]string{
	RejNoQP: "no queue pair", RejNoEEC: "no end-to-end context", RejNoResources: "no resources",
	RejTimeout: "timeout", RejUnsupported: "unsupported request",
	RejInvalidCommID: "invalid communication id", RejInvalidCommInstance: "invalid communication instance",
	RejInvalidServiceID: "nobody listens", RejInvalidTransport: "invalid transport type",
	RejStaleConn: "stale connection", RejRDCAbsent: "no reliable datagram channel",
	RejInvalidGID: "invalid GID", RejInvalidLID: "invalid LID", RejInvalidSL: "invalid service level",
	RejInvalidTrafficClass: "invalid traffic class", RejInvalidHopLimit: "invalid hop limit",
	RejInvalidRate: "invalid packet rate", RejInvalidAltGID: "invalid alternate GID",
	RejInvalidAltLID: "invalid alternate LID", RejInvalidAltSL: "invalid alternate service level",
	RejInvalidAltTraffic: "invalid alternate traffic class", RejInvalidAltHopLimit: "invalid alternate hop limit",
	RejInvalidAltRate: "invalid alternate packet rate", RejCMRedirect: "redirected", RejPortRedirect: "port redirected",
	RejInvalidMTU: "invalid path MTU", RejResources: "insufficient responder resources",
	RejConsumer: "rejected by the program", RejInvalidRNRRetry: "invalid RNR retry count",
	RejDuplicateCommID: "duplicate communication id", RejClassVersion: "unsupported class version",
	RejInvalidFlowLabel: "invalid flow label", RejInvalidAltFlowLabel: "invalid alternate flow label",
	RejVendorOption: "vendor option",
}

// String says what the reason is.
func (r Reason) String() string {
	if int(r) < Reasons && r != 0 {
		return reasonNames[r]
	}
	return "reason " + strconv.Itoa(int(r))
}

// A SidrStatus is how a service resolution ended.
type SidrStatus uint8

// The statuses of a SIDR_REP.
const (
	SidrValid       SidrStatus = 0 // queue pair and Q_Key are there
	SidrUnsupported SidrStatus = 1 // nobody listens
	SidrRejected    SidrStatus = 2 // the program does not want
	SidrNoQP        SidrStatus = 3 // no queue pair
	SidrRedirect    SidrStatus = 4 // ask another manager
	SidrVersion     SidrStatus = 5 // unsupported version
)

// String says what the status is.
func (s SidrStatus) String() string {
	names := [...]string{"valid", "nobody listens", "rejected by the program", "no queue pair", "redirected", "unsupported version"}
	if int(s) < len(names) {
		return names[s]
	}
	return "status " + strconv.Itoa(int(s))
}

// hexName returns a name for a value that has none.
func hexName(what string, v uint64) string { return what + "(0x" + strconv.FormatUint(v, 16) + ")" }
