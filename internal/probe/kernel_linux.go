package probe

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Memlock returns how many bytes this process may lock into memory; max is
// ^uint64(0) for no limit.
func Memlock() (max uint64, err error) {
	var r unix.Rlimit
	err = unix.Getrlimit(unix.RLIMIT_MEMLOCK, &r)
	return r.Cur, err
}

// scratch makes a file that goes away with its last descriptor, and needs no
// folder that can be written to.
func scratch() (*os.File, error) {
	fd, err := unix.MemfdCreate("probe", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	return os.NewFile(uintptr(fd), "probe"), nil
}

// What the probes of the offloads send: two segments.
const (
	segment  = 1000
	segments = 2
)

// UDPSegment tries generic segmentation offload: one send that the kernel cuts
// into packets.
func UDPSegment() error { return offload(false) }

// UDPReceive tries generic receive offload: packets of one flow that arrive as
// one piece. It needs UDPSegment, because on loopback that is where they come
// from.
func UDPReceive() error { return offload(true) }

// offload sends two segments at once over loopback. They must arrive as two
// packets, or as one piece where receive offload is asked for.
func offload(receive bool) error {
	to, err := listenLoopback()
	if err != nil {
		return err
	}
	defer to.Close()
	from, err := listenLoopback()
	if err != nil {
		return err
	}
	defer from.Close()
	if err := setUDP(from, "UDP_SEGMENT", unix.UDP_SEGMENT, segment); err != nil {
		return err
	}
	want := segment
	if receive {
		want = segments * segment
		if err := setUDP(to, "UDP_GRO", unix.UDP_GRO, 1); err != nil {
			return err
		}
	}
	if _, err := from.WriteToUDPAddrPort(make([]byte, segments*segment), to.LocalAddr().(*net.UDPAddr).AddrPort()); err != nil {
		return err
	}
	if err := to.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	n, err := to.Read(make([]byte, 1<<16))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return errors.New("two segments were sent, and nothing arrived within a second")
	}
	if err == nil && n != want {
		err = fmt.Errorf("the first read gave %d bytes instead of %d", n, want)
	}
	return err
}

func listenLoopback() (*net.UDPConn, error) {
	return net.ListenUDP("udp4", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 0)))
}

// setUDP sets a socket option of UDP.
func setUDP(c *net.UDPConn, name string, option, value int) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	if err := raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_UDP, option, value) }); err != nil {
		return err
	}
	return os.NewSyscallError("setsockopt "+name, failed)
}
