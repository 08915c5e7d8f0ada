package mad

import "encoding/binary"

// Len is the length of every MAD, in bytes.
const Len = 256

// headLen is the length of the header.
const headLen = 24

// A MAD is a management datagram.
//
//	 0               1               2               3
//	+---------------+---------------+---------------+---------------+
//	| base version  | class         | class version | method        |
//	+---------------+---------------+---------------+---------------+
//	| status                        | class specific                |
//	+-------------------------------+-------------------------------+
//	| transaction                                                   |
//	|                                                               |
//	+-------------------------------+-------------------------------+
//	| attribute                     | reserved                      |
//	+-------------------------------+-------------------------------+
//	| attribute modifier                                            |
//	+---------------------------------------------------------------+
type MAD [Len]byte

// What the header of each message of connection management holds.
const (
	baseVersion  = 1
	class        = 7
	classVersion = 2
	methodSend   = 3
)

// Parse checks that b is one MAD. It does not look into it: see MAD.CM.
func Parse(b []byte) (m *MAD, ok bool) {
	if len(b) != Len {
		return nil, false
	}
	return (*MAD)(b), true
}

// New returns a message of connection management with nothing in it.
func New(a Attr, transaction uint64) *MAD {
	m := &MAD{baseVersion, class, classVersion, methodSend}
	binary.BigEndian.PutUint64(m[8:], transaction)
	binary.BigEndian.PutUint16(m[16:], uint16(a))
	return m
}

// CM reports whether the header is that of a message of connection management,
// in the version that is known here.
func (m *MAD) CM() bool {
	return m[0] == baseVersion && m[1] == class && m[2] == classVersion && m[3] == methodSend
}

// Class returns the management class; 7 is connection management.
func (m *MAD) Class() uint8 { return m[1] }

// ClassVersion returns the version of the class.
func (m *MAD) ClassVersion() uint8 { return m[2] }

// Method returns what is to be done with the attribute; 3 is Send.
func (m *MAD) Method() uint8 { return m[3] }

// Status returns the status, which messages of connection management have 0.
func (m *MAD) Status() uint16 { return binary.BigEndian.Uint16(m[4:]) }

// Transaction returns the transaction identifier. The messages of one exchange
// have one.
func (m *MAD) Transaction() uint64 { return binary.BigEndian.Uint64(m[8:]) }

// Attr returns which message it is.
func (m *MAD) Attr() Attr { return Attr(binary.BigEndian.Uint16(m[16:])) }

// An Attr is the kind of a message.
type Attr uint16

// The messages of connection management.
const (
	REQ     Attr = iota + 0x10 // asks for a connection
	MRA                        // wait: the answer takes longer
	REJ                        // no
	REP                        // the answer to a REQ
	RTU                        // ready to use: the answer to a REP
	DREQ                       // asks to end a connection
	DREP                       // the answer to a DREQ
	SIDRREQ                    // asks which queue pair serves datagrams
	SIDRREP                    // the answer
	LAP                        // load an alternate path: recognised, not served
	APR                        // the answer to a LAP
)

// Attrs is how many messages there are: from REQ on.
const Attrs = int(APR-REQ) + 1

var attrNames = [Attrs]string{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"}

// Known reports whether a is one of the messages.
func (a Attr) Known() bool { return a >= REQ && a <= APR }

// String returns the name that the specification has.
func (a Attr) String() string {
	if !a.Known() {
		return hexName("ATTR", uint64(a))
	}
	return attrNames[a-REQ]
}
