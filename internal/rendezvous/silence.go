package rendezvous

import (
	"fmt"
	"net/netip"
)

// A Sign is a counter of packets that came in vain.
type Sign struct {
	Counter string
	What    string // is the matter with the packets
	Advice  string // or what it comes from; may be ""
}

// signs are those that mean the same in every test, the most telling first.
var signs = []Sign{
	{"drop_icrc", "come with a wrong ICRC", "something between the ends (NAT, a tunnel, an overlay) rewrites addresses, ports or " +
		"contents, all of which it covers: use addresses that both ends see alike; gantry doctor looks for such things"},
	{"drop_address", "come from or for another address than was agreed upon", "NAT rewrites it, or the other end sends from another of its addresses"},
}

// Silence says what the counters of a device, which is at here, tell about
// packets of a peer that do not arrive. The hope is what ought to be the case
// there, like "a server runs there".
func Silence(counter func(name string) uint64, here, peer netip.Addr, hope string) string {
	look := fmt.Sprintf("look whether %s, on %v", hope, peer)
	if why := Findings(counter, here, peer, look); why != "" {
		return why
	}
	return fmt.Sprintf("packets do come to UDP port 4791 of %v: %s, and whether what is sent to it gets through", here, look)
}

// Findings is Silence for a test that knows more: what to look for if not one
// packet has come, and what more signs mean. It returns "" if packets do come and
// none is dropped.
func Findings(counter func(name string) uint64, here, peer netip.Addr, look string, more ...Sign) string {
	for _, list := range [][]Sign{signs, more} {
		for _, s := range list {
			if n := counter(s.Counter); n > 0 {
				return s.say(n)
			}
		}
	}
	if n := counter("send_err"); n > 0 {
		return fmt.Sprintf("the system refuses to send packets (send_err %d): is there a way to %v, and does a firewall allow UDP port 4791", n, peer)
	}
	if counter("rcvd_pkts") == 0 {
		return fmt.Sprintf("not one packet has come to UDP port 4791 of %v: %s, and whether a firewall drops UDP port 4791", here, look)
	}
	return ""
}

// say says that n packets were counted.
func (s *Sign) say(n uint64) string {
	found := fmt.Sprintf("packets %s (%s %d)", s.What, s.Counter, n)
	if s.Advice != "" {
		found += ": " + s.Advice
	}
	return found
}
