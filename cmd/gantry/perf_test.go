package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// perfPlaces are a TCP port and two addresses that the tests of this process
// have to themselves.
func perfPlaces() map[string]string {
	n := os.Getpid()
	addr := func(last int) string { return fmt.Sprintf("127.%d.%d.%d", 128+n>>8&63, n&255, last) }
	port := "18515"
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		_, port, _ = net.SplitHostPort(l.Addr().String())
		_ = l.Close()
	}
	return map[string]string{"PERF_PORT": port, "PERF_ADDR_A": addr(1), "PERF_ADDR_B": addr(3)}
}

// program starts this test program as the command gantry.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, out, errOut *bytes.Buffer) {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	gantry := filepath.Join(dir, "gantry") // by this name it is the command
	if err := os.Symlink(self, gantry); err != nil {
		t.Skipf("no symbolic links: %v", err)
	}
	out, errOut = new(bytes.Buffer), new(bytes.Buffer)
	cmd = exec.Command(gantry, args...)
	cmd.Stdout, cmd.Stderr = out, errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, out, errOut
}

// A server that stands still, with its TCP connection open, is found out by
// the transport, within the time that timeout and retry count promise.
func TestPerfServerFreezes(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the UDP fabric needs Linux")
	}
	p := perfPlaces()
	server, _, serverSays := program(t, "perf", "--listen", "-p", p["PERF_PORT"], "--addr", p["PERF_ADDR_A"])
	client, _, says := program(t, "perf", "write_bw", p["PERF_ADDR_A"], "-p", p["PERF_PORT"], "--addr", p["PERF_ADDR_B"],
		"-D", "60", "-u", "12", "--retry_count", "3", "--pcap", filepath.Join(t.TempDir(), "begun.pcapng"))
	timer := time.NewTimer(1500 * time.Millisecond)
	<-timer.C
	if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err := client.Wait()
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("it took %v", took)
	}
	if code := client.ProcessState.ExitCode(); code != exitFailed {
		t.Errorf("exit code %d (%v), want %d", code, err, exitFailed)
	}
	if got := says.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "does not answer any more") && !strings.Contains(got, "no answer for") {
		t.Errorf("got %q, want one sentence that says that the server does not answer; the server: %q", got, serverSays)
	}
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
	text, err := exec.Command(tshark, "--disable-protocol", "rpcordma", "-r", file, "-T", "fields", "-e", "infiniband.bth.opcode", "-e", "_ws.malformed").CombinedOutput()
	if err != nil {
		t.Fatalf("tshark: %v: %s", err, text)
	}
	if got := string(text); strings.Contains(got, "alformed") || strings.Count(got, "\n") < 60 {
		t.Errorf("tshark reads %d packets, some perhaps malformed", strings.Count(got, "\n"))
	}
}
