package probe

import (
	"net"
	"os"
	"slices"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLinuxHasWhatTheProbesTry(t *testing.T) {
	for name, probe := range map[string]func() error{
		"memfd": Memfd, "fault-safe copy": FaultSafeCopy, "UDP_SEGMENT": UDPSegment, "UDP_GRO": UDPReceive,
		"memlock":   func() error { _, err := Memlock(); return err },
		"huge page": func() error { _, err := HugePage(); return err },
	} {
		before := descriptors(t)
		if err := probe(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if after := descriptors(t); after != before {
			t.Errorf("%s: %d descriptors are open, want %d", name, after, before)
		}
	}
}

// descriptors returns how many descriptors the process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

func TestSocketOfThisProcessIsFound(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	port := conn.LocalAddr().(*net.UDPAddr).Port
	found := Local().HoldersOfUDP(uint16(port))
	if !slices.ContainsFunc(found, func(h Holder) bool { return h.PID == os.Getpid() && h.Name != "" }) {
		t.Errorf("port %d: found %v, want process %d", port, found, os.Getpid())
	}
}
