package verbs

import (
	"net/netip"

	"github.com/gantry-rdma/gantry/roce"
)

// An AttrMask says which attributes a Modify sets. The numbers are those of
// libibverbs.
type AttrMask uint32

// The attributes.
const (
	AttrState           AttrMask = 1 << 0
	AttrCurState        AttrMask = 1 << 1
	AttrSQDNotify       AttrMask = 1 << 2
	AttrAccess          AttrMask = 1 << 3
	AttrPKeyIndex       AttrMask = 1 << 4
	AttrPort            AttrMask = 1 << 5
	AttrQKey            AttrMask = 1 << 6
	AttrAV              AttrMask = 1 << 7
	AttrPathMTU         AttrMask = 1 << 8
	AttrTimeout         AttrMask = 1 << 9
	AttrRetryCnt        AttrMask = 1 << 10
	AttrRNRRetry        AttrMask = 1 << 11
	AttrRQPSN           AttrMask = 1 << 12
	AttrMaxQPRdAtomic   AttrMask = 1 << 13
	AttrAltPath         AttrMask = 1 << 14
	AttrMinRNRTimer     AttrMask = 1 << 15
	AttrSQPSN           AttrMask = 1 << 16
	AttrMaxDestRdAtomic AttrMask = 1 << 17
	AttrPathMigState    AttrMask = 1 << 18
	AttrCap             AttrMask = 1 << 19
	AttrDestQPN         AttrMask = 1 << 20
)

// An AddressVector says where a peer is.
type AddressVector struct {
	DGID         GID   // the peer's
	SGIDIndex    int   // always 0
	HopLimit     uint8 // 0: what the system has for such packets
	TrafficClass uint8 // DSCP and ECN; IPv4 calls it type of service
}

// AVTo returns the address vector of a peer's address.
func AVTo(a netip.Addr) AddressVector { return AddressVector{DGID: GIDOf(a)} }

// QPAttr are the attributes of a queue pair.
type QPAttr struct {
	State           QPState       // to go to
	CurState        QPState       // what the caller believes the state to be
	SQDNotify       bool          // an event says when SQD is reached
	Access          Access        // what the peer may do: the remote rights
	PKeyIndex       int           // always 0
	Port            int           // always 1
	QKey            uint32        // UD: what datagrams must name. Queue pair 1 has its own, whatever this says
	AV              AddressVector // where the peer is
	PathMTU         roce.MTU      // not above the active MTU of the port
	Timeout         uint8         // local ACK timeout: 4.096 us << Timeout; 0: wait for ever
	RetryCnt        uint8         // 0 to 7
	RNRRetry        uint8         // 0 to 7; 7: for ever
	RQPSN           roce.PSN      // of the first packet to come
	SQPSN           roce.PSN      // of the first packet to be sent
	MaxQPRdAtomic   uint8         // READs and atomics outstanding at most
	MaxDestRdAtomic uint8         // READs and atomics that the peer may have outstanding
	MinRNRTimer     roce.RNRTimer // how long the peer waits when no receive is posted
	DestQPN         uint32        // the peer's queue pair

	SQDraining bool  // Query: SQD is not reached yet
	Cap        QPCap // Query
}

// A transition is a change of state, with the attributes that it must have and
// those that it may have besides (IBTA Vol 1, 11.2.5.2).
type transition struct {
	from, to  QPState
	must, may AttrMask
}

// anyState stands for all states: everything may go to RESET and to ERR.
const anyState QPState = 255

// transitions are those of each type. They are what the kernel's RDMA core asks
// for, which holds for every driver.
var transitions = map[QPType][]transition{RC: rcTransitions, UC: ucTransitions, UD: udTransitions, GSI: gsiTransitions}

var rcTransitions = []transition{
	{StateReset, StateInit, AttrPKeyIndex | AttrPort | AttrAccess, 0},
	{StateInit, StateInit, 0, AttrPKeyIndex | AttrPort | AttrAccess},
	{StateInit, StateRTR, AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestRdAtomic | AttrMinRNRTimer,
		AttrAltPath | AttrAccess | AttrPKeyIndex},
	{StateRTR, StateRTS, AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrSQPSN | AttrMaxQPRdAtomic,
		AttrCurState | AttrAltPath | AttrAccess | AttrMinRNRTimer | AttrPathMigState},
	{StateRTS, StateRTS, 0, AttrCurState | AttrAccess | AttrAltPath | AttrPathMigState | AttrMinRNRTimer},
	{StateRTS, StateSQD, 0, AttrSQDNotify},
	{StateSQD, StateRTS, 0, AttrCurState | AttrAltPath | AttrAccess | AttrMinRNRTimer | AttrPathMigState},
	{StateSQD, StateSQD, 0, AttrPort | AttrAV | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrMaxQPRdAtomic |
		AttrMaxDestRdAtomic | AttrCurState | AttrAltPath | AttrAccess | AttrPKeyIndex | AttrMinRNRTimer | AttrPathMigState},
	{anyState, StateReset, 0, 0},
	{anyState, StateErr, 0, 0},
}

