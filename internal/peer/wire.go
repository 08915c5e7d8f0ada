package peer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/gantry-rdma/gantry/internal/pcapng"
	"github.com/gantry-rdma/gantry/internal/script"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// A Wire is a script.Wire over UDP sockets. It takes packets as they are: what
// is wrong with them is for the script to say.
//
// It is used by one goroutine. Each socket has a goroutine of its own, which
// Close ends.
type Wire struct {
	peer    netip.AddrPort
	port    uint16
	zone    uint32
	sockets map[netip.Addr]*socket
	in      chan script.Arrival
	capture *capture
	stop    chan struct{}
	readers sync.WaitGroup
}

// backlog is how many packets may wait for the script before they wait in the
// kernel.
const backlog = 1024

// socketBuffer is what is asked for in bytes.
const socketBuffer = 4 << 20

// ListenWire opens a wire between two addresses. An address of this machine
// from which packets are sent is opened when it is first needed.
func ListenWire(local, peer netip.AddrPort, c *capture) (*Wire, error) {
	w := &Wire{
		peer: unzoned(peer), port: local.Port(), sockets: map[netip.Addr]*socket{},
		in: make(chan script.Arrival, backlog), capture: c, stop: make(chan struct{}),
	}
	if z := local.Addr().Zone(); z != "" {
		i, err := net.InterfaceByName(z)
		if err != nil {
			return nil, fmt.Errorf("listen on %v: %w", local, err)
		}
		w.zone = uint32(i.Index)
	}
	if _, err := w.open(unzoned(local).Addr()); err != nil {
		return nil, err
	}
	return w, nil
}

// interfaceOf returns the number of the interface that has an IPv6 address: what
// is sent to a group leaves by it. Without one it is 0, and the kernel chooses.
func interfaceOf(a netip.Addr) uint32 {
	all, err := net.Interfaces()
	if err != nil || a.Is4() {
		return 0
	}
	for _, i := range all {
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, has := range addrs {
			if n, ok := has.(*net.IPNet); ok && n.IP.Equal(a.AsSlice()) {
				return uint32(i.Index)
			}
		}
	}
	return 0
}

// unzoned returns a without its zone, and IPv4 not mapped.
func unzoned(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// open returns the socket on an address of this machine.
func (w *Wire) open(a netip.Addr) (*socket, error) {
	if s := w.sockets[a]; s != nil {
		return s, nil
	}
	at := netip.AddrPortFrom(a, w.port)
	u, err := sys.OpenUDP(at, sys.UDPOptions{
		RecvBuffer: socketBuffer, SendBuffer: socketBuffer, Zone: w.zone, Interface: interfaceOf(a),
	})
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %v: %w: another socket has it; end that program, or use another address", at, err)
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return nil, fmt.Errorf("listen on %v: %w: no network interface of this machine has the address", at, err)
	case err != nil:
		return nil, fmt.Errorf("listen on %v: %w", at, err)
	}
	s := &socket{w: w, u: u, local: at, out: sys.NewSendBatch(1, 1), in: sys.NewRecvBatch(messages)}
	for i := range s.buffers {
		s.in.Set(i, s.buffers[i][:])
	}
	w.sockets[a] = s
	w.readers.Go(s.read)
	return s, nil
}

// Send implements script.Wire.
func (w *Wire) Send(from, to netip.Addr, b []byte) error {
	s, err := w.open(from)
	if err != nil {
		return err
	}
	at := netip.AddrPortFrom(to, w.peer.Port())
	w.capture.packet(s.local, at, b, pcapng.Outbound)
	return s.send(at, b)
}

// Recv implements script.Wire.
func (w *Wire) Recv(ctx context.Context, deadline time.Time) (script.Arrival, bool, error) {
	select {
	case a := <-w.in:
		return a, true, nil
	default:
	}
	t := time.NewTimer(time.Until(deadline))
	defer t.Stop()
	select {
	case a := <-w.in:
		return a, true, nil
	case <-t.C:
		return script.Arrival{}, false, nil
	case <-ctx.Done():
		return script.Arrival{}, false, ctx.Err()
	}
}

// Now implements script.Wire.
func (w *Wire) Now() time.Time { return time.Now() }

// Sleep implements script.Wire.
func (w *Wire) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes the sockets, and waits for their goroutines.
func (w *Wire) Close() error {
	close(w.stop)
	var errs []error
	for _, s := range w.sockets {
		errs = append(errs, s.close())
	}
	w.readers.Wait()
	return errors.Join(errs...)
}

const (
	messages   = 8       // taken from the kernel at once
	bufferSize = 9 << 10 // more than the longest packet there is
)

// A socket is one address of the wire.
type socket struct {
	w     *Wire
	local netip.AddrPort
	out   *sys.SendBatch

	mu      sync.Mutex // closing against receiving
	u       *sys.UDP
	closed  bool
	in      *sys.RecvBatch
	buffers [messages][bufferSize]byte
}

// send sends one datagram.
func (s *socket) send(to netip.AddrPort, b []byte) error {
	if len(b) == 0 {
		b = []byte{}
	}
	s.out.Reset()
	s.out.Add(b)
	s.out.End(s.u, to, 0)
	if _, err := s.out.Send(s.u, 0); err != nil {
		return fmt.Errorf("send %d bytes to %v: %w", len(b), to, err)
	}
	return nil
}

// read hands over what arrives, until the socket is closed.
func (s *socket) read() {
	for s.u.Wait() {
		for _, a := range s.take() {
			select {
			case s.w.in <- a:
			case <-s.w.stop:
				return
			}
		}
	}
}

// take takes what the kernel has.
func (s *socket) take() (all []script.Arrival) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	n, _ := s.in.Recv(s.u, messages) // an error of a packet is like no packet
	for i := range n {
		got := s.in.Got(i)
		from := netip.AddrPortFrom(netip.AddrFrom16(got.IP).Unmap(), got.Port)
		b := append([]byte(nil), s.buffers[i][:got.Len]...)
		s.w.capture.packet(from, s.local, b, pcapng.Inbound)
		all = append(all, script.Arrival{From: from, To: s.local.Addr(), Payload: b})
	}
	return all
}

// close ends the goroutine of the socket.
func (s *socket) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.u.Close()
}
