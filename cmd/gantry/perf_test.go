package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// perfPlaces are TCP ports and addresses that the tests of this process have to
// themselves.
func perfPlaces() map[string]string {
	n := os.Getpid()
	addr := func(last int) string { return fmt.Sprintf("127.%d.%d.%d", 128+n>>8&63, n&255, last) }
	places := map[string]string{
		"PERF_ADDR_A": addr(1), "PERF_ADDR_B": addr(3), "PROBE_ADDR": addr(5), "PING_ADDR_A": addr(7), "PING_ADDR_B": addr(9),
		"RPING_ADDR_A": addr(11), "RPING_ADDR_B": addr(13), "RPING_ADDR_C": addr(15), "RPING_ADDR_D": addr(17), "RPING_ADDR_E": addr(19), "RPING_ADDR_F": addr(21),
	}
	for _, name := range []string{"PERF_PORT", "PING_PORT"} {
		places[name] = "18515"
		if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
			defer func() { _ = l.Close() }() // so that the next one has another
			_, places[name], _ = net.SplitHostPort(l.Addr().String())
		}
	}
	return places
}

// tshark is a program of others that reads our captures.
func TestPerfCaptureIsReadByTshark(t *testing.T) {
	tshark, err := exec.LookPath("tshark")
	if err != nil {
		t.Skip("tshark is not installed")
	}
	file := filepath.Join(t.TempDir(), "perf.pcapng")
	var out, errOut bytes.Buffer
	if code := run([]string{"perf", "write_bw", "-s", "10000", "-n", "20", "--fabric", "memory", "--pcap", file, "--json"}, &out, &errOut); code != exitGood {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	var doc struct{ Results []map[string]any }
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || len(doc.Results) != 1 {
		t.Fatalf("%v: %s", err, out.String())
	}
	text, err := child.Command(t, tshark, "--disable-protocol", "rpcordma", "-r", file, "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "_ws.malformed").CombinedOutput()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, text)
	}
	if got := string(text); strings.Contains(got, "alformed") || strings.Count(got, "\n") < 60 {
		t.Errorf("tshark reads %d packets, some perhaps malformed", strings.Count(got, "\n"))
	}
}
