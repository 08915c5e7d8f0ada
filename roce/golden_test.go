package roce

import (
	"bytes"
	"encoding/binary"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden text files again")

const captures = "testdata/golden/*.pcap"

// TestGoldenCapturesDecodeAndEncode goes through every packet that a real
// kernel sent: it decodes, its ICRC is right by each way of computing it, and
// building it again from the decoded fields, IP and UDP header included, gives
// the same bytes.
func TestGoldenCapturesDecodeAndEncode(t *testing.T) {
	files, err := filepath.Glob(captures)
	if err != nil || len(files) != 44 {
		t.Fatalf("got %d captures (%v), want 44", len(files), err)
	}
	total := 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".pcap"), func(t *testing.T) {
			var text bytes.Buffer
			for frame := range frames(t, file) {
				d := datagram(t, frame)
				checkDatagram(t, d)
				p, ok := Parse(d.Payload())
				if !ok {
					t.Fatalf("packet %d: not parsed: %x", total, d.Payload())
				}
				if diff := cmp.Diff(d.b, encode(t, d, p)); diff != "" {
					t.Errorf("%v: encoded again (-captured +encoded):\n%s", p, diff)
				}
				fmt.Fprintf(&text, "%v > %v id=%d %v\n", d.Src(), d.Dst().Addr(), d.Ident().ID, p)
				total++
			}
			checkGolden(t, strings.TrimSuffix(file, ".pcap")+".txt", text.Bytes())
		})
	}
	if total != 765 {
		t.Errorf("got %d packets, want 765", total)
	}
}

// checkGolden compares got with a file, or writes it under -update.
func checkGolden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// A checkout on Windows may have changed the line ends.
	want = bytes.ReplaceAll(want, []byte("\r\n"), []byte("\n"))
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// frames yields the Ethernet frames of a classic pcap file.
func frames(t testing.TB, file string) iter.Seq[[]byte] {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const fileHead, recordHead, ethernet = 24, 16, 1
	le := binary.LittleEndian
	if len(b) < fileHead || le.Uint32(b) != 0xa1b2c3d4 || le.Uint32(b[20:]) != ethernet {
		t.Fatalf("%s is no little-endian Ethernet capture", file)
	}
	return func(yield func([]byte) bool) {
		for b = b[fileHead:]; len(b) > 0; {
			n := int(le.Uint32(b[8:]))
			if full := int(le.Uint32(b[12:])); n != full {
				t.Fatalf("%s has %d bytes of a frame of %d", file, n, full)
			}
			frame := b[recordHead : recordHead+n]
			b = b[recordHead+n:]
			if !yield(frame) {
				return
			}
		}
	}
}

// datagram returns the RoCEv2 datagram of an Ethernet frame.
func datagram(t testing.TB, frame []byte) Datagram {
	t.Helper()
	const macs, etherType = 12, 2
	d, ok := ParseIP(frame[macs+etherType:])
	if !ok || d.Dst().Port() != Port {
		t.Fatalf("no RoCEv2 frame: %x", frame)
	}
	return d
}

// encode builds the IP packet that d and p are views of out of their fields.
func encode(t testing.TB, d Datagram, p Packet) []byte {
	t.Helper()
	var head [HeadSize]byte
	h := Build(&head, p.Opcode())
	copyFields(h, p.Headers)
	f, ok := NewFlow(d.Src(), d.Dst())
	if !ok {
		t.Fatal("got no flow")
	}
	pad := PadFor(len(p.Payload()))
	h.BTH().SetPad(pad)
	var tail [ICRCLen]byte
	f.Start(h, len(p.Payload())+pad, d.Ident()).Add(p.Payload()).AddPad(pad).Put(&tail)

	path := Path{Src: d.Src(), Dst: d.Dst(), TrafficClass: d.TrafficClass(), HopLimit: d.HopLimit(), Ident: d.Ident()}
	var net [Room]byte
	n := path.Put(&net, h.Len()+len(p.Payload())+pad+ICRCLen)
	copy(net[n-2:n], d.b[d.head+6:]) // a socket writes a UDP checksum
	return slices.Concat(net[:n], h.Bytes(), p.Payload(), make([]byte, pad), tail[:])
}

// copyFields sets in h what the accessors of the same headers in p return.
func copyFields(h, p Headers) {
	from, to := p.BTH(), h.BTH()
	to.SetOpcode(from.Opcode())
	to.SetSolicited(from.Solicited())
	to.SetMigReq(from.MigReq())
	to.SetPad(from.Pad())
	to.SetPKey(from.PKey())
	to.SetFECN(from.FECN())
	to.SetBECN(from.BECN())
	to.SetDestQP(from.DestQP())
	to.SetAckReq(from.AckReq())
	to.SetPSN(from.PSN())
	if x := p.DETH(); x != nil {
		h.DETH().Set(x.QKey(), x.SrcQP())
	}
	if x := p.FETH(); x != nil {
		h.FETH().Set(x.Placement(), x.Level())
	}
	if x := p.RETH(); x != nil {
		h.RETH().Set(x.VA(), x.RKey(), x.DMALen())
	}
	if x := p.AtomicETH(); x != nil {
		h.AtomicETH().Set(x.VA(), x.RKey(), x.SwapAdd(), x.Compare())
	}
	if x := p.AETH(); x != nil {
		h.AETH().Set(x.Syndrome(), x.MSN())
	}
	if x := p.AtomicAckETH(); x != nil {
		h.AtomicAckETH().SetOriginal(x.Original())
	}
	if x := p.ImmDt(); x != nil {
		h.ImmDt().SetValue(x.Value())
	}
	if x := p.IETH(); x != nil {
		h.IETH().SetRKey(x.RKey())
	}
}
