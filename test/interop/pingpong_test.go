//go:build linux

package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A match is one pingpong between gantry and an original program.
type match struct {
	kind   string // rc, uc or ud
	server bool   // Gantry is the server
	six    bool   // IPv6, for the packets; TCP is over IPv4 always
	iters  int
	args   []string // for both: the flags are the same
	own    []string // for Gantry alone
}

// port is where the server of the TCP exchange listens. Each row has the next
// one, as the last one's connections linger.
var port = 18600

// play plays a match.
func (x *row) play(m match) {
	x.t.Helper()
	port++
	ours, theirs := host4, guest4
	if m.six {
		ours, theirs = host6, guest6
	}
	args := append([]string{"-p", strconv.Itoa(port), "-n", strconv.Itoa(m.iters), "-c"}, m.args...)
	original := append([]string{"ibv_" + m.kind + "_pingpong", "-d", "rxe0", "-g", strconv.Itoa(x.gids[theirs])}, args...)
	own := append([]string{"pingpong", m.kind, "--json", "--addr", ours.String(), "--timeout", "60s"}, args...)
	own = append(own, m.own...)
	if m.kind == "rc" {
		// Eight times 67 ms, as the originals have it, is less than a guest can
		// stand still; the kernel's driver repeats for ever.
		own = append(own, "-u", "17")
	}
	if m.server {
		p := x.start(own...)
		x.awaitListener(p.listens)
		peer := x.spawn(append(original, host4.String())...)
		x.must(peer.Wait(x.ctx))
		if !p.unanswered(m.iters) {
			p.finish(m.iters)
		}
		return
	}
	peer := x.spawn(original...)
	x.awaitListener(x.guestListens)
	x.start(append(own, guest4.String())...).finish(m.iters)
	x.must(peer.Wait(x.ctx))
}

// awaitListener waits until somebody listens on port.
func (x *row) awaitListener(listens func() bool) {
	x.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !listens() {
		select {
		case <-tick.C:
		case <-x.ctx.Done():
			x.t.Fatalf("nobody listens on TCP port %d", port)
		}
	}
}

// guestListens looks at the guest's sockets.
func (x *row) guestListens() bool {
	x.t.Helper()
	files, err := x.guest.Read(x.ctx, "/proc/net/tcp*")
	x.must(err)
	for _, text := range files {
		if listening(text) {
			return true
		}
	}
	return false
}

// listening looks for port in a table of TCP sockets, where state 0A is
// LISTEN.
func listening(table string) bool {
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) > 3 && f[3] == "0A" && strings.HasSuffix(f[1], fmt.Sprintf(":%04X", port)) {
			return true
		}
	}
	return false
}

// A command is gantry, run by a row.
type command struct {
	x         *row
	cmd       *exec.Cmd
	out, errs words
	over      chan error
}

// Words are what a program says while others look for some of them.
type words struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write is part of io.Writer.
func (w *words) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(b)
}

func (w *words) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

// start starts gantry. It is ended with the row.
func (x *row) start(args ...string) *command {
	x.t.Helper()
	c := &command{x: x, cmd: exec.Command(gantry(), args...), over: make(chan error, 1)}
	c.cmd.Stdout, c.cmd.Stderr = &c.out, &c.errs
	x.must(c.cmd.Start())
	go func() { c.over <- c.cmd.Wait(); close(c.over) }()
	x.after(func() {
		_ = c.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
		<-c.over
	})
	return c
}

// listens looks at the sockets of this network namespace.
func (c *command) listens() bool {
	select {
	case err := <-c.over:
		c.x.t.Fatalf("gantry has ended: %v: %s", err, c.errs.String())
	default:
	}
	for _, f := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		if b, err := os.ReadFile(f); err == nil && listening(string(b)) {
			return true
		}
	}
	return false
}

// await waits until gantry has said something on its standard error.
func (c *command) await(text string) { c.x.t.Helper(); c.awaitTimes(text, 1) }

// awaitTimes waits until it has said it so many times.
func (c *command) awaitTimes(text string, n int) {
	c.x.t.Helper()
	for tick := time.Tick(10 * time.Millisecond); strings.Count(c.errs.String(), text) < n; {
		select {
		case <-tick:
		case err := <-c.over:
			c.x.t.Fatalf("gantry has ended without saying %q: %v: %s", text, err, c.errs.String())
		case <-c.x.ctx.Done():
			c.x.t.Fatalf("gantry does not say %q: %s", text, c.quit())
		}
	}
}

// end waits for gantry, which has to end with a status.
func (c *command) end(status int) {
	c.x.t.Helper()
	select {
	case <-c.over:
		if got := c.cmd.ProcessState.ExitCode(); got != status {
			c.x.t.Fatalf("gantry has ended with status %d, want %d: %s", got, status, c.errs.String())
		}
	case <-c.x.ctx.Done():
		c.x.t.Fatalf("gantry does not end: %s", c.quit())
	}
}

// quit has gantry print its goroutines and end, and returns what it has said.
func (c *command) quit() string {
	_ = c.cmd.Process.Signal(syscall.SIGQUIT)
	select {
	case <-c.over:
	case <-time.After(3 * time.Second):
	}
	return c.errs.String()
}

// unanswered waits for gantry, and reports whether only the acknowledgement of its
// last message is missing. In bad weather it may be: an original that has all
// messages ends at once, and whoever asks it again hears nothing.
func (c *command) unanswered(iters int) bool {
	c.x.t.Helper()
	select {
	case <-c.over:
	case <-c.x.ctx.Done():
		return false // finish says so
	}
	lost := c.x.weather.Loss+c.x.weather.Corrupt > 0 &&
		strings.Contains(c.errs.String(), fmt.Sprintf(" %d: transport retries exceeded", iters))
	if lost {
		c.x.note = "the last acknowledgement was lost: the original had ended"
	}
	return lost
}

// finish waits for gantry, which has to have compared iters messages.
func (c *command) finish(iters int) {
	c.x.t.Helper()
	c.end(0)
	var doc struct {
		Checked  int
		Counters map[string]uint64
	}
	if err := json.Unmarshal([]byte(c.out.String()), &doc); err != nil {
		c.x.t.Fatalf("gantry says %q: %v", c.out.String(), err)
	}
	c.x.ours = doc.Counters
	if doc.Checked != iters {
		c.x.t.Errorf("gantry has compared %d messages, want %d", doc.Checked, iters)
	}
}
