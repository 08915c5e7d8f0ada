package kit

import (
	"bufio"
	"context"
	"encoding/json"
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
	"time"

	"github.com/gantry-rdma/gantry/test/interop/order"
)

// emulator is the program that runs the guest.
const emulator = "qemu-system-x86_64"

// A Config says how a guest is booted.
type Config struct {
	Image *Image // its kernel and programs
	Dir   string // for the console's output
	MTU   int    // of the network; 1500 gives a path MTU of 1024, 4200 one of 4096
	Wire  *Wire  // the cable: see NewWire
	Addr  string // addresses with prefix lengths, separated by commas
}

// A Guest is a virtual machine that runs. Close ends it.
type Guest struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	console string
	ended   chan struct{}
	Booted  time.Duration // how long it took

	mu    sync.Mutex // for what follows, and to write
	next  int
	wait  map[int]chan order.Answer
	cause error // there are no more answers
}

// life is how long a guest exists at most, if all else fails.
const life = 40 * time.Minute

// Boot starts a guest and waits until it takes orders.
func Boot(ctx context.Context, c Config) (g *Guest, err error) {
	g = &Guest{console: filepath.Join(c.Dir, "console.log"), ended: make(chan struct{}), wait: map[int]chan order.Answer{}}
	path, env := emulator, os.Environ()
	args := []string{}
	if _, err := exec.LookPath(path); err != nil {
		if path, err = c.Image.tools.program(emulator); err != nil {
			return nil, err
		}
		env = c.Image.tools.environ()
		for _, d := range []string{"usr/share/qemu", "usr/share/seabios"} {
			args = append(args, "-L", filepath.Join(c.Image.tools[0], d))
		}
	}
	g.cmd = exec.Command(path, append(args, g.arguments(c)...)...)
	g.cmd.Env = env
	g.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // if all else fails
	g.cmd.ExtraFiles = []*os.File{c.Wire.plug}                           // descriptor 3
	var errs strings.Builder
	g.cmd.Stderr = &errs
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	hello := make(chan order.Answer, 1)
	g.wait[order.Hello] = hello
	begin := time.Now()
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	go g.listen(out)
	select {
	case a, ok := <-hello:
		g.Booted = time.Since(begin)
		if ok && a.Error == "" {
			return g, nil
		}
		err = fmt.Errorf("the guest does not get ready: %s", a.Error)
	case <-ctx.Done():
		err = fmt.Errorf("the guest does not get ready: %w", context.Cause(ctx))
	}
	_ = g.Close() // the first error is the one to tell
	return nil, fmt.Errorf("%w\nemulator: %s\nconsole: %s", err, errs.String(), g.Console())
}

// arguments are those of the emulator.
func (g *Guest) arguments(c Config) []string {
	accel := os.Getenv("GANTRY_INTEROP_ACCEL")
	if accel == "" {
		accel = "tcg" // works everywhere
	}
	line := fmt.Sprintf("console=ttyS0 panic=-1 quiet mitigations=off tsc=reliable no_timer_check random.trust_cpu=on "+
		"gantry.addr=%s gantry.mtu=%d gantry.life=%d", c.Addr, c.MTU, int(life.Seconds()))
	return []string{"-accel", accel, "-cpu", "max,la57=off", "-smp", "1", "-m", "384",
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
		"-kernel", c.Image.vmlinuz, "-initrd", c.Image.initrd, "-append", line,
		"-serial", "file:" + g.console,
		"-device", "virtio-serial-pci", "-chardev", "stdio,id=orders,signal=off",
		"-device", "virtserialport,chardev=orders,name=" + order.Port,
		"-netdev", "stream,id=net,server=off,addr.type=fd,addr.str=3",
		"-device", "virtio-net-pci,netdev=net,romfile=,rx_queue_size=1024,mac=52:54:00:00:00:02,host_mtu=" + strconv.Itoa(c.MTU)}
}

