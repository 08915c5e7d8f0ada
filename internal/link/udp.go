package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/sys"
	"github.com/gantry-rdma/gantry/roce"
)

// A UDPConfig says how [ListenUDP] opens a link. Only Addr is needed.
type UDPConfig struct {
	// Addr is an address of this machine, IPv4 or IPv6; a link-local one needs
	// its zone. The unspecified address will not do: the ICRC covers it.
	Addr netip.Addr
	// Port is the port to listen on: 4791 if 0. Other stacks know only 4791.
	Port uint16
	// MTU is the largest payload of a packet in bytes: what the network
	// interface of Addr allows if 0, otherwise the largest RoCE MTU that is not
	// larger, and at least 256.
	MTU int
	// RecvBuffer and SendBuffer are the sizes of the socket buffers to ask for,
	// in bytes: 16 MiB and 4 MiB if 0. Stats says what the kernel gave.
	RecvBuffer, SendBuffer int
	// Buffers is how many datagrams may be received and not given back: 256 if
	// 0. One takes 64 KiB of address space, and memory when it is first used.
	Buffers int
	// Plain sends each packet alone and asks the kernel to merge none.
	Plain bool
}

// A UDP is a link over a UDP socket: RoCEv2, without privileges.
//
// Sending computes the ICRC over the pieces of a payload where they lie, and
// the kernel gathers them; frames are back when Send returns. Runs of packets
// of one size to one peer go as one datagram that the kernel cuts.
//
// Received frames lie in buffers of the link. A buffer is used again when all
// frames in it were given back; while none is left, Recv returns nothing and
// the socket buffer fills. Payloads of a few bytes are copied, so that an
// acknowledgement does not hold a buffer.
type UDP struct {
	sock    *sys.UDP
	local   frame.Addr
	mtu     int
	send    sender
	recv    receiver
	groups  groups // under the lock of recv
	closed  atomic.Bool
	blocked atomic.Bool // a Send waits for room
	room    atomic.Pointer[func()]
	sent    sentCounters
	got     recvCounters
}

// deliveryPatience is how long a link waits for an IPv6 address that was added a
// moment ago. The system takes less than a millisecond to complete it, and
// hundreds where much goes on. Until then packets to it are dropped, and their
// senders are told that they have left.
const deliveryPatience = 2 * time.Second

// ListenUDP opens a link. When it returns, what is sent to the link arrives, if
// need be after a wait of two seconds at most. The error wraps a syscall.Errno,
// and says what to do if the port is taken: EADDRINUSE; or if no interface has
// the address: EADDRNOTAVAIL. Where there is no Linux it is
// errors.ErrUnsupported.
func ListenUDP(c UDPConfig) (*UDP, error) {
	c = c.filled()
	local := netip.AddrPortFrom(c.Addr.Unmap(), c.Port)
	if !c.Addr.IsValid() || c.Addr.IsUnspecified() || c.Addr.IsMulticast() {
		return nil, fmt.Errorf("listen on %v: not the address of one interface: %w", c.Addr, syscall.EINVAL)
	}
	has, err := interfaceOf(local.Addr())
	if err != nil {
		return nil, fmt.Errorf("listen on %v: %w", local, err)
	}
	options := sys.UDPOptions{
		RecvBuffer: c.RecvBuffer, SendBuffer: c.SendBuffer, Merge: !c.Plain, Zone: has.zone, Interface: has.index,
	}
	sock, err := sys.OpenUDP(local, options)
	if err != nil {
		return nil, fmt.Errorf("listen on %v: %w%s", local, err, advice(err, local))
	}
	// Whoever opens a link tells others its address next. Where the system never
	// says that it delivers, because it keeps such routes in a table of their own
	// (VRF) or tells nothing of them, the link is as good as it can be.
	_, _ = sys.AwaitDelivery(local.Addr(), deliveryPatience)
	if c.MTU <= 0 {
		c.MTU = has.mtu
	}
	u := &UDP{sock: sock, local: frame.AddrOf(local), mtu: payloadMTU(c.MTU)}
	u.groups.options = options
	u.send.init(local, sock.CanCut() && !c.Plain)
	u.recv.init(u, local, c)
	return u, nil
}

