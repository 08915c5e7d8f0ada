package kit

import (
	"bytes"
	"io"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/gantry-rdma/gantry/roce"
)

// TestAnArchiveHasWhatWasPut reads the archive as a kernel does.
func TestAnArchiveHasWhatWasPut(t *testing.T) {
	var b bytes.Buffer
	a := newArchive(&b)
	a.file("bin/true", []byte("12345"))
	a.dir("tmp")
	if err := a.close(); err != nil {
		t.Fatal(err)
	}
	var names []string
	for at := 0; at < b.Len(); {
		head := b.Bytes()[at:]
		field := func(n int) int {
			v, err := strconv.ParseUint(string(head[6+8*n:14+8*n]), 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			return int(v)
		}
		size, long := field(6), field(11)
		names = append(names, string(head[110:110+long-1]))
		at += (110 + long + 3) &^ 3
		if data := b.Bytes()[at : at+size]; size > 0 && string(data) != "12345" {
			t.Errorf("data %q, want 12345", data)
		}
		at += (size + 3) &^ 3
	}
	if want := []string{"bin", "bin/true", "tmp", "TRAILER!!!"}; !slices.Equal(names, want) {
		t.Errorf("entries %q, want %q", names, want)
	}
}

func TestModulesComeBehindThoseTheyNeed(t *testing.T) {
	got := dependencies("version=1\x00depends=ib_core,udp_tunnel\x00name=rdma_rxe\x00depends=\x00")
	if want := []string{"ib_core", "udp_tunnel"}; !slices.Equal(got, want) {
		t.Errorf("dependencies %q, want %q", got, want)
	}
	if got := moduleName("kernel/arch/crc32-pclmul.ko.xz"); got != "crc32_pclmul" {
		t.Errorf("name %q, want crc32_pclmul", got)
	}
}

// packet returns a frame with an RC SEND of n bytes.
func packet(t *testing.T, psn roce.PSN, n int) []byte {
	return packetWith(t, roce.RCSendOnly, false, psn, n)
}

// packetWith returns a frame with any packet of a connection.
func packetWith(t *testing.T, op roce.Opcode, ask bool, psn roce.PSN, n int) []byte {
	t.Helper()
	path := roce.Path{Src: netip.MustParseAddrPort("192.0.2.1:4791"), Dst: netip.MustParseAddrPort("192.0.2.2:4791"), HopLimit: 64, Ident: roce.Segment(0)}
	flow, ok := roce.NewFlow(path.Src, path.Dst)
	if !ok {
		t.Fatal("no flow")
	}
	var head [roce.HeadSize]byte
	h := roce.Build(&head, op)
	h.BTH().SetAckReq(ask)
	h.BTH().SetPSN(psn)
	h.BTH().SetDestQP(17)
	var room [roce.Room]byte
	room4 := path.Put(&room, h.Len()+n+roce.ICRCLen)
	f := append(make([]byte, etherLen), room[:room4]...)
	f[12], f[13] = 0x08, 0x00
	f = append(append(f, h.Bytes()...), make([]byte, n)...)
	var tail [roce.ICRCLen]byte
	flow.Start(h, n, roce.Segment(0)).Add(make([]byte, n)).Put(&tail)
	return append(f, tail[:]...)
}

// newWire is a wire without ends.
func newWire(w Weather) *Wire {
	y := &Wire{}
	y.Record(io.Discard, w)
	return y
}

func TestTheWireNoticesAWrongICRC(t *testing.T) {
	w := newWire(Weather{})
	good, wrong := packet(t, 1, 64), packet(t, 2, 64)
	wrong[60] ^= 1
	w.strike(ToHost, good)
	w.strike(ToHost, wrong)
	w.strike(ToHost, make([]byte, 60)) // no packet
	if y := w.tally[ToHost]; y.Packets != 2 || y.BadICRC != 1 || y.FirstBad == "" || y.Delivered != 2 {
		t.Errorf("%+v, want 2 packets, 1 of them wrong, 2 delivered", y)
	}
}

func TestTheWireCountsWhatIsSentAgain(t *testing.T) {
	w := newWire(Weather{})
	for _, psn := range []roce.PSN{0xfffffe, 0xffffff, 0, 0xffffff, 0, 1} {
		w.strike(ToGuest, packet(t, psn, 4))
	}
	if got := w.tally[ToGuest].Again; got != 2 {
		t.Errorf("%d sent again, want 2", got)
	}
}

func TestTheWireCountsWhoAsksAndWhoAnswers(t *testing.T) {
	w := newWire(Weather{})
	for i, c := range []struct {
		op  roce.Opcode
		ask bool
	}{
		{roce.RCSendFirst, true}, {roce.RCSendLast, false}, {roce.RCSendOnly, true}, {roce.RCWriteFirst, false},
		{roce.RCWriteLast, true}, {roce.RCReadRequest, true}, {roce.RCReadResponseOnly, false}, {roce.RCAck, false},
	} {
		w.strike(ToGuest, packetWith(t, c.op, c.ask, roce.PSN(i), 0))
	}
	wrong := packet(t, 9, 8)
	wrong[60] ^= 1
	w.strike(ToGuest, wrong)
	if y := w.tally[ToGuest]; y.Ends != 3 || y.Asked != 2 || y.Acks != 1 {
		t.Errorf("%d messages end, %d ask, %d answers; want 3, 2 and 1", y.Ends, y.Asked, y.Acks)
	}
}

func TestEachWeatherDoesWhatItSays(t *testing.T) {
	const n = 2000
	for _, c := range []struct {
		name    string
		weather Weather
		struck  func(Tally) int
		out     func(struck int) int
	}{
		{"loss", Weather{Loss: 0.1}, func(y Tally) int { return y.Lost }, func(k int) int { return n - k }},
		{"dup", Weather{Dup: 0.1}, func(y Tally) int { return y.Doubled }, func(k int) int { return n + k }},
		{"corrupt", Weather{Corrupt: 0.1}, func(y Tally) int { return y.Damaged }, func(int) int { return n }},
		{"reorder", Weather{Reorder: 0.1}, func(y Tally) int { return y.Reordered }, func(int) int { return n }},
		{"cut", Weather{Cut: true}, func(y Tally) int { return y.Lost / 10 }, func(int) int { return 0 }},
	} {
		w, delivered, wrong := newWire(c.weather), 0, 0
		for i := range n {
			for _, f := range w.strike(ToGuest, packet(t, roce.PSN(i), 8)) {
				delivered++
				if d, ok := packetOf(f); !ok || !d.Valid() {
					wrong++
				}
			}
		}
		delivered += len(w.storms[ToGuest].release())
		y := w.tally[ToGuest]
		k := c.struck(y)
		if k < n/20 || k > n/5 || delivered != c.out(k) || y.Delivered != delivered || wrong != y.Damaged || y.BadICRC != 0 {
			t.Errorf("%s: %d of %d struck, %d delivered, %d of them wrong: %+v", c.name, k, n, delivered, wrong, y)
		}
	}
}

func TestTheCacheIsWhereTheUserWantsIt(t *testing.T) {
	t.Setenv("GANTRY_INTEROP_CACHE", t.TempDir())
	if got, err := Cache(); err != nil || got != os.Getenv("GANTRY_INTEROP_CACHE") {
		t.Errorf("cache %q, %v", got, err)
	}
}