// listen hands out answers until there are no more.
func (g *Guest) listen(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<22)
	for lines.Scan() {
		var a order.Answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue
		}
		g.mu.Lock()
		c := g.wait[a.ID]
		if a.Done {
			delete(g.wait, a.ID)
		}
		g.mu.Unlock()
		if c != nil {
			c <- a
			if a.Done {
				close(c)
			}
		}
	}
	_ = g.cmd.Wait() // that it has ended is all there is to say
	g.mu.Lock()
	g.cause = errors.New("the guest has ended")
	for id, c := range g.wait {
		close(c)
		delete(g.wait, id)
	}
	g.mu.Unlock()
	close(g.ended)
}

// send sends an order, whose answers come over the channel. Whoever asks has
// to take all of them.
func (g *Guest) send(o order.Order) (int, <-chan order.Answer, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cause != nil {
		return 0, nil, g.cause
	}
	if o.ID == 0 {
		g.next++
		o.ID = g.next
	}
	c := make(chan order.Answer, 64)
	if !o.Kill {
		g.wait[o.ID] = c
	}
	line, err := json.Marshal(o)
	if err == nil {
		_, err = g.in.Write(append(line, '\n'))
	}
	return o.ID, c, err
}

// ask sends an order with one answer.
func (g *Guest) ask(ctx context.Context, o order.Order) (order.Answer, error) {
	_, c, err := g.send(o)
	if err != nil {
		return order.Answer{}, err
	}
	select {
	case a, ok := <-c:
		if !ok {
			return a, errors.New("the guest has ended")
		}
		if a.Error != "" {
			return a, errors.New(a.Error)
		}
		return a, nil
	case <-ctx.Done():
		return order.Answer{}, fmt.Errorf("the guest does not answer: %w", context.Cause(ctx))
	}
}

// Read returns the contents of the files that match a pattern.
func (g *Guest) Read(ctx context.Context, pattern string) (map[string]string, error) {
	a, err := g.ask(ctx, order.Order{Read: pattern})
	return a.Files, err
}

// Write writes a file.
func (g *Guest) Write(ctx context.Context, path, text string) error {
	_, err := g.ask(ctx, order.Order{Write: path, Text: text})
	return err
}

// Log returns what the kernel has said since the last call.
func (g *Guest) Log(ctx context.Context) (string, error) {
	a, err := g.ask(ctx, order.Order{Log: true})
	return a.Out, err
}

// Counters returns those of rxe0 by their names.
func (g *Guest) Counters(ctx context.Context) (map[string]int64, error) {
	files, err := g.Read(ctx, "/sys/class/infiniband/rxe0/ports/1/hw_counters/*")
	m := map[string]int64{}
	for p, text := range files {
		if v, err := strconv.ParseInt(strings.TrimSpace(text), 10, 64); err == nil {
			m[filepath.Base(p)] = v
		}
	}
	return m, err
}

// GIDIndex returns the index of the guest's GID for an address in the form that
// the kernel prints: eight groups of four digits.
func (g *Guest) GIDIndex(ctx context.Context, gid string) (int, error) {
	files, err := g.Read(ctx, "/sys/class/infiniband/rxe0/ports/1/gids/*")
	for p, text := range files {
		if strings.TrimSpace(text) == gid {
			return strconv.Atoi(filepath.Base(p))
		}
	}
	return 0, errors.Join(err, fmt.Errorf("the guest has no GID %s", gid))
}

// Console returns the end of what the guest has printed.
func (g *Guest) Console() string {
	b, _ := os.ReadFile(g.console) // nothing, if there is none
	return string(b[max(0, len(b)-4000):])
}

// Close ends the guest and waits until it has gone.
func (g *Guest) Close() error {
	_, _, err := g.send(order.Order{Off: true})
	select {
	case <-g.ended:
		return nil
	case <-time.After(3 * time.Second):
	}
	err = errors.Join(err, g.cmd.Process.Kill())
	<-g.ended
	return err
}
