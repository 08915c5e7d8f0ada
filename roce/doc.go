// Package roce reads and writes the bytes of RoCEv2, RDMA over UDP port 4791:
// headers as views, the opcode table, PSN arithmetic, the invariant CRC and a
// one-line printer. It knows no socket, no clock and no queue pair, allocates
// nothing on the data path, and needs only the standard library.
//
// A packet lies on the wire like this; the UDP payload is what [Parse] reads:
//
//	Ethernet | IPv4 or IPv6 | UDP | BTH | extension headers | payload | pad | ICRC
//	                              '------------- UDP payload -------------------'
//
// Every header is an array type with a pointer as its view: [BTH], [RETH],
// [AETH] and so on. Length is checked once, by [Parse] or [ParseHeaders]; after
// that the accessors cannot fail, whatever the bytes say. Setters write in
// place. Which headers an [Opcode] has is in one table: [Opcode.Has].
//
// To send, [Build] lays out the headers in the caller's array, and a [Flow]
// computes the ICRC over them and over the payload piece by piece. To receive,
// [Parse] the datagram and [Flow.Check] its ICRC. With whole IP packets, as a
// capture or a raw socket has them, [ParseIP] and [Datagram.Valid] do the same.
//
// Reliable connection (RC), unreliable connection (UC) and unreliable datagram
// (UD) opcodes are known, FLUSH, ATOMIC WRITE and the congestion notification
// packet (CNP) included. RD and XRC are recognised as transports, and their
// packets are refused. RoCEv1, which has no UDP, is not read.
//
// Nothing here keeps state: all functions may be called by any goroutine, and a
// view is as safe to share as the bytes under it.
package roce

// Port is the UDP destination port of RoCEv2.
const Port = 4791

// The lengths of headers and trailer, in bytes.
const (
	BTHLen          = 12
	DETHLen         = 8
	RETHLen         = 16
	AtomicETHLen    = 28
	AETHLen         = 4
	AtomicAckETHLen = 8
	ImmDtLen        = 4
	IETHLen         = 4
	FETHLen         = 4
	ICRCLen         = 4
	GRHLen          = 40
)

// HeadSize is the size of the array that [Build] writes into. The longest run
// of headers, that of an atomic request, takes 40 bytes of it.
const HeadSize = 64
