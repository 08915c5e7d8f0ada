package sys

// UDPOptions say what kind of UDP socket OpenUDP makes.
type UDPOptions struct {
	// RecvBuffer and SendBuffer are the sizes of the socket buffers to ask for,
	// in bytes. The kernel gives what it allows: see RecvBuffer of the socket.
	RecvBuffer, SendBuffer int
	// Merge asks the kernel to hand over equal datagrams of one sender that
	// follow each other as one.
	Merge bool
	// Zone is the number of the interface that link-local IPv6 addresses are
	// on, those of peers too.
	Zone uint32
	// Interface is the number of the interface that multicast over IPv6 uses.
	// IPv4 uses the one that has the address of the socket.
	Interface uint32
}

// An IPHeader is what a program may say and see of it.
type IPHeader struct {
	TOS uint8 // IPv6: traffic class
	TTL uint8 // IPv6: hop limit; to be sent, 0 stands for what the system has
}

// MaxSegments is the most datagrams that one message of a [SendBatch] may be
// cut into: the limit of the older kernels.
const MaxSegments = 64

// A Received says what one message of a [RecvBatch] is.
type Received struct {
	Len       int      // bytes
	Segment   int      // of what length the datagrams were that were merged, or 0
	IP        [16]byte // of the sender; IPv4 is ::ffff:a.b.c.d
	Port      uint16
	Header    IPHeader // zero without ShowHeaders of the socket
	Truncated bool     // it was longer than its buffer
}
