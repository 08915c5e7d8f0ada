package rping

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"github.com/gantry-rdma/gantry/roce"
)

// From returns the address from which this machine reaches a server, or another
// one when that is the server's own. It sends nothing.
func From(ctx context.Context, server netip.Addr) (netip.Addr, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", net.JoinHostPort(server.String(), strconv.Itoa(roce.Port)))
	if err != nil {
		return server, fmt.Errorf("there is no way to %v (%w): give this machine a way to it, or choose an address with --addr", server, err)
	}
	at, err := netip.ParseAddrPort(conn.LocalAddr().String())
	_ = conn.Close() // nothing was written
	local := at.Addr().Unmap()
	first := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	switch {
	case err != nil:
		return server, fmt.Errorf("this machine's address on the way to %v: %w", server, err)
	case local != server.Unmap():
		return local, nil
	case local.Is6():
		return server, fmt.Errorf("%v is an address of this same machine, and two devices cannot have one address: --addr chooses another one", server)
	case local == first:
		return first.Next(), nil
	}
	return first, nil
}
