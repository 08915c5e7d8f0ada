package sys

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Control messages: up to three of up to four bytes, in words because their
// headers must be aligned.
type control [9]uint64

// put appends a control message to the n bytes that there are. It returns where
// its data goes, and how many bytes there are now.
func (c *control) put(n int, level, kind int32, size int) (data unsafe.Pointer, end int) {
	at := unsafe.Add(unsafe.Pointer(c), n)
	head := (*unix.Cmsghdr)(at)
	head.Level, head.Type = level, kind
	head.SetLen(unix.CmsgLen(size))
	return unsafe.Add(at, unix.CmsgLen(0)), n + unix.CmsgSpace(size)
}

// A messages is the array of headers that sendmmsg and recvmmsg take, with the
// name and control buffer of each. It stays on the heap, at one place.
type messages struct {
	hdrs     []unix.Mmsghdr
	iovs     []unix.Iovec
	names    []unix.RawSockaddrInet6 // for IPv4 a shorter one lies at the start
	controls []control
}

func (m *messages) init(n, iovs int) {
	m.hdrs = make([]unix.Mmsghdr, n)
	m.iovs = make([]unix.Iovec, iovs)
	m.names = make([]unix.RawSockaddrInet6, n)
	m.controls = make([]control, n)
	for i := range m.hdrs {
		m.hdrs[i].Hdr.Name = (*byte)(unsafe.Pointer(&m.names[i]))
	}
}

// A SendBatch is a list of messages to send with one system call, each to one
// address and gathered from pieces. A message may be cut by the kernel into
// datagrams. It belongs to one goroutine at a time.
type SendBatch struct {
	m     messages
	n     int // messages that are complete
	used  int // pieces that are used up
	start int // the first piece of the message that is being made
}

// NewSendBatch returns a batch with room for so many messages and pieces.
func NewSendBatch(messages, pieces int) *SendBatch {
	b := new(SendBatch)
	b.m.init(messages, pieces)
	return b
}

// Free returns how many pieces there is room for.
func (b *SendBatch) Free() int { return len(b.m.iovs) - b.used }

// Len returns how many messages are complete.
func (b *SendBatch) Len() int { return b.n }

// Add appends p to the message that is being made, without copying it: it must
// stay until Reset. There must be room.
func (b *SendBatch) Add(p []byte) {
	if len(p) == 0 {
		return
	}
	iov := &b.m.iovs[b.used]
	iov.Base = unsafe.SliceData(p)
	iov.SetLen(len(p))
	b.used++
}

// End completes the message. It goes to the given address, which must be of
// the family of the socket that sends it. With a segment that is not 0 the
// kernel cuts it into datagrams of so many bytes; the last may be shorter.
func (b *SendBatch) End(u *UDP, to netip.AddrPort, segment int) {
	b.EndAs(u, to, segment, IPHeader{})
}

// EndAs is End for a message with a header of its own.
func (b *SendBatch) EndAs(u *UDP, to netip.AddrPort, segment int, as IPHeader) {
	h := &b.m.hdrs[b.n].Hdr
	h.Namelen = putSockaddr(&b.m.names[b.n], to, u.zone)
	h.Iov = &b.m.iovs[b.start]
	h.SetIovlen(b.used - b.start)
	h.Control = nil
	h.SetControllen(0)
	if segment > 0 || as != (IPHeader{}) {
		c := &b.m.controls[b.n]
		h.Control = (*byte)(unsafe.Pointer(c))
		h.SetControllen(c.describe(segment, as, to.Addr().Is4()))
	}
	b.start = b.used
	b.n++
}

// describe writes the control messages of a message to send, and returns how many
// bytes they take.
func (c *control) describe(segment int, as IPHeader, v4 bool) (n int) {
	var p unsafe.Pointer
	if segment > 0 {
		p, n = c.put(n, unix.IPPROTO_UDP, unix.UDP_SEGMENT, 2)
		*(*uint16)(p) = uint16(segment)
	}
	level, tos, ttl := int32(unix.IPPROTO_IP), int32(unix.IP_TOS), int32(unix.IP_TTL)
	if !v4 {
		level, tos, ttl = unix.IPPROTO_IPV6, unix.IPV6_TCLASS, unix.IPV6_HOPLIMIT
	}
	if as.TOS != 0 {
		p, n = c.put(n, level, tos, 4)
		*(*int32)(p) = int32(as.TOS)
	}
	if as.TTL != 0 {
		p, n = c.put(n, level, ttl, 4)
		*(*int32)(p) = int32(as.TTL)
	}
	return n
}

