package perf

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

// This file has the other process as the measuring one sees it, and the Unix
// socket between the two that Comch is compared with.

// A comchCommand is the program of the other process, for a server of a name.
// The Unix socket is its descriptor 3.
type comchCommand = func(ctx context.Context, name string) *exec.Cmd

// A comchProcess is the other process.
type comchProcess struct {
	cmd   *exec.Cmd
	says  bytes.Buffer // on standard error
	unix  net.Conn
	guard guard
	late  atomic.Bool // it has not done what it was told, and was killed
	done  chan error
	ended context.Context // when it has
	head  [unixHead]byte
	buf   []byte
}

func startComchProcess(ctx context.Context, command comchCommand, name string) (*comchProcess, error) {
	mine, theirs, err := unixPair()
	if err != nil {
		return nil, err
	}
	p := &comchProcess{cmd: command(ctx, name), done: make(chan error, 1)}
	p.cmd.Stderr = &p.says
	p.cmd.ExtraFiles = []*os.File{theirs}
	p.cmd.WaitDelay = time.Second
	p.unix, err = net.FileConn(mine)
	_ = mine.Close() // FileConn has a copy
	if err == nil {
		err = p.cmd.Start()
	}
	_ = theirs.Close() // the process has its own
	if err != nil {
		if p.unix != nil {
			_ = p.unix.Close()
		}
		return nil, fmt.Errorf("start the other process: %w", err)
	}
	var end context.CancelFunc
	p.ended, end = context.WithCancel(context.Background())
	go func() {
		p.done <- p.cmd.Wait()
		end()
	}()
	go p.guard.watch(answerTime, p.ended.Done(), p.kill)
	return p, nil
}

func (p *comchProcess) kill() {
	p.late.Store(true)
	_ = p.cmd.Process.Kill() // it may have ended
}

// close ends the process, which goes when the connection and the socket do, and
// returns err with what it has said.
func (p *comchProcess) close(err error) error {
	_ = p.unix.Close()
	stop := time.AfterFunc(answerTime, p.kill)
	defer stop.Stop()
	e := <-p.done
	if e != nil && p.late.Load() {
		return fmt.Errorf("the other process has not answered for %v, and was ended: %w", answerTime, core.ErrTimeOut)
	}
	if e != nil {
		core.KeepFirst(&err, fmt.Errorf("the other process: %w", e))
	}
	if err != nil && p.says.Len() > 0 {
		err = fmt.Errorf("%w (the other process: %s)", err, strings.TrimSpace(p.says.String()))
	}
	return err
}

// unixHead is the length of what comes before messages on the Unix socket: what
// they are for, their size and their number.
const unixHead = 1 + 4 + 4

// bid tells the other end of n messages.
func (p *comchProcess) bid(op byte, size, n int) error {
	p.head[0] = op
	binary.LittleEndian.PutUint32(p.head[1:], uint32(size))
	binary.LittleEndian.PutUint32(p.head[5:], uint32(n))
	if len(p.buf) != size {
		p.buf = make([]byte, size)
	}
	_, err := p.unix.Write(p.head[:])
	return err
}

// unixPing is ping over the Unix socket.
func (m *comchMeter) unixPing(n int) (int, time.Duration) {
	p := m.peer
	p.guard.wait()
	defer p.guard.over()
	core.KeepFirst(&m.failed, p.bid(messagePing, m.pipe.Size, n))
	from := m.pipe.out.Bytes()[:m.pipe.Size]
	start := time.Now()
	last := start
	for i := 0; i < n && m.failed == nil; i++ {
		_, err := p.unix.Write(from)
		core.KeepFirst(&m.failed, err)
		_, err = io.ReadFull(p.unix, p.buf)
		core.KeepFirst(&m.failed, err)
		now := time.Now()
		_ = m.unix.RecordValue(int64(now.Sub(last)))
		last = now
	}
	return n, time.Since(start)
}

// unixStream is stream over the Unix socket.
func (m *comchMeter) unixStream(n int) (int, time.Duration) {
	p, size := m.peer, m.pipe.Size
	p.guard.wait()
	defer p.guard.over()
	core.KeepFirst(&m.failed, p.bid(messageStream, size, n))
	start := time.Now()
	for i := 0; i < n && m.failed == nil; i++ {
		at := i % m.pipe.Window * size
		_, err := p.unix.Write(m.pipe.out.Bytes()[at : at+size])
		core.KeepFirst(&m.failed, err)
	}
	if m.failed == nil {
		_, err := io.ReadFull(p.unix, p.buf[:1])
		core.KeepFirst(&m.failed, err)
	}
	return n, time.Since(start)
}

// serveUnix is the other end of the socket, until that is closed.
func serveUnix(f *os.File) error {
	conn, err := net.FileConn(f)
	_ = f.Close() // FileConn has a copy
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	var buf []byte
	for {
		var head [unixHead]byte
		if _, err = io.ReadFull(conn, head[:]); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		size, n := int(binary.LittleEndian.Uint32(head[1:])), int(binary.LittleEndian.Uint32(head[5:]))
		if len(buf) != size {
			buf = make([]byte, size)
		}
		for i := 0; i < n && err == nil; i++ {
			if _, err = io.ReadFull(conn, buf); err == nil && (head[0] == messagePing || i == n-1) {
				answer := buf
				if head[0] == messageStream {
					answer = buf[:1]
				}
				_, err = conn.Write(answer)
			}
		}
		if err != nil {
			return err
		}
	}
}
