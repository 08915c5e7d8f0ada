package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/gantry-rdma/gantry/internal/probe"
)

// machine makes a System of files, given as path, contents, path, contents.
func machine(files ...string) probe.System {
	m := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		m[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return probe.In(m)
}

func TestOnlyARequiredCheckFailsTheDoctor(t *testing.T) {
	warn := check{Name: "slow", Detail: "is slow", Advice: "do something"}
	broken := check{Name: "broken", Required: true, Detail: "is broken"}
	for _, c := range []struct {
		checks []check
		fails  bool
	}{{nil, false}, {[]check{{Name: "good", OK: true, Required: true}, warn}, false}, {[]check{warn, broken}, true}} {
		var out bytes.Buffer
		err := (&console{out: &out, json: true}).doctor(c.checks)
		if (err != nil) != c.fails {
			t.Errorf("%v: %v, want a failure: %v", c.checks, err, c.fails)
		}
		if err != nil && !strings.Contains(err.Error(), "broken failed") {
			t.Errorf("the error does not say what failed: %v", err)
		}
		var doc struct{ OK bool }
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil || doc.OK == c.fails {
			t.Errorf("the document is %s, %v", out.Bytes(), err)
		}
	}
}

func TestChecksSayWhatToDo(t *testing.T) {
	const tcp = "  sl  local_address\n  1: 00000000:12B7 00000000:0000 07 0:0 0:0 0 0 0 77 2 0 0\n"
	for _, c := range []struct {
		got          check
		ok           bool
		detail, does string
	}{
		{checkRXE(machine()), true, "not loaded", ""},
		{checkRXE(machine("sys/module/rdma_rxe/refcnt", "1")), true, "no socket", ""},
		{checkRXE(machine("sys/module/rdma_rxe/refcnt", "1", "proc/net/udp", tcp)), false, "rdma_rxe seems to have it", "rdma link delete"},
		{checkBuffers(machine("proc/sys/net/core/rmem_max", "212992\n", "proc/sys/net/core/wmem_max", "8388608\n")), false, "208KiB to receive, 8MiB to send", "net.core.rmem_max=4194304 net.core.wmem_max=4194304"},
		{checkBuffers(machine("proc/sys/net/core/rmem_max", "4194304", "proc/sys/net/core/wmem_max", "4194304")), true, "4MiB", ""},
		{checkBuffers(machine()), false, "cannot be read", ""},
		{checkCPUs(machine(), 1), false, "GOMAXPROCS 1", "inline executor"},
		{checkCPUs(machine("proc/self/cgroup", "0::/", "sys/fs/cgroup/cpu.max", "150000 100000"), 8), false, "allows 1.5", "GOMAXPROCS=2"},
		{checkCPUs(machine("proc/self/cgroup", "0::/", "sys/fs/cgroup/cpu.max", "150000 100000"), 2), true, "allows 1.5", ""},
		{checkNetwork(machine("proc/net/ip_tables_names", "filter\n")), true, "no container", ""},
		{checkNetwork(machine(".dockerenv", "", "proc/net/ip_tables_names", "nat\n")), false, "a container (Docker) and an iptables NAT table", "the host's network"},
		{checkNetwork(machine("sys/class/net/cni0/mtu", "1500")), false, "bridges or tunnels (cni0); NAT rules cannot be read", "NAT"},
		{checkOffload("udp_gso", "x", errors.ErrUnsupported), false, "not on this system", ""},
		{checkOffload("udp_gso", "x", errors.New("no such option")), false, "no such option", "5.0"},
	} {
		if c.got.OK != c.ok || !strings.Contains(c.got.Detail, c.detail) || !strings.Contains(c.got.Advice, c.does) {
			t.Errorf("got %+v, want ok %v, %q and %q", c.got, c.ok, c.detail, c.does)
		}
		if c.ok && c.got.Advice != "" {
			t.Errorf("%+v: advice where nothing is wrong", c.got)
		}
	}
}

func TestPortThatIsTakenSaysByWhom(t *testing.T) {
	conn, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 9), Port: rocePort})
	if err != nil {
		t.Skipf("UDP port %d is not ours to take: %v", rocePort, err)
	}
	defer conn.Close()
	k := checkPort(probe.Local(), "port", "127.0.0.9")
	if k.OK || k.Required || !strings.Contains(k.Detail, "address already in use") || !strings.Contains(k.Detail, "has it") {
		t.Errorf("got %+v", k)
	}
}
