package faults

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// A process is a child of the test.
type process struct {
	testing.TB
	*exec.Cmd
	name  string
	in    io.WriteCloser
	lines chan string // of its standard output, from the first to the last
	ended chan struct{}
	mu    sync.Mutex
	out   bytes.Buffer // standard output
	notes bytes.Buffer // standard error
	state *os.ProcessState
}

// gantry starts the command with a runtime directory.
func gantry(t testing.TB, dir string, args ...string) *process {
	t.Helper()
	return begin(t, args[0], exec.Command(program, args...), dir)
}

// play starts the test program in a role; the settings are in its environment.
func play(t testing.TB, dir, role string, settings ...string) *process {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env = append(settings, roleVariable+"="+role)
	return begin(t, role, c, dir)
}

func begin(t testing.TB, name string, c *exec.Cmd, dir string) *process {
	t.Helper()
	p := &process{TB: t, Cmd: c, name: name, lines: make(chan string, 1<<16), ended: make(chan struct{})}
	c.Env = append(append(os.Environ(), c.Env...), "GANTRY_RUNTIME_DIR="+dir)
	c.Stderr = (*notes)(p)
	var err error
	if p.in, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	go p.follow(out)
	t.Cleanup(func() { p.kill(); <-p.ended })
	return p
}

// notes is a process that takes what it says on standard error.
type notes process

func (n *notes) Write(b []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.notes.Write(b)
}

// follow reads what the process prints, and waits for its end.
func (p *process) follow(out io.Reader) {
	for s := bufio.NewScanner(out); s.Scan(); {
		p.mu.Lock()
		p.out.WriteString(s.Text() + "\n")
		p.mu.Unlock()
		select {
		case p.lines <- s.Text():
		default: // nobody reads them
		}
	}
	_ = p.Wait()
	p.state = p.ProcessState
	close(p.lines)
	close(p.ended)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.notes.String()
}

func (p *process) printed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.String()
}

// signal sends a signal to the process, which is this test's own child.
func (p *process) signal(s syscall.Signal) { _ = p.Process.Signal(s) }

// stop makes the process stand still, and returns when it does.
func (p *process) stop() {
	p.Helper()
	child.Stop(p.TB, p.Process)
}

// kill ends the process without a warning.
func (p *process) kill() { p.signal(syscall.SIGKILL) }

// within waits for the end of the process, and is an error when it does not
// come in time: then a dump of its goroutines is in what it said.
func (p *process) within(d time.Duration) error {
	select {
	case <-p.ended:
		return nil
	case <-time.After(d):
	}
	p.signal(syscall.SIGCONT)
	p.signal(syscall.SIGQUIT)
	select {
	case <-p.ended:
	case <-time.After(2 * time.Second):
		p.kill()
		<-p.ended
	}
	return fmt.Errorf("%s does not end in %v:\n%s", p.name, d, p.said())
}

// crashes are what a Go program says when it does not end as it should.
var crashes = []string{"panic:", "fatal error:", "SIGSEGV", "SIGBUS", "unexpected fault", "goroutine 1 ", "DATA RACE"}

// verdict is an error unless the process has ended with the code, and not by
// crashing. A code that is not zero needs a reason, in words of the command.
func (p *process) verdict(code int) error {
	said := p.said()
	for _, c := range crashes {
		if strings.Contains(said, c) {
			return fmt.Errorf("%s crashed:\n%s", p.name, said)
		}
	}
	switch {
	case !p.state.Exited():
		return fmt.Errorf("%s ended by %v:\n%s", p.name, p.state, said)
	case p.state.ExitCode() != code:
		return fmt.Errorf("%s ended with code %d, want %d: %s", p.name, p.state.ExitCode(), code, said)
	case code != 0 && !strings.Contains(said, "gantry: "):
		return fmt.Errorf("%s failed and did not say why: %q", p.name, said)
	}
	return nil
}

