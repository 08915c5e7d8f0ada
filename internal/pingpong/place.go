package pingpong

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/gantry-rdma/gantry/internal/rendezvous"
	"github.com/gantry-rdma/gantry/roce"
)

// addrOf returns the IP address of an address of TCP or UDP.
func addrOf(a net.Addr) netip.Addr {
	p, _ := netip.ParseAddrPort(a.String())
	return p.Addr().Unmap()
}

// elsewhere returns an address for this end that is not a, which the other end
// has on this same machine. Only IPv4 has a second loopback address.
func elsewhere(a netip.Addr) (netip.Addr, error) {
	first := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	switch {
	case a.Is6():
		return a, fmt.Errorf("the other end has %v on this same machine, and two devices cannot have one address: --addr chooses one", a)
	case a == first:
		return a.Next(), nil
	}
	return first, nil
}

// clientPlace returns the address from which a client reaches the server, or
// another one when that is the server's own.
func clientPlace(conn net.Conn) (netip.Addr, error) {
	local := addrOf(conn.LocalAddr())
	if local == addrOf(conn.RemoteAddr()) && local.IsLoopback() {
		return elsewhere(local)
	}
	return local, nil
}

// serverPlace returns the address from which a server reaches the GID of a
// client.
func serverPlace(ctx context.Context, client netip.Addr) (netip.Addr, error) {
	local, err := sourceFor(ctx, client)
	if err == nil && local == client {
		return elsewhere(client)
	}
	return local, err
}

// sourceFor returns the address from which the system would send to a. It sends
// nothing.
func sourceFor(ctx context.Context, a netip.Addr) (netip.Addr, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", net.JoinHostPort(a.String(), strconv.Itoa(roce.Port)))
	if err != nil {
		return a, fmt.Errorf("there is no way to the other end's GID %v (%w): give this end a way to it, or choose an address with --addr", a, err)
	}
	defer func() { _ = conn.Close() }()
	return addrOf(conn.LocalAddr()), nil
}

// explainOpen says what to do about an address that cannot be had. What was
// asked and found, the device says itself.
func explainOpen(a netip.Addr, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE), errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("%w; --addr chooses one", err)
	case errors.Is(err, errors.ErrUnsupported):
		return fmt.Errorf("open a device on %v: %w: this system has no RoCE over UDP", a, err)
	}
	return err
}

// checkPeer wants the other end to be where this one can reach it.
func checkPeer(local netip.Addr, peer Dest) error {
	there := peer.GID.Addr()
	switch {
	case there.IsUnspecified():
		return rendezvous.Errorf(rendezvous.ErrPeer, "it gave no GID, without which RoCE does not reach it: start it with -g and the index of its GID")
	case there.IsMulticast():
		return rendezvous.Errorf(rendezvous.ErrPeer, "its GID %v is that of a group, and not of one port", there)
	case there == local.WithZone(""):
		return rendezvous.Errorf(rendezvous.ErrPeer, "its GID %v is that of this end: choose another address for one of them, here with --addr", there)
	case there.Is4() != local.Is4():
		return rendezvous.Errorf(rendezvous.ErrPeer, "its GID %v and this end's, %v, are of different IP versions: choose another one there with -g, or here with --addr",
			there, local)
	}
	return nil
}
