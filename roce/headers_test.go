package roce

import (
	"bytes"
	"encoding/hex"
	"testing"
)

// TestHeadersLieAsDrawn sets every header to known values and compares with the
// bytes of the drawings, written out by hand.
func TestHeadersLieAsDrawn(t *testing.T) {
	for _, c := range []struct {
		op   Opcode
		fill func(h Headers)
		want string // behind the BTH
	}{
		{RCWriteOnlyImm, func(h Headers) {
			h.RETH().Set(0x0102030405060708, 0x11121314, 0x21222324)
			h.ImmDt().SetValue(0x31323334)
		}, "0102030405060708 11121314 21222324 31323334"},
		{RCFetchAdd, func(h Headers) {
			h.AtomicETH().Set(0x0102030405060708, 0x11121314, 0x2122232425262728, 0x3132333435363738)
		}, "0102030405060708 11121314 2122232425262728 3132333435363738"},
		{RCAtomicAck, func(h Headers) {
			h.AETH().Set(RNRNak(12), 0x99010203)
			h.AtomicAckETH().SetOriginal(0x1112131415161718)
		}, "2c010203 1112131415161718"},
		{UDSendOnlyImm, func(h Headers) {
			h.DETH().Set(0x80010000, 0x99112233)
			h.ImmDt().SetValue(7)
		}, "80010000 00112233 00000007"},
		{RCSendOnlyInv, func(h Headers) { h.IETH().SetRKey(0xdead01) }, "00dead01"},
		{RCFlush, func(h Headers) {
			h.FETH().Set(PlaceGlobal|PlacePersistent, FlushRegion)
			h.RETH().Set(1, 2, 3)
		}, "00000013 0000000000000001 00000002 00000003"},
		{RCAtomicWrite, func(h Headers) { h.RETH().Set(1, 2, 8) }, "0000000000000001 00000002 00000008"},
	} {
		var head [HeadSize]byte
		h := Build(&head, c.op)
		c.fill(h)
		if got, want := h.Bytes()[BTHLen:], unhex(t, c.want); !bytes.Equal(got, want) {
			t.Errorf("%v: got %x, want %x", c.op, got, want)
		}
		if again, rest, ok := ParseHeaders(head[:]); !ok || again.Len() != h.Len() || len(rest) != HeadSize-h.Len() {
			t.Errorf("%v: built headers do not parse", c.op)
		}
	}
}

func TestBTHBitsLieAsDrawn(t *testing.T) {
	for _, c := range []struct {
		set  func(h *BTH)
		want string
	}{
		{func(h *BTH) {}, "04 00 ffff 00 000000 00 000000"},
		{func(h *BTH) { h.SetSolicited(true) }, "04 80 ffff 00 000000 00 000000"},
		{func(h *BTH) { h.SetMigReq(true) }, "04 40 ffff 00 000000 00 000000"},
		{func(h *BTH) { h.SetPad(7) }, "04 30 ffff 00 000000 00 000000"},
		{func(h *BTH) { h.SetPKey(0x8001) }, "04 00 8001 00 000000 00 000000"},
		{func(h *BTH) { h.SetFECN(true) }, "04 00 ffff 80 000000 00 000000"},
		{func(h *BTH) { h.SetBECN(true) }, "04 00 ffff 40 000000 00 000000"},
		{func(h *BTH) { h.SetDestQP(0x99a1b2c3) }, "04 00 ffff 00 a1b2c3 00 000000"},
		{func(h *BTH) { h.SetAckReq(true) }, "04 00 ffff 00 000000 80 000000"},
		{func(h *BTH) { h.SetPSN(0x99d1e2f3) }, "04 00 ffff 00 000000 00 d1e2f3"},
		{func(h *BTH) { h.SetOpcode(RCAck) }, "11 00 ffff 00 000000 00 000000"},
	} {
		// Nothing but what is set changes, whether bits were clear before or set.
		want := unhex(t, c.want)
		var head [HeadSize]byte
		h := Build(&head, RCSendOnly).BTH()
		c.set(h)
		if !bytes.Equal(h[:], want) {
			t.Errorf("got %x, want %x", h[:], want)
		}
		c.set(h)
		if !bytes.Equal(h[:], want) {
			t.Errorf("set twice: got %x, want %x", h[:], want)
		}
	}
}