var ucTransitions = []transition{
	{StateReset, StateInit, AttrPKeyIndex | AttrPort | AttrAccess, 0},
	{StateInit, StateInit, 0, AttrPKeyIndex | AttrPort | AttrAccess},
	{StateInit, StateRTR, AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN, AttrAltPath | AttrAccess | AttrPKeyIndex},
	{StateRTR, StateRTS, AttrSQPSN, AttrCurState | AttrAltPath | AttrAccess | AttrPathMigState},
	{StateRTS, StateRTS, 0, AttrCurState | AttrAccess | AttrAltPath | AttrPathMigState},
	{StateRTS, StateSQD, 0, AttrSQDNotify},
	{StateSQD, StateRTS, 0, AttrCurState | AttrAltPath | AttrAccess | AttrPathMigState},
	{StateSQD, StateSQD, 0, AttrAV | AttrAltPath | AttrAccess | AttrPKeyIndex | AttrPathMigState},
	{anyState, StateReset, 0, 0},
	{anyState, StateErr, 0, 0},
}

var udTransitions = []transition{
	{StateReset, StateInit, AttrPKeyIndex | AttrPort | AttrQKey, 0},
	{StateInit, StateInit, 0, AttrPKeyIndex | AttrPort | AttrQKey},
	{StateInit, StateRTR, 0, AttrPKeyIndex | AttrQKey},
	{StateRTR, StateRTS, AttrSQPSN, AttrCurState | AttrQKey},
	{StateRTS, StateRTS, 0, AttrCurState | AttrQKey},
	{StateRTS, StateSQD, 0, AttrSQDNotify},
	{StateSQD, StateRTS, 0, AttrCurState | AttrQKey},
	{StateSQD, StateSQD, 0, AttrPKeyIndex | AttrQKey},
	{anyState, StateReset, 0, 0},
	{anyState, StateErr, 0, 0},
}

// gsiTransitions are those of UD, without the port: queue pair 1 is of one.
var gsiTransitions = func() (all []transition) {
	for _, t := range udTransitions {
		all = append(all, transition{t.from, t.to, t.must &^ AttrPort, t.may &^ AttrPort})
	}
	return all
}()

// unsupported are attributes that no Modify takes, because there is one port
// and one path.
const unsupported = AttrAltPath | AttrPathMigState | AttrCap

// allowed checks a change of a queue pair of some type against its table.
func allowed(of QPType, from, to QPState, mask AttrMask) error {
	for _, t := range transitions[of] {
		if t.to != to || t.from != from && t.from != anyState {
			continue
		}
		mask &^= AttrState
		if missing := t.must &^ mask; missing != 0 {
			return invalid("modify from %v to %v without attributes %#x", from, to, uint32(missing))
		}
		if extra := mask&^(t.must|t.may) | mask&unsupported; extra != 0 {
			return invalid("modify from %v to %v with attributes %#x", from, to, uint32(extra))
		}
		return nil
	}
	return invalid("modify from %v to %v", from, to)
}

// The masks that a program needs to connect a queue pair: those without a type
// are for RC.
const (
	MaskInit = AttrState | AttrPKeyIndex | AttrPort | AttrAccess
	MaskRTR  = AttrState | AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN | AttrMaxDestRdAtomic | AttrMinRNRTimer
	MaskRTS  = AttrState | AttrTimeout | AttrRetryCnt | AttrRNRRetry | AttrSQPSN | AttrMaxQPRdAtomic

	MaskInitUC = MaskInit
	MaskRTRUC  = AttrState | AttrAV | AttrPathMTU | AttrDestQPN | AttrRQPSN
	MaskRTSUC  = AttrState | AttrSQPSN

	MaskInitUD = AttrState | AttrPKeyIndex | AttrPort | AttrQKey
	MaskRTRUD  = AttrState
	MaskRTSUD  = AttrState | AttrSQPSN

	MaskInitGSI = AttrState | AttrPKeyIndex | AttrQKey // then as UD
)
