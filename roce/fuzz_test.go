package roce

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"path/filepath"
	"testing"
)

// seed adds the packets of a few captures, cut by the given function.
func seed(f *testing.F, add func(d Datagram)) {
	f.Helper()
	for _, name := range []string{"rc-imm.6.1*", "ud-send.6.1*", "rc-cmp-swap.6.1*", "rc-read.6.1*", "rc-send-v6*", "rc-send-inv*", "rc-rnr-exceeded*"} {
		files, err := filepath.Glob("testdata/golden/" + name + ".pcap")
		if err != nil || len(files) == 0 {
			f.Fatalf("no capture %s: %v", name, err)
		}
		for frame := range frames(f, files[0]) {
			add(datagram(f, frame))
		}
	}
	for _, v := range vectors {
		if d, ok := ParseIP(unhex(f, v.hex)); ok {
			add(d)
		}
	}
}

// FuzzParse: any bytes are refused or are a packet whose accessors, printing
// and building again work. What is built has the same bytes but for the
// reserved bits and what stands in the pad.
func FuzzParse(f *testing.F) {
	seed(f, func(d Datagram) { f.Add(d.Payload()) })
	for o := range 256 {
		f.Add(append([]byte{byte(o)}, make([]byte, 59)...))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		before := bytes.Clone(b)
		p, ok := Parse(b)
		if !ok {
			if p, ok = ParseReserved(b); !ok {
				return
			}
		} else if _, twice := ParseReserved(b); twice {
			t.Error("the opcode is known and is not")
		}
		if line := p.String(); len(line) > lineSize {
			t.Errorf("got a line of %d bytes: %s", len(line), line)
		}
		if got := p.Len() + len(p.Padded()) + ICRCLen; got != len(b) {
			t.Errorf("got %d bytes in all, want %d", got, len(b))
		}
		var head [HeadSize]byte
		h := Build(&head, p.Opcode())
		copyFields(h, p.Headers)
		if want := withoutReserved(p); !bytes.Equal(h.Bytes(), want) {
			t.Errorf("got %x, want %x", h.Bytes(), want)
		}
		if !bytes.Equal(b, before) {
			t.Error("reading changed the packet")
		}
	})
}

// withoutReserved returns the bytes of p's headers with reserved bits zero.
func withoutReserved(p Packet) []byte {
	b := bytes.Clone(p.Bytes())
	b[4] &= 0xc0
	b[8] &= 0x80
	if at := p.info.deth; at != 0 {
		b[at+4] = 0
	}
	if at := p.info.feth; at != 0 {
		b[at], b[at+1], b[at+2] = 0, 0, 0
		b[at+3] &= 0x3f
	}
	return b
}

// FuzzParseIP: any bytes are refused or are a datagram. If a packet is in it,
// the ICRC over the whole and that over the flow agree.
func FuzzParseIP(f *testing.F) {
	seed(f, func(d Datagram) { f.Add(d.b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		d, ok := ParseIP(b)
		if !ok {
			return
		}
		sum, hasSum := d.ICRC()
		p, ok := Parse(d.Payload())
		if !ok {
			return
		}
		flow, ok := NewFlow(d.Src(), d.Dst())
		if !ok || !hasSum {
			// An IPv6 header may name mapped addresses, and only one.
			if d.Src().Addr().Is4In6() == d.Dst().Addr().Is4In6() {
				t.Fatalf("got a packet and no flow from %v to %v", d.Src(), d.Dst())
			}
			return
		}
		plain := d.head == ipv4Len || d.v6() && !d.Src().Addr().Is4In6()
		if got := flow.Sum(p, d.Ident()); plain && got != sum {
			t.Errorf("got %#08x over the flow, want %#08x", got, sum)
		}
		if _, ok := flow.Check(p, d.Ident()); plain && d.Valid() && !ok {
			t.Error("the check does not believe a valid ICRC")
		}
	})
}

// FuzzCheck: whatever identification a packet was sent with, the check finds
// it from any guess; and what it finds for any ICRC comes true.
func FuzzCheck(f *testing.F) {
	seed(f, func(d Datagram) { f.Add(d.Payload(), d.Ident().ID, uint16(0), true, uint32(1)) })
	f.Fuzz(func(t *testing.T, b []byte, id, guess uint16, df bool, icrc uint32) {
		p, ok := Parse(b)
		if !ok || len(b) > 0xffff-ipv4Len-udpLen {
			return
		}
		flow, ok := NewFlow(ends4[0], netip.AddrPortFrom(ends4[1].Addr(), id))
		if !ok {
			t.Fatal("got no flow")
		}
		want := Ident{ID: id, DF: df}
		binary.LittleEndian.PutUint32(b[len(b)-ICRCLen:], flow.Sum(p, want))
		if got, ok := flow.Check(p, Ident{ID: guess, DF: !df}); !ok || got != want {
			t.Errorf("got %v %v, want %v", got, ok, want)
		}
		binary.LittleEndian.PutUint32(b[len(b)-ICRCLen:], icrc)
		if got, ok := flow.Check(p, want); ok && flow.Sum(p, got) != icrc {
			t.Errorf("%v does not give %#08x", got, icrc)
		}
	})
}

// FuzzAppendLine: headers print whatever is in them.
func FuzzAppendLine(f *testing.F) {
	seed(f, func(d Datagram) { f.Add(d.Payload(), 64) })
	f.Fuzz(func(t *testing.T, b []byte, payload int) {
		h, rest, ok := ParseHeaders(b)
		if !ok {
			return
		}
		if h.Len()+len(rest) != len(b) {
			t.Errorf("got %d and %d bytes of %d", h.Len(), len(rest), len(b))
		}
		if line := h.AppendLine(nil, payload); bytes.ContainsAny(line, "\n\r\x00") || !bytes.HasPrefix(line, []byte(h.Opcode().String())) {
			t.Errorf("got %q", line)
		}
	})
}
