package rendezvous

import (
	"net/netip"
	"strings"
	"testing"
)

// What is counted first is what explains most: packets with a wrong ICRC have
// also come.
func TestSilenceNamesTheFirstReasonThatWasCounted(t *testing.T) {
	counts := map[string]uint64{}
	counter := func(name string) uint64 { return counts[name] }
	here, peer := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	say := func() string { return Silence(counter, here, peer, "a server runs there") }
	for _, c := range []struct{ name, want string }{
		{"", "not one packet has come to UDP port 4791 of 192.0.2.1: look whether a server runs there, on 192.0.2.2, and whether a firewall"},
		{"rcvd_pkts", "packets do come to UDP port 4791 of 192.0.2.1: look whether a server runs there, on 192.0.2.2, and whether what is sent"},
		{"send_err", "refuses to send packets (send_err 3): is there a way to 192.0.2.2"},
		{"drop_address", "(drop_address 3): NAT rewrites it"},
		{"drop_icrc", "packets come with a wrong ICRC (drop_icrc 3): something between the ends (NAT, a tunnel, an overlay)"},
	} {
		if c.name != "" {
			counts[c.name] = 3
		}
		if got := say(); !strings.Contains(got, c.want) {
			t.Errorf("with %s too, got %q, want %q in it", c.name, got, c.want)
		}
	}
}

// The signs of one test come behind those of every test, and before what is said
// when nothing was dropped.
func TestFindingsKnowTheSignsOfATest(t *testing.T) {
	counts := map[string]uint64{"rcvd_pkts": 9}
	counter := func(name string) uint64 { return counts[name] }
	here, peer := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	more := []Sign{{"drop_order", "come late", ""}, {"drop_rest", "come early", "wait"}}
	for _, c := range []struct{ name, want string }{
		{"", ""},
		{"send_err", "the system refuses to send packets (send_err 3): is there a way to 192.0.2.2, and does a firewall allow UDP port 4791"},
		{"drop_rest", "packets come early (drop_rest 3): wait"},
		{"drop_order", "packets come late (drop_order 3)"},
		{"drop_address", "packets come from or for another address than was agreed upon (drop_address 3): NAT rewrites it, or the other end sends from another of its addresses"},
	} {
		if c.name != "" {
			counts[c.name] = 3
		}
		if got := Findings(counter, here, peer, "look", more...); got != c.want {
			t.Errorf("with %s too, got %q, want %q", c.name, got, c.want)
		}
	}
}
