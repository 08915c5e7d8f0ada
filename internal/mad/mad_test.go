package mad

import (
	"bytes"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
)

// TestFieldsOfAMessageDoNotOverlap sets each field of a message to all ones and
// looks that no other field of it has changed.
func TestFieldsOfAMessageDoNotOverlap(t *testing.T) {
	for a := REQ; a <= APR; a++ {
		fields, spans := everyField(a)
		var used MAD
		claim := func(what string, set func(m *MAD)) {
			var m MAD
			set(&m)
			for i, b := range m {
				if used[i]&b != 0 {
					t.Errorf("%v: %s has bits of byte %d that another field has", a, what, i)
				}
				if b != 0 && i < headLen {
					t.Errorf("%v: %s lies in the header", a, what)
				}
				used[i] |= b
			}
		}
		for i, f := range fields {
			claim("field "+string(rune('a'+i)), func(m *MAD) { f.Set(m, ^uint64(0)) })
		}
		for i, s := range spans {
			claim("span "+string(rune('a'+i)), func(m *MAD) { s.Put(m, bytes.Repeat([]byte{0xff}, s.Len())) })
		}
	}
}

func TestFieldKeepsItsNeighbours(t *testing.T) {
	var m MAD
	for i := range m {
		m[i] = 0xff
	}
	ReqRetryCount.Set(&m, 2)
	if got := ReqRetryCount.In(&m); got != 2 {
		t.Errorf("got %d, want 2", got)
	}
	if got := ReqLocalTimeout.In(&m); got != 31 {
		t.Errorf("got local timeout %d, want 31", got)
	}
	if got := ReqPSN.In(&m); got != 0xffffff {
		t.Errorf("got PSN %#x, want 0xffffff", got)
	}
	ReqServiceID.Set(&m, 0x0000000001061d2f)
	if got := ServiceID(ReqServiceID.In(&m)); got != Service(SpaceTCP, 7471) {
		t.Errorf("got service %v, want %v", got, Service(SpaceTCP, 7471))
	}
}

// TestPrivateDataEndsTheMessage holds the lengths that the specification names.
func TestPrivateDataEndsTheMessage(t *testing.T) {
	for a, want := range map[Attr]int{REQ: 92, REP: 196, RTU: 224, REJ: 148, MRA: 222, DREQ: 220, DREP: 224, SIDRREQ: 216, SIDRREP: 136} {
		m := New(a, 1)
		p := m.Private()
		if len(p) != want {
			t.Errorf("%v: got %d bytes of private data, want %d", a, len(p), want)
		}
		p[len(p)-1] = 7
		if m[Len-1] != 7 {
			t.Errorf("%v: private data does not end the message", a)
		}
	}
	if p := New(LAP, 1).Private(); p != nil {
		t.Errorf("got private data %x of a LAP, want none", p)
	}
}

func TestSpanPutCutsAndClears(t *testing.T) {
	m := New(DREQ, 1)
	DreqPrivate.Put(m, bytes.Repeat([]byte{1}, 1000))
	if m[Len-1] != 1 {
		t.Error("the last byte is not set")
	}
	DreqPrivate.Put(m, []byte{2})
	if got := m.Private(); got[0] != 2 || got[1] != 0 || got[219] != 0 {
		t.Errorf("got %x, want a 2 and zeros", got)
	}
}

func TestParseWantsTheLengthAndCMTheHeader(t *testing.T) {
	for _, n := range []int{0, 24, 255, 257, 512} {
		if _, ok := Parse(make([]byte, n)); ok {
			t.Errorf("%d bytes were taken", n)
		}
	}
	for at, v := range map[int]byte{0: 2, 1: 3, 2: 1, 3: 1} {
		m := New(REQ, 1)
		if !m.CM() {
			t.Fatal("a new message is not one of connection management")
		}
		m[at] = v
		if m.CM() {
			t.Errorf("%v was taken", m)
		}
	}
}

