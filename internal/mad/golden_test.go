package mad

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-rdma/gantry/internal/testkit/pcap"
	"github.com/gantry-rdma/gantry/roce"
)

var update = flag.Bool("update", false, "write the golden text again")

const captures = "../../roce/testdata/golden/cm-*.pcap"

// captured returns the MADs of one capture in their order.
func captured(t testing.TB, file string) (all []*MAD) {
	t.Helper()
	packets, err := pcap.Packets(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, packet := range packets {
		d, ok := roce.ParseIP(packet)
		if !ok {
			t.Fatalf("%s: no IP packet: %x", file, packet)
		}
		p, ok := roce.Parse(d.Payload())
		if !ok {
			t.Fatalf("%s: no RoCEv2 packet: %x", file, packet)
		}
		if p.BTH().DestQP() != 1 {
			continue
		}
		m, ok := Parse(p.Payload())
		if !ok || !m.CM() {
			t.Fatalf("%s: no message of connection management: %x", file, p.Payload())
		}
		all = append(all, m)
	}
	return all
}

// everyField lists the fields and spans of each message.
func everyField(a Attr) (fields []Field, spans []Span) {
	for _, c := range columns[a-REQ] {
		fields = append(fields, c.f)
	}
	switch a {
	case REQ:
		fields = append(fields, ReqServiceID)
		spans = append(spans, ReqLocalGID, ReqRemoteGID, ReqAltLocalGID, ReqAltRemoteGID)
	case REJ:
		fields = append(fields, RejMessage, RejReason)
		spans = append(spans, RejInfo)
	case MRA:
		fields = append(fields, MraMessage)
	case SIDRREQ:
		fields = append(fields, SidrReqServiceID)
	case SIDRREP:
		fields = append(fields, SidrRepServiceID, SidrRepStatus)
		spans = append(spans, SidrRepInfo)
	}
	if s := privates[a-REQ]; s.n > 0 {
		spans = append(spans, s)
	}
	return fields, spans
}

// encode builds a message out of the fields of m.
func encode(m *MAD) *MAD {
	out := New(m.Attr(), m.Transaction())
	fields, spans := everyField(m.Attr())
	for _, f := range fields {
		f.Set(out, f.In(m))
	}
	for _, s := range spans {
		s.Put(out, s.In(m))
	}
	if a := m.Attr(); a == REQ || a == SIDRREQ {
		if c, _, ok := ParseCMA(m.Private()); ok {
			var again CMA
			again.Set(c.Src(), c.Dst())
			copy(out.Private(), again[:])
		}
	}
	return out
}

// TestGoldenMADsDecodeAndEncode goes through what two kernels said to each
// other: building each message again from its fields gives the same bytes.
func TestGoldenMADsDecodeAndEncode(t *testing.T) {
	files, err := filepath.Glob(captures)
	if err != nil || len(files) != 6 {
		t.Fatalf("got %d captures (%v), want 6", len(files), err)
	}
	var text bytes.Buffer
	seen := map[Attr]int{}
	for _, file := range files {
		fmt.Fprintf(&text, "%s\n", strings.TrimSuffix(filepath.Base(file), ".pcap"))
		for _, m := range captured(t, file) {
			seen[m.Attr()]++
			fmt.Fprintf(&text, "\t%v\n", m)
			if diff := cmp.Diff(m[:], encode(m)[:]); diff != "" {
				t.Errorf("%v: encoded again (-captured +encoded):\n%s", m, diff)
			}
		}
	}
	want := map[Attr]int{REQ: 5, REP: 4, RTU: 4, DREQ: 4, DREP: 4, REJ: 1, SIDRREQ: 1, SIDRREP: 1}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	const golden = "testdata/captured.txt"
	if *update {
		if err := os.WriteFile(golden, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	b, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	b = bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n"))
	if diff := cmp.Diff(string(b), text.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", golden, diff)
	}
}
