package rendezvous

import (
	"fmt"
	"net/netip"
)

// Silence says what the counters of a device, which is at here, tell about
// packets of a peer that do not arrive. The hope is what ought to be the case
// there, like "a server runs there".
func Silence(counter func(name string) uint64, here, peer netip.Addr, hope string) string {
	if n := counter("drop_icrc"); n > 0 {
		return fmt.Sprintf("packets come with a wrong ICRC (drop_icrc %d): something between the ends (NAT, a tunnel, an overlay) rewrites "+
			"what it covers; gantry doctor looks for such things", n)
	}
	if n := counter("drop_address"); n > 0 {
		return fmt.Sprintf("packets come from or for another address than was agreed upon (drop_address %d): NAT rewrites it, or the other end "+
			"sends from another of its addresses", n)
	}
	if n := counter("send_err"); n > 0 {
		return fmt.Sprintf("the system refuses to send packets (send_err %d): is there a way to %v, and does a firewall allow UDP port 4791", n, peer)
	}
	if counter("rcvd_pkts") == 0 {
		return fmt.Sprintf("not one packet has come to UDP port 4791 of %v: look whether %s, on %v, and whether a firewall drops UDP port 4791", here, hope, peer)
	}
	return fmt.Sprintf("packets do come to UDP port 4791 of %v: look whether %s, on %v, and whether what is sent to it gets through", here, hope, peer)
}
