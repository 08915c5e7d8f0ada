package comch

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// play is what the test binary does when it is started as the other process:
// it connects as the role says, sends five messages, says so on its standard
// output, and then does nothing until it is killed. In a role of a flood it
// sends messages as long as it lives. That is no longer than its test.
func play(role string) int {
	defer os.Exit(1) // when something is not as wanted, which ends the goroutine
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // its other end is the test's
		os.Exit(1)
	}()
	r := newRig(&testing.B{})
	role, flood := strings.CutSuffix(role, " of a flood")
	var e *end
	switch role {
	case "server":
		s := r.server(r.engine(), os.Getenv("COMCH_TEST_NAME"), 8)
		r.want("start", s.Start(), nil)
		fmt.Println("started")
		r.until("connected", func() bool { return s.link != nil })
		e = &s.end
	case "client":
		c := r.client(r.engine(), os.Getenv("COMCH_TEST_NAME"), 8)
		r.want("queue", c.SetRecvQueue(2), nil)
		c.begin()
		r.until("connected", func() bool { return c.State() == core.Running })
		e = &c.end
	}
	if flood {
		e.flood()
		r.until("killed", func() bool { return false })
	}
	for n := range 5 {
		r.want("send", e.send(fmt.Sprint(n)), nil)
	}
	fmt.Println("ready")
	select {}
}

// flood sends messages as long as there are tasks, and again whenever one comes
// back. They are not kept on the other side.
func (e *end) flood() {
	more := func() {
		for e.send("one of many") == nil {
		}
	}
	e.onSent = func(*Send) { more() }
	e.onGot = func(*Connection, []byte) { e.seen++; e.got = nil }
	more()
}

// A process is the test binary in a role.
type process struct {
	*rig
	cmd  *exec.Cmd
	in   io.Closer // the process ends with it
	said *bufio.Scanner
}

func (r *rig) process(role, name string) *process {
	r.Helper()
	p := &process{rig: r, cmd: child.Command(r.TB, os.Args[0])}
	p.cmd.Env = append(os.Environ(), "COMCH_TEST_ROLE="+role, "COMCH_TEST_NAME="+name)
	p.cmd.Stderr = os.Stderr
	var err error
	p.in, err = p.cmd.StdinPipe()
	r.want("pipe", err, nil)
	out, err := p.cmd.StdoutPipe()
	r.want("pipe", err, nil)
	r.want("start a process", p.cmd.Start(), nil)
	p.said = bufio.NewScanner(out)
	return p
}

// says waits until the process says a line.
func (p *process) says(line string) {
	p.Helper()
	if !p.said.Scan() || p.said.Text() != line {
		p.Fatalf("the other process said %q: %v, want %q", p.said.Text(), p.said.Err(), line)
	}
}

// kill kills the process, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // harmless when it is gone
	_ = p.cmd.Wait()
}
