package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gantry-rdma/gantry/test/interop/order"
	"golang.org/x/sys/unix"
)

// A server follows the orders of the host.
type server struct {
	port *os.File
	log  int // the kernel's messages, or -1

	mu   sync.Mutex // held to write, and for what follows
	runs map[int]context.CancelFunc
}

// serve follows orders until there are no more. It says first whether the guest
// is ready, or why it is not.
func serve(trouble error) error {
	p, err := port()
	if err != nil {
		return err
	}
	s := &server{port: p, runs: map[int]context.CancelFunc{}}
	if s.log, err = unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK, 0); err != nil {
		s.log = -1
	}
	s.messages() // those of the boot are of no interest
	hello := order.Answer{ID: order.Hello, Done: true}
	if trouble != nil {
		hello.Error = trouble.Error()
	}
	s.say(hello)
	lines := bufio.NewScanner(p)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var o order.Order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return fmt.Errorf("order %q: %w", lines.Bytes(), err)
		}
		if o.Off {
			return nil
		}
		s.follow(o)
	}
	return lines.Err()
}

// say writes one answer.
func (s *server) say(a order.Answer) {
	line, err := json.Marshal(a)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = s.port.Write(append(line, '\n')) // without a host there is nobody to tell
}

// follow does what an order says. Programs go on behind it.
func (s *server) follow(o order.Order) {
	done := order.Answer{ID: o.ID, Done: true}
	switch {
	case o.Kill:
		s.mu.Lock()
		if stop := s.runs[o.ID]; stop != nil {
			stop()
		}
		s.mu.Unlock()
		return // its program answers
	case len(o.Run) > 0:
		s.start(o)
		return
	case o.Read != "":
		done.Files = map[string]string{}
		names, _ := filepath.Glob(o.Read) // of a bad pattern there are none
		for _, n := range names {
			if b, err := os.ReadFile(n); err == nil {
				done.Files[n] = string(b)
			}
		}
	case o.Write != "":
		if err := os.WriteFile(o.Write, []byte(o.Text), 0o600); err != nil {
			done.Error = err.Error()
		}
	case o.Log:
		done.Out = s.messages()
	}
	s.say(done)
}

// start runs a program.
func (s *server) start(o order.Order) {
	ctx, stop := context.WithTimeout(context.Background(), time.Duration(o.Limit)*time.Second)
	s.mu.Lock()
	s.runs[o.ID] = stop
	s.mu.Unlock()
	c := exec.CommandContext(ctx, o.Run[0], o.Run[1:]...)
	out := output{s, o.ID}
	c.Stdout, c.Stderr = out, out
	err := c.Start()
	go func() {
		done := order.Answer{ID: o.ID, Done: true}
		if err == nil {
			err = c.Wait()
		}
		s.mu.Lock()
		delete(s.runs, o.ID)
		s.mu.Unlock()
		stop()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			done.Exit = exit.ExitCode()
		} else if err != nil {
			done.Error = err.Error()
		}
		s.say(done)
	}()
}

// An output passes on what a program writes.
type output struct {
	s  *server
	id int
}

// Write sends b to the host.
func (o output) Write(b []byte) (int, error) {
	o.s.say(order.Answer{ID: o.id, Out: string(b)})
	return len(b), nil
}

// messages returns what the kernel has said since it was asked last. Each read
// gives one message, behind "priority,number,microseconds,flags;".
func (s *server) messages() string {
	if s.log < 0 {
		return ""
	}
	var all strings.Builder
	b := make([]byte, 8192)
	for {
		n, err := unix.Read(s.log, b)
		switch {
		case errors.Is(err, unix.EPIPE): // some were overwritten
		case err != nil || n <= 0:
			return all.String()
		default:
			_, text, _ := strings.Cut(string(b[:n]), ";")
			text, _, _ = strings.Cut(text, "\n")
			all.WriteString(text + "\n")
		}
	}
}