func TestTimeoutRoundsUp(t *testing.T) {
	for _, c := range []struct {
		ns   int64
		want uint8
	}{{0, 0}, {4096, 0}, {4097, 1}, {67_108_864, 14}, {4_294_967_296, 20}, {4_294_967_297, 21}, {1 << 62, 31}, {-5, 0}} {
		if got := Timeout(c.ns); got != c.want {
			t.Errorf("%d ns: got code %d, want %d", c.ns, got, c.want)
		}
	}
	if got := Nanoseconds(20); got != 4_294_967_296 {
		t.Errorf("code 20: got %d ns, want 4294967296", got)
	}
}

func TestCMAHoldsBothFamilies(t *testing.T) {
	for _, c := range []struct{ src, dst string }{
		{"10.77.0.3:5000", "10.77.0.2"}, {"[fd77::3]:5000", "fd77::2"}, {"[::ffff:1.2.3.4]:1", "1.2.3.5"},
	} {
		var h CMA
		src, dst := netip.MustParseAddrPort(c.src), netip.MustParseAddr(c.dst)
		h.Set(src, dst)
		got, rest, ok := ParseCMA(append(h[:], 9))
		if !ok || len(rest) != 1 || rest[0] != 9 {
			t.Fatalf("%s: got rest %x, %v", c.src, rest, ok)
		}
		want := netip.AddrPortFrom(src.Addr().Unmap(), src.Port())
		if got.Src() != want || got.Dst() != dst {
			t.Errorf("got %v > %v, want %v > %v", got.Src(), got.Dst(), want, dst)
		}
	}
	for _, b := range [][]byte{nil, make([]byte, 36), append([]byte{1, 0x40}, make([]byte, 34)...), append([]byte{0, 0x50}, make([]byte, 34)...)} {
		if _, _, ok := ParseCMA(b); ok {
			t.Errorf("%x was taken", b)
		}
	}
}

func TestNamesOfWhatHasNone(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Attr(0x99).String(), "ATTR(0x99)"}, {Reason(0).String(), "reason 0"}, {Reason(999).String(), "reason 999"},
		{SidrStatus(77).String(), "status 77"}, {ServiceID(1 << 40).String(), "0x10000000000"},
		{Service(SpaceUDP, 7).String(), "UDP:7"}, {Of(3).String(), "3"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for r := Reason(1); int(r) < Reasons; r++ {
		if reasonNames[r] == "" {
			t.Errorf("reason %d has no name", r)
		}
	}
}

// FuzzMAD: any 256 bytes print, and building what is a message again from its
// fields keeps every field.
func FuzzMAD(f *testing.F) {
	files, err := filepath.Glob(captures)
	if err != nil || len(files) == 0 {
		f.Fatalf("no captures: %v", err)
	}
	for _, file := range files {
		for _, m := range captured(f, file) {
			f.Add(m[:])
		}
	}
	for a := REQ; a <= APR; a++ {
		m := New(a, 1)
		copy(m[headLen:], bytes.Repeat([]byte{0xff}, Len-headLen))
		f.Add(m[:])
	}
	f.Add(make([]byte, Len))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, ok := Parse(b)
		if !ok {
			if len(b) == Len {
				t.Error("256 bytes were refused")
			}
			return
		}
		before := *m
		if line := m.String(); line == "" || strings.ContainsAny(line, "\n\r\x00") {
			t.Errorf("got line %q", line)
		}
		m.IDs()
		if *m != before {
			t.Error("reading changed the message")
		}
		if !m.CM() || !m.Attr().Known() {
			return
		}
		out := encode(m)
		fields, spans := everyField(m.Attr())
		for i, x := range fields {
			if x.In(out) != x.In(m) {
				t.Errorf("%v: field %d: got %#x, want %#x", m.Attr(), i, x.In(out), x.In(m))
			}
		}
		for i, s := range spans {
			if _, _, cma := ParseCMA(m.Private()); !cma && !bytes.Equal(s.In(out), s.In(m)) {
				t.Errorf("%v: span %d differs", m.Attr(), i)
			}
		}
	})
}