func TestBTHBitsCanBeCleared(t *testing.T) {
	var h BTH
	for i := range h {
		h[i] = 0xff
	}
	h.SetSolicited(false)
	h.SetMigReq(false)
	h.SetPad(0)
	h.SetFECN(false)
	h.SetBECN(false)
	h.SetAckReq(false)
	if got, want := hex.EncodeToString(h[:]), "ff0fffff3fffffff7fffffff"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestBuildLeavesNothingOfTheLastPacket: the array is used again and again.
func TestBuildLeavesNothingOfTheLastPacket(t *testing.T) {
	for o := range 256 {
		var dirty, clean [HeadSize]byte
		for i := range dirty {
			dirty[i] = 0xff
		}
		got, want := Build(&dirty, Opcode(o)).Bytes(), Build(&clean, Opcode(o)).Bytes()
		if !bytes.Equal(got, want) {
			t.Errorf("opcode %#x: got %x, want %x", o, got, want)
		}
		for i, b := range dirty[len(got):] {
			if b != 0xff {
				t.Errorf("opcode %#x: wrote byte %d, beyond the headers", o, len(got)+i)
			}
		}
	}
}

// TestViewsStayInBoundsWhenBytesChange: whoever shares the memory may write to
// it after the check.
func TestViewsStayInBoundsWhenBytesChange(t *testing.T) {
	b := make([]byte, BTHLen+ICRCLen)
	b[0] = byte(RCSendOnly)
	p, ok := Parse(b)
	if !ok {
		t.Fatal("got no packet")
	}
	b[0] = byte(RCFetchAdd)
	b[1] = 0x30
	if p.AtomicETH() != nil || len(p.Payload()) != 0 || p.Opcode() != RCSendOnly {
		t.Errorf("got %v, want the packet as it was checked", p)
	}
	_ = p.String()
}

// TestParseRefuses gives each rule of the door a packet that breaks it alone.
func TestParseRefuses(t *testing.T) {
	const bth = "04 00 ffff 00 000011 80 000005"
	for _, c := range []struct {
		name, hex string
		ok        bool
	}{
		{"nothing", "", false},
		{"half a BTH", "04 00 ffff 00 000011", false},
		{"no ICRC", bth, false},
		{"three bytes of ICRC", bth + "000000", false},
		{"no payload", bth + "00000000", true},
		{"a payload of 4", bth + "01020304 00000000", true},
		{"a payload that is not padded", bth + "010203 00000000", false},
		{"version 1", "04 01 ffff 00 000011 80 000005 00000000", false},
		{"version 8", "04 08 ffff 00 000011 80 000005 00000000", false},
		{"pad without payload", "04 30 ffff 00 000011 80 000005 00000000", false},
		{"all pad but one", "04 30 ffff 00 000011 80 000005 01000000 00000000", true},
		{"migration request", "04 40 ffff 00 000011 80 000005 00000000", true},
		{"reserved bits", "04 00 ffff 3f 000011 ff 000005 00000000", true},
		{"RC opcode 0x15", "15 00 ffff 00 000011 80 000005 00000000", false},
		{"UC READ", "2c 00 ffff 00 000011 80 000005 0000000000000000 00000000 00000000 00000000", false},
		{"RD SEND", "44 00 ffff 00 000011 80 000005 00000000 00000000", false},
		{"XRC SEND", "a4 00 ffff 00 000011 80 000005 00000000 00000000", false},
		{"UD WRITE", "6a 00 ffff 00 000011 80 000005 0000000000000000 00000000 00000000 00000000", false},
		{"native InfiniBand's CNP", "80 00 ffff 00 000011 80 000005 00000000 00000000 00000000 00000000 00000000", false},
		{"CNP", "81 00 ffff 00 000011 80 000005 00000000 00000000 00000000 00000000 00000000", true},
		{"ACK", "11 00 ffff 00 000011 00 000005 1f000001 00000000", true},
		{"ACK without AETH", "11 00 ffff 00 000011 00 000005 00000000", false},
		{"ACK with payload", "11 00 ffff 00 000011 00 000005 1f000001 00000000 00000000", false},
		{"ACK with pad", "11 10 ffff 00 000011 00 000005 1f000001 00000000", false},
		{"READ REQUEST with payload", "0c 00 ffff 00 000011 80 000005 0000000000000000 00000000 00000000 ffffffff 00000000", false},
		{"WRITE ONLY with half a RETH", "0a 00 ffff 00 000011 80 000005 0000000000000000 00000000", false},
	} {
		if p, ok := Parse(unhex(t, c.hex)); ok != c.ok {
			t.Errorf("%s: got %v (%v), want %v", c.name, ok, p.b, c.ok)
		}
	}
}

// TestParseReservedTakesWhatIsNotKnown: of a reserved opcode all behind the BTH
// is payload; the other rules of the door hold.
func TestParseReservedTakesWhatIsNotKnown(t *testing.T) {
	for _, c := range []struct {
		name, hex string
		size      int // of the payload; below zero: refused
	}{
		{"nothing", "", -1},
		{"no ICRC", "18 00 ffff 00 000011 80 000005", -1},
		{"nothing behind the BTH", "18 00 ffff 00 000011 80 000005 00000000", 0},
		{"8 bytes", "15 00 ffff 00 000011 80 000005 0102030405060708 00000000", 8},
		{"6 bytes and pad", "1f 20 ffff 00 000011 80 000005 0102030405060000 00000000", 6},
		{"pad alone", "18 10 ffff 00 000011 80 000005 00000000", -1},
		{"not a multiple of 4", "18 00 ffff 00 000011 80 000005 010203 00000000", -1},
		{"version 1", "18 01 ffff 00 000011 80 000005 00000000", -1},
		{"UC READ", "2c 00 ffff 00 000011 80 000005 01020304 00000000", 4},
		{"XRC SEND", "a4 00 ffff 00 000011 80 000005 01020304 00000000", 4},
		{"a SEND", "04 00 ffff 00 000011 80 000005 00000000", -1},
		{"half an ACK", "11 00 ffff 00 000011 80 000005 00000000", -1},
	} {
		b := unhex(t, c.hex)
		p, ok := ParseReserved(b)
		if ok != (c.size >= 0) {
			t.Errorf("%s: got %v, want %v", c.name, ok, c.size >= 0)
			continue
		}
		if ok && (p.Len() != BTHLen || len(p.Payload()) != c.size || p.Opcode() != Opcode(b[0])) {
			t.Errorf("%s: got %v with %d bytes of headers and %d of payload, want %d of payload",
				c.name, p, p.Len(), len(p.Payload()), c.size)
		}
	}
}

func TestPayloadHasNoPad(t *testing.T) {
	for n := range 9 {
		b := make([]byte, BTHLen, 64)
		b[0], b[1] = byte(UCSendOnly), byte(PadFor(n)<<4)
		for i := range n {
			b = append(b, byte(i+1))
		}
		b = append(b, make([]byte, PadFor(n)+ICRCLen)...)
		p, ok := Parse(b)
		if !ok || len(p.Payload()) != n || len(p.Padded()) != n+PadFor(n) {
			t.Errorf("got %d bytes of payload, %d padded (%v), want %d", len(p.Payload()), len(p.Padded()), ok, n)
		}
	}
}

// TestFitsIsTheDoorOfAPacketInPieces: headers and payload may lie apart, and
// then the rules of Parse hold for the length alone.
func TestFitsIsTheDoorOfAPacketInPieces(t *testing.T) {
	for o := range 256 {
		for pad := range 4 {
			for body := range 10 {
				b := make([]byte, HeadSize)
				b[0], b[1] = byte(o), byte(pad<<4)
				h, _, ok := ParseHeaders(b)
				if !ok {
					continue
				}
				_, want := Parse(b[:h.Len()+body+ICRCLen])
				if got := h.Fits(body); got != want {
					t.Errorf("%v, pad %d, %d bytes: got %v, want %v", h.Opcode(), pad, body, got, want)
				}
			}
		}
	}
}