// ends waits for the end of the process, and checks it.
func (p *process) ends(code int, d time.Duration) {
	p.Helper()
	if err := errors.Join(p.within(d), p.verdict(code)); err != nil {
		p.Error(err)
	}
}

// says waits for a line of standard output that starts so, and returns the
// rest of it.
func (p *process) says(prefix string, d time.Duration) string {
	p.Helper()
	for end := time.After(d); ; {
		select {
		case line, ok := <-p.lines:
			if rest, found := strings.CutPrefix(line, prefix); found {
				return strings.TrimSpace(rest)
			}
			if !ok {
				p.Fatalf("%s ended and did not say %q:\n%s", p.name, prefix, p.said())
			}
		case <-end:
			p.signal(syscall.SIGQUIT)
			<-time.After(time.Second / 2)
			p.Fatalf("%s did not say %q in %v:\n%s", p.name, prefix, d, p.said())
		}
	}
}

// path returns a file of the process in /proc.
func (p *process) path(file string) string {
	return filepath.Join("/proc", strconv.Itoa(p.Process.Pid), file)
}

// descriptors counts what the process has open.
func (p *process) descriptors() int {
	list, _ := os.ReadDir(p.path("fd"))
	return len(list)
}

// mappings counts the shared memory that the process has mapped.
func (p *process) mappings() int {
	maps, _ := os.ReadFile(p.path("maps"))
	return bytes.Count(maps, []byte("/memfd:"))
}

// listens reports whether the process has a socket that others can connect to.
// A file of a socket says less: it is there a moment earlier, and it stays when
// its process is killed.
func (p *process) listens() bool {
	const accepts, flags, inode = "00010000", 3, 6
	sockets, _ := os.ReadFile(p.path("net/unix"))
	list, _ := os.ReadDir(p.path("fd"))
	for _, fd := range list {
		to, _ := os.Readlink(p.path("fd/" + fd.Name()))
		for line := range strings.Lines(string(sockets)) {
			f := strings.Fields(line)
			if len(f) > inode && f[flags] == accepts && to == "socket:["+f[inode]+"]" {
				return true
			}
		}
	}
	return false
}

// used is how much time of a CPU the process has taken.
func (p *process) used() time.Duration {
	stat, _ := os.ReadFile(p.path("stat"))
	_, rest, _ := strings.Cut(string(stat), ") ")
	f := strings.Fields(rest)
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond
}

// load returns which part of a CPU the process takes, over a while.
func (p *process) load(over time.Duration) float64 {
	before := p.used()
	<-time.After(over)
	return float64(p.used()-before) / float64(over)
}

// eventually asks until the answer is yes.
func eventually(d time.Duration, ok func() bool) bool {
	for end := time.Now().Add(d); !ok(); <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// files returns how many sockets, locks and others are in a runtime directory.
func files(dir string) (sockets, locks, others int) {
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		switch filepath.Ext(e.Name()) {
		case ".sock":
			sockets++
		case ".lock":
			locks++
		default:
			others++
		}
	}
	return sockets, locks, others
}

// wantClean checks what is left in a runtime directory: of sockets and of locks
// so many at most, which who was killed may leave, and nothing else.
func wantClean(t testing.TB, dir string, stale int) {
	t.Helper()
	if sockets, locks, others := files(dir); sockets > stale || locks > stale || others > 0 {
		t.Errorf("%d sockets, %d locks and %d other files are left, want %d, %d and 0", sockets, locks, others, stale, stale)
	}
}

// shared returns how many bytes of shared memory the system has in use.
func shared() int {
	info, _ := os.ReadFile("/proc/meminfo")
	_, rest, _ := strings.Cut(string(info), "Shmem:")
	n := 0
	_, _ = fmt.Sscan(rest, &n)
	return n << 10
}

// alive counts the processes of a program.
func alive(path string) (n int) {
	list, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, l := range list {
		if to, err := os.Readlink(l); err == nil && to == path {
			n++
		}
	}
	return n
}