// putSockaddr writes the address as the kernel wants it, and returns its length.
func putSockaddr(s *unix.RawSockaddrInet6, to netip.AddrPort, zone uint32) uint32 {
	port := (*[2]byte)(unsafe.Pointer(&s.Port)) // at the same place in both
	binary.BigEndian.PutUint16(port[:], to.Port())
	if a := to.Addr(); a.Is4() {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(s))
		v4.Family, v4.Addr = unix.AF_INET, a.As4()
		return unix.SizeofSockaddrInet4
	}
	s.Family, s.Flowinfo, s.Addr, s.Scope_id = unix.AF_INET6, 0, to.Addr().As16(), zone
	return unix.SizeofSockaddrInet6
}

// Send sends the messages from the given one on, without blocking, and returns
// how many went. It is fewer than all if the next one could not be sent, and
// calling again from there says why: then n is 0 and the error a unix.Errno.
//
// Go's scheduler is not told of the call, nor of Recv's: it never blocks, and a
// scheduler that is told takes the processor away from a call that copies for
// 20 microseconds, and starts a thread for it.
func (b *SendBatch) Send(u *UDP, from int) (n int, err error) {
	sent()
	for {
		r, _, e := unix.RawSyscall6(unix.SYS_SENDMMSG, uintptr(u.fd),
			uintptr(unsafe.Pointer(&b.m.hdrs[from])), uintptr(b.n-from),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch e {
		case 0:
			return int(r), nil
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}

// Reset empties the batch, and forgets the memory that it refers to.
func (b *SendBatch) Reset() {
	clear(b.m.iovs[:b.used])
	b.n, b.used, b.start = 0, 0, 0
}

// A RecvBatch receives messages into buffers with one system call. It belongs
// to one goroutine at a time.
type RecvBatch struct {
	m       messages
	touched int // headers that the kernel may have written
}

// NewRecvBatch returns a batch for up to n messages.
func NewRecvBatch(n int) *RecvBatch {
	b := new(RecvBatch)
	b.m.init(n, n)
	for i := range b.m.hdrs {
		b.m.hdrs[i].Hdr.Iov = &b.m.iovs[i]
		b.m.hdrs[i].Hdr.SetIovlen(1)
		b.m.hdrs[i].Hdr.Control = (*byte)(unsafe.Pointer(&b.m.controls[i]))
	}
	b.touched = n
	return b
}

// Set makes p, which is not empty, the buffer for message i.
func (b *RecvBatch) Set(i int, p []byte) {
	b.m.iovs[i].Base = unsafe.SliceData(p)
	b.m.iovs[i].SetLen(len(p))
}

// Recv receives up to n messages, without blocking, and returns how many came.
// The error is a unix.Errno: EAGAIN if there are none.
func (b *RecvBatch) Recv(u *UDP, n int) (int, error) {
	for i := range b.m.hdrs[:b.touched] {
		h := &b.m.hdrs[i].Hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(int(unsafe.Sizeof(control{})))
	}
	b.touched = 0
	for {
		r, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(u.fd),
			uintptr(unsafe.Pointer(&b.m.hdrs[0])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
		switch e {
		case 0:
			b.touched = int(r)
			received()
			return int(r), nil
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}

// Got returns what message i of the last Recv is.
func (b *RecvBatch) Got(i int) Received {
	h, s := &b.m.hdrs[i], &b.m.names[i]
	r := Received{Len: int(h.Len), Truncated: h.Hdr.Flags&unix.MSG_TRUNC != 0}
	port := (*[2]byte)(unsafe.Pointer(&s.Port))
	r.Port = binary.BigEndian.Uint16(port[:])
	if s.Family == unix.AF_INET {
		v4 := (*unix.RawSockaddrInet4)(unsafe.Pointer(s))
		r.IP[10], r.IP[11] = 0xff, 0xff
		copy(r.IP[12:], v4.Addr[:])
	} else {
		r.IP = s.Addr
	}
	for c, n := &b.m.controls[i], 0; n+unix.CmsgLen(1) <= int(h.Hdr.Controllen); {
		n = r.note(c, n)
	}
	return r
}

// note takes note of the control message that begins at n, and returns where the
// next one does.
func (r *Received) note(c *control, n int) (next int) {
	at := unsafe.Add(unsafe.Pointer(c), n)
	head := (*unix.Cmsghdr)(at)
	data := unsafe.Add(at, unix.CmsgLen(0))
	switch [2]int32{head.Level, head.Type} {
	case [2]int32{unix.IPPROTO_UDP, unix.UDP_GRO}:
		r.Segment = int(*(*int32)(data))
	case [2]int32{unix.IPPROTO_IP, unix.IP_TOS}:
		r.Header.TOS = *(*uint8)(data)
	case [2]int32{unix.IPPROTO_IPV6, unix.IPV6_TCLASS}:
		r.Header.TOS = uint8(*(*int32)(data))
	case [2]int32{unix.IPPROTO_IP, unix.IP_TTL}, [2]int32{unix.IPPROTO_IPV6, unix.IPV6_HOPLIMIT}:
		r.Header.TTL = uint8(*(*int32)(data))
	}
	return n + unix.CmsgSpace(max(int(head.Len)-unix.CmsgLen(0), 0))
}
