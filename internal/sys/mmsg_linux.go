package sys

import (
	"encoding/binary"
	"net/netip"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Control messages: one of two bytes to send, one of four to receive, in words
// because their header must be aligned.
var (
	sendControl = unix.CmsgSpace(2)
	recvControl = unix.CmsgSpace(4)
)

type control [4]uint64

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
	h := &b.m.hdrs[b.n].Hdr
	h.Namelen = putSockaddr(&b.m.names[b.n], to, u.zone)
	h.Iov = &b.m.iovs[b.start]
	h.SetIovlen(b.used - b.start)
	h.Control = nil
	h.SetControllen(0)
	if segment > 0 {
		c := &b.m.controls[b.n]
		head := (*unix.Cmsghdr)(unsafe.Pointer(c))
		head.Level, head.Type = unix.IPPROTO_UDP, unix.UDP_SEGMENT
		head.SetLen(unix.CmsgLen(2))
		*(*uint16)(unsafe.Add(unsafe.Pointer(c), unix.CmsgLen(0))) = uint16(segment)
		h.Control = (*byte)(unsafe.Pointer(c))
		h.SetControllen(sendControl)
	}
	b.start = b.used
	b.n++
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
		h.SetControllen(recvControl)
	}
	b.touched = 0
	for {
		r, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(u.fd),
			uintptr(unsafe.Pointer(&b.m.hdrs[0])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
		switch e {
		case 0:
			b.touched = int(r)
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
	if int(h.Hdr.Controllen) >= unix.CmsgLen(4) {
		c := &b.m.controls[i]
		head := (*unix.Cmsghdr)(unsafe.Pointer(c))
		if head.Level == unix.IPPROTO_UDP && head.Type == unix.UDP_GRO {
			r.Segment = int(*(*int32)(unsafe.Add(unsafe.Pointer(c), unix.CmsgLen(0))))
		}
	}
	return r
}
