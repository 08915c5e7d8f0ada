package roce

import (
	"encoding/hex"
	"strings"
	"testing"
)

// vectors are packets of others, from the IP header to the ICRC.
var vectors = []struct {
	name, hex, line string
	icrc            uint32
}{
	{
		name: "UC SEND_ONLY over IPv4, migration request set",
		hex: `45010040047840004011b4d5c0a80007c0a80007 c00012b7002caca2
			2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000 78f353f3`,
		line: "UC SEND_ONLY psn=13571856 qp=0xd3 mig pad=2 len=18",
		icrc: 0xf353f378,
	},
	{
		name: "the same over IPv6, with a flow label",
		hex: `6e21face002c11ff 20220000000000000000000000001023 20230000000000000000000000001024
			c00012b7002ce7c5
			2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000 3e5b743b`,
		line: "UC SEND_ONLY psn=13571856 qp=0xd3 mig pad=2 len=18",
		icrc: 0x3b745b3e,
	},
	{
		name: "CNP of a ConnectX-4 Lx",
		hex: `45c2003c718c400040119161 0a001101 0a001201 000012b700280000
			8100ffff40000118 00000000 00000000000000000000000000000000 82fd002a`,
		line: "CNP psn=0 qp=0x118 becn pad=0 len=16",
		icrc: 0x2a00fd82,
	},
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.Join(strings.Fields(s), ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestVectorsOfOthersDecode(t *testing.T) {
	for _, v := range vectors {
		t.Run(v.name, func(t *testing.T) {
			d, ok := ParseIP(unhex(t, v.hex))
			if !ok {
				t.Fatal("got no datagram")
			}
			checkDatagram(t, d)
			p, _ := Parse(d.Payload())
			if got := p.String(); got != v.line {
				t.Errorf("got  %s\nwant %s", got, v.line)
			}
			if got := p.ICRC(); got != v.icrc {
				t.Errorf("got ICRC %#08x, want %#08x", got, v.icrc)
			}
		})
	}
}

// checkDatagram checks that d has a right ICRC by every way there is to compute
// it.
func checkDatagram(t testing.TB, d Datagram) {
	t.Helper()
	if !d.Valid() {
		t.Error("got a wrong ICRC over the IP packet")
	}
	p, ok := Parse(d.Payload())
	if !ok {
		t.Fatal("got no packet")
	}
	f, ok := NewFlow(d.Src(), d.Dst())
	if !ok {
		t.Fatal("got no flow")
	}
	if got, want := f.Sum(p, d.Ident()), p.ICRC(); got != want {
		t.Errorf("got ICRC %#08x over the flow, want %#08x", got, want)
	}
	want := d.Ident()
	for _, guess := range []Ident{want, {}, {ID: 77}, Segment(0), Segment(3)} {
		got, ok := f.Check(p, guess)
		if d.v6() {
			want = guess
		}
		if !ok || got != want {
			t.Errorf("guessing %v: got %v %v, want %v", guess, got, ok, want)
		}
	}
}
