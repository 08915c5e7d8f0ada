package dma

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/testkit/child"
	"github.com/gantry-rdma/gantry/mem"
)

// otherProcess plays the part that the environment asks for, and reports
// whether it did. It obeys lines of standard input until that ends.
func otherProcess() bool {
	parts := map[string]func() error{"owner": playOwner, "importer": playImporter}
	part := parts[os.Getenv("DMA_TEST_PART")]
	if part == nil {
		return false
	}
	if err := part(); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	return true
}

// playOwner exports a map, and obeys: sum prints a checksum of the memory, stop
// stops the map.
func playOwner() error {
	var n int
	var access uint32
	if _, err := fmt.Sscan(os.Getenv("DMA_TEST_ARGS"), &n, &access); err != nil {
		return err
	}
	d, err := device.OpenPCI(os.Getenv("DMA_TEST_DEVICE"), nil)
	if err != nil {
		return err
	}
	m, _ := mem.NewMap()
	core.KeepFirst(&err, m.Allocate(n, mem.AllocOptions{Shareable: true}))
	core.KeepFirst(&err, m.SetAccess(mem.Access(access)))
	core.KeepFirst(&err, m.AddDevice(d))
	core.KeepFirst(&err, m.Start())
	if err != nil {
		return err
	}
	pattern(m.Bytes(), 0)
	blob, err := m.ExportPCI(d)
	if err != nil {
		return err
	}
	base, _, _ := m.Range()
	fmt.Println(hex.EncodeToString(blob), uint64(base), n)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "sum":
			fmt.Println(crc32.ChecksumIEEE(m.Bytes()))
		case "stop":
			fmt.Println("stopped:", m.Stop())
		}
	}
	return m.Destroy()
}

// playImporter copies from an imported map until it is killed, or its test is.
func playImporter() error {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	e, err := parseExport(os.Getenv("DMA_TEST_ARGS"))
	if err != nil {
		return err
	}
	t := &testing.T{}
	r := newRig(t, nil, 4, e.n)
	i, err := mem.Import(0, nil, e.blob, r.device)
	if err != nil {
		return err
	}
	r.free = false
	if err := r.dma.Start(); err != nil {
		return err
	}
	src, err := r.bufs.ByData(i, e.base, e.n)
	if err != nil {
		return err
	}
	dst := r.dst(0, e.n, 1)
	for done := 0; ; done++ {
		task := r.alloc(src, dst)
		r.ok, r.failed = nil, nil
		if err := task.Submit(); err != nil {
			return err
		}
		for len(r.ok)+len(r.failed) == 0 {
			r.engine.Progress()
		}
		if err := dst.ResetDataLen(); err != nil {
			return err
		}
		_ = task.Free()
		if done == 3 {
			fmt.Println("copying")
		}
	}
}

// An export is what an owner says of its memory.
type export struct {
	blob []byte
	base mem.Addr
	n    int
}

func parseExport(line string) (e export, err error) {
	var text string
	if _, err = fmt.Sscan(line, &text, &e.base, &e.n); err == nil {
		e.blob, err = hex.DecodeString(text)
	}
	return e, err
}

// A process is this binary in another part.
type process struct {
	testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func (r *rig) process(part, args string) *process {
	r.Helper()
	p := &process{TB: r.TB, cmd: child.Command(r.TB, os.Args[0])}
	p.cmd.Env = append(os.Environ(), "DMA_TEST_PART="+part, "DMA_TEST_ARGS="+args,
		"DMA_TEST_DEVICE="+r.device.Info().PCI().String())
	p.cmd.Stderr = os.Stderr
	var err error
	p.in, err = p.cmd.StdinPipe()
	r.want("pipe", err, nil)
	out, err := p.cmd.StdoutPipe()
	r.want("pipe", err, nil)
	p.out = bufio.NewReader(out)
	r.want("start a process", p.cmd.Start(), nil)
	return p
}

// kill is kill -9, and waits for the end. What the process was stays unsaid.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// end lets the process end by itself.
func (p *process) end() {
	p.Helper()
	p.in.Close()
	if err := p.cmd.Wait(); err != nil {
		p.Errorf("the other process: %v", err)
	}
}

func (p *process) line() string {
	p.Helper()
	s, err := p.out.ReadString('\n')
	if err != nil {
		p.Fatalf("the other process said %q: %v", s, err)
	}
	return strings.TrimSpace(s)
}

func (p *process) ask(what string) string {
	p.Helper()
	if _, err := fmt.Fprintln(p.in, what); err != nil {
		p.Fatal(err)
	}
	return p.line()
}

// owner starts a process that exports n bytes.
func (r *rig) owner(n int, a mem.Access) (*process, export) {
	r.Helper()
	p := r.process("owner", fmt.Sprint(n, uint32(a)))
	line := p.line()
	e, err := parseExport(line)
	if err != nil {
		r.Fatalf("the owner said %q: %v", line, err)
	}
	return p, e
}

// names gives the test a directory of its own for the names of processes.
func names(t testing.TB) string {
	dir := filepath.Join(t.TempDir(), "run")
	t.Setenv("GANTRY_RUNTIME_DIR", dir)
	return dir
}
