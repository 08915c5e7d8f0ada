package syncevent

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// roleVariable says what another process does.
const roleVariable = "GANTRY_SYNCEVENT_TEST_ROLE"

// A peer is a process in a role, seen from inside. It reads lines from its
// test, and writes lines to it.
type peer struct {
	device *device.Device
	lines  chan string
}

// runPeer plays a role, and is the exit code of the process.
func runPeer(play func(*peer) error) int {
	infos, err := device.List()
	if err == nil {
		p := &peer{lines: make(chan string)}
		go p.read()
		if p.device, err = device.Open(infos[0]); err == nil {
			err = play(p)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// read reads the lines of the test, and ends the process, whatever it is doing,
// when the test is gone.
func (p *peer) read() {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		p.lines <- in.Text()
	}
	os.Exit(1)
}

// line reads a line from the test.
func (p *peer) line() string { return <-p.lines }

// imported makes an idle event of the export that the test says.
func (p *peer) imported() (*Event, error) {
	b, err := hex.DecodeString(p.line())
	if err != nil {
		return nil, err
	}
	return Import(b, p.device)
}

// A process is a peer, seen from its test.
type process struct {
	testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startProcess runs the test binary in a role. The process ends with the test.
func startProcess(t testing.TB, role string, env ...string) *process {
	t.Helper()
	exe, err := os.Executable()
	want(t, "executable", err, nil)
	p := &process{TB: t, cmd: child.Command(t, exe, "-test.run=^$")}
	p.cmd.Env = append(append(os.Environ(), roleVariable+"="+role, "GORACE=atexit_sleep_ms=0"), env...)
	p.cmd.Stderr = os.Stderr
	p.in, err = p.cmd.StdinPipe()
	want(t, "stdin", err, nil)
	out, err := p.cmd.StdoutPipe()
	want(t, "stdout", err, nil)
	p.out = bufio.NewScanner(out)
	want(t, "start a process", p.cmd.Start(), nil)
	return p
}

// say writes a line to the process.
func (p *process) say(line string) {
	p.Helper()
	_, err := io.WriteString(p.in, line+"\n")
	want(p, "write to the process", err, nil)
}

// export gives the process an event.
func (p *process) export(b []byte) { p.Helper(); p.say(hex.EncodeToString(b)) }

// line reads a line from the process.
func (p *process) line() string {
	p.Helper()
	if !p.out.Scan() {
		p.Fatalf("the process ended: %v", p.out.Err())
	}
	return strings.TrimSpace(p.out.Text())
}

// imported takes an event from the process.
func (p *process) imported() []byte {
	p.Helper()
	b, err := hex.DecodeString(p.line())
	want(p, "export of the process", err, nil)
	return b
}

// wait waits for the process to end well.
func (p *process) wait() {
	p.Helper()
	want(p, "the process", p.cmd.Wait(), nil)
}

// kill ends the process where it stands.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