func (c UDPConfig) filled() UDPConfig {
	if c.Port == 0 {
		c.Port = roce.Port
	}
	if c.RecvBuffer == 0 {
		c.RecvBuffer = 16 << 20
	}
	if c.SendBuffer == 0 {
		c.SendBuffer = 4 << 20
	}
	if c.Buffers <= 0 {
		c.Buffers = 256
	}
	return c
}

// An iface is what is known of the interface that has an address.
type iface struct {
	zone  uint32 // the number of the interface that the address's zone names, or 0
	index uint32 // the number of the one that has it, or 0
	mtu   int    // the RoCE MTU: 1024, which fits Ethernet, if none is found
}

// interfaceOf looks for the interface that has an address.
func interfaceOf(a netip.Addr) (has iface, err error) {
	has.mtu = roce.MTU1024.Bytes()
	interfaces, err := net.Interfaces()
	if err != nil {
		return has, nil // a sandbox may hide them: then the caller says what fits
	}
	for _, i := range interfaces {
		if a.Zone() == i.Name || a.Zone() == strconv.Itoa(i.Index) {
			has.zone, has.index = uint32(i.Index), uint32(i.Index)
		}
		addrs, _ := i.Addrs()
		for _, addr := range addrs {
			p, ok := addr.(*net.IPNet)
			if !ok {
				continue
			}
			ip, _ := netip.AddrFromSlice(p.IP)
			if ip.Unmap() == a.WithZone("") || i.Flags&net.FlagLoopback != 0 && a.IsLoopback() {
				has.mtu = roce.MTUForLink(i.MTU).Bytes()
				if has.zone == 0 {
					has.index = uint32(i.Index)
				}
			}
		}
	}
	if a.Zone() != "" && has.zone == 0 {
		return has, fmt.Errorf("no interface %s: %w", a.Zone(), syscall.ENODEV)
	}
	return has, nil
}

// advice says what may be done about an error of opening a socket.
func advice(err error, local netip.AddrPort) string {
	switch {
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return ": no network interface of this machine has the address"
	case !errors.Is(err, syscall.EADDRINUSE):
		return ""
	}
	if _, e := os.Stat("/sys/module/rdma_rxe"); e == nil && local.Port() == roce.Port {
		return ": the kernel module rdma_rxe is loaded and holds the port on every address; " +
			"remove it (modprobe -r rdma_rxe), or run in another network namespace"
	}
	return fmt.Sprintf(": another socket has it (ss -ulnp 'sport = :%d' shows whose); "+
		"end that program, or use another address", local.Port())
}

// Local returns the address of the link, without a zone.
func (u *UDP) Local() frame.Addr { return u.local }

// MTU returns the largest payload of a packet in bytes.
func (u *UDP) MTU() int { return u.mtu }

// OnReady does nothing: the link has a descriptor.
func (u *UDP) OnReady(func()) {}

// OnRoom sets what Recv calls when the socket has room again.
func (u *UDP) OnRoom(f func()) { set(&u.room, f) }

// Pollable returns a descriptor for poll and epoll. It is readable when Recv
// has something, except for frames that did not fit the last call of Recv. It
// is not ok after Close.
func (u *UDP) Pollable() (fd int, ok bool) {
	if u.closed.Load() {
		return -1, false
	}
	return u.sock.FD(), true
}

// Stats returns the counters.
func (u *UDP) Stats() Stats {
	var s Stats
	u.send.mu.Lock()
	defer u.send.mu.Unlock()
	u.recv.mu.Lock()
	defer u.recv.mu.Unlock()
	u.sent.read(&s)
	u.got.read(&s)
	if u.send.err != 0 {
		s.SendError = u.send.err
	}
	if !u.closed.Load() {
		s.RecvBuffer, s.SendBuffer = u.sock.RecvBuffer(), u.sock.SendBuffer()
		s.Overflow = u.sock.Drops()
	}
	return s
}

// Close closes the socket. Frames that were received stay valid until they are
// given back.
func (u *UDP) Close() error {
	u.send.mu.Lock()
	defer u.send.mu.Unlock()
	u.recv.mu.Lock()
	defer u.recv.mu.Unlock()
	if u.closed.Swap(true) {
		return nil
	}
	err := errors.Join(u.groups.close(), u.sock.Close())
	u.recv.gate.signal()
	return err
}
