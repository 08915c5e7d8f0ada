package roce

import "strconv"

// A Syndrome is the first byte of an [AETH]: what a responder says of a request.
//
//	 7   6 5   4 3 2 1 0
//	+---+-----+-----------+
//	| 0 | 0 0 | credits   |  ACK; 31: no credit information
//	| 0 | 0 1 | timer     |  RNR NAK
//	| 0 | 1 1 | code      |  NAK
//	+---+-----+-----------+
type Syndrome uint8

// The syndromes with a fixed value.
const (
	AckUnlimited         Syndrome = 0x1f // ACK without credit information
	NakSequence          Syndrome = 0x60 // PSN sequence error: send again from here
	NakInvalidRequest    Syndrome = 0x61 // the request may not come, or not like this
	NakRemoteAccess      Syndrome = 0x62 // key, range or right is wrong
	NakRemoteOperational Syndrome = 0x63 // the responder could not finish
	NakInvalidRD         Syndrome = 0x64 // RD only
)

// A SyndromeKind is what the upper bits of a syndrome say.
type SyndromeKind uint8

// The kinds of syndrome.
const (
	KindAck      SyndromeKind = iota // a positive acknowledgement
	KindRNRNak                       // receiver not ready: come back after the timer
	KindReserved                     // no meaning; also when the top bit is set
	KindNak                          // an error
)

// AckCredits returns the ACK that grants as many receives as possible, but not
// more than n: the code is exact only for some counts.
func AckCredits(n int) Syndrome {
	code := 0
	for code < len(credits)-1 && int(credits[code+1]) <= n {
		code++
	}
	return Syndrome(code)
}

// RNRNak returns the RNR NAK that asks to wait for t.
func RNRNak(t RNRTimer) Syndrome { return 0x20 | Syndrome(t&31) }

// Kind returns what s is.
func (s Syndrome) Kind() SyndromeKind {
	if s&0x80 != 0 {
		return KindReserved
	}
	return SyndromeKind(s >> 5)
}

// Credits returns how many receives an ACK grants. It is not ok for another
// kind, and for an ACK without credit information.
func (s Syndrome) Credits() (n int, ok bool) {
	if s.Kind() != KindAck || s == AckUnlimited {
		return 0, false
	}
	return int(credits[s]), true
}

// RNRTimer returns the timer code of an RNR NAK. For another kind it means
// nothing.
func (s Syndrome) RNRTimer() RNRTimer { return RNRTimer(s & 31) }

// credits has the receives that each credit code grants (IBTA Vol 1, 9.7.7.2).
var credits = [31]uint16{
	0, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192,
	256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768,
}

// Append appends s in words: ACK, ACK/24, RNR_NAK/640us, NAK/sequence.
func (s Syndrome) Append(b []byte) []byte {
	switch s.Kind() {
	case KindAck:
		b = append(b, "ACK"...)
		if n, ok := s.Credits(); ok {
			b = strconv.AppendInt(append(b, '/'), int64(n), 10)
		}
		return b
	case KindRNRNak:
		b = strconv.AppendInt(append(b, "RNR_NAK/"...), int64(s.RNRTimer().Microseconds()), 10)
		return append(b, "us"...)
	case KindNak:
		return appendNak(b, s)
	}
	return appendHex(append(b, "reserved/"...), uint64(s))
}

// String returns what Append appends.
func (s Syndrome) String() string { return string(s.Append(nil)) }

func appendNak(b []byte, s Syndrome) []byte {
	b = append(b, "NAK/"...)
	switch s {
	case NakSequence:
		return append(b, "sequence"...)
	case NakInvalidRequest:
		return append(b, "invalid_request"...)
	case NakRemoteAccess:
		return append(b, "remote_access"...)
	case NakRemoteOperational:
		return append(b, "remote_operational"...)
	case NakInvalidRD:
		return append(b, "invalid_rd"...)
	}
	return appendHex(b, uint64(s))
}
