package peer

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/internal/pcapng"
	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// packets are what the tests capture: an acknowledgement, and bytes that are no
// packet.
func packets(c *capture) {
	a, b := netip.MustParseAddrPort("192.0.2.1:4791"), netip.MustParseAddrPort("192.0.2.2:4791")
	v6 := netip.MustParseAddrPort("[2001:db8::1]:4791")
	c.packet(a, b, []byte{0x11, 0, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0, 5, 0x1f, 0, 0, 1, 1, 2, 3, 4}, pcapng.Outbound)
	c.packet(b, a, []byte{1, 2, 3}, pcapng.Inbound)
	c.packet(v6, v6, make([]byte, 20), pcapng.Inbound)
	c.packet(a, v6, nil, pcapng.Inbound) // of two families: no packet there is
}

// A capture has every packet, the broken ones too.
func TestCaptureHasEveryPacket(t *testing.T) {
	var out bytes.Buffer
	c := newCapture(&out)
	packets(c)
	if err := c.close(); err != nil {
		t.Fatal(err)
	}
	var blank bytes.Buffer
	newCapture(&blank)
	const around = 28 + 8 + 4 + 4 // of a packet: block, direction, end of options, length
	if got, want := out.Len()-blank.Len(), 3*around+28+20+(28+3+1)+48+20; got != want {
		t.Errorf("three packets have %d bytes, want %d", got, want)
	}
	packets(newCapture(nil)) // nobody wants it
}

// tshark is a program of others that reads our captures.
func TestCaptureIsReadByTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed")
	}
	var out bytes.Buffer
	packets(newCapture(&out))
	file := filepath.Join(t.TempDir(), "probe.pcapng")
	if err := os.WriteFile(file, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := child.Command(t, tshark, "-r", file, "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "infiniband.bth.psn", "-e", "ip.src").Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	if got := string(text); !strings.HasPrefix(got, "17\t5\t192.0.2.1\n") || strings.Count(got, "\n") != 3 {
		t.Errorf("tshark reads %q", got)
	}
}

// full is a writer on a full disk.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("full")

// A capture that could not be written is an error at its end.
func TestCaptureReportsWhatWasNotWritten(t *testing.T) {
	c := newCapture(full{})
	packets(c)
	if err := c.close(); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}
