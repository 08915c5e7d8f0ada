package perf

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/notify"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// ackSize is the length of an answer to a stream: how many packets were
// counted so far, and a byte that says whether any came merged. A ping is
// longer.
const ackSize = 9

// bareBuffer is what is asked for as socket buffers.
const bareBuffer = 16 << 20

// openBare opens a socket on loopback, on a port that is free.
func openBare() (*sys.UDP, netip.AddrPort, error) {
	probe, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, netip.AddrPort{}, fmt.Errorf("find a free UDP port: %w", err)
	}
	at := probe.LocalAddr().(*net.UDPAddr).AddrPort()
	_ = probe.Close() // nothing was sent
	u, err := sys.OpenUDP(at, sys.UDPOptions{RecvBuffer: bareBuffer, SendBuffer: bareBuffer, Merge: true})
	if err != nil {
		return nil, at, fmt.Errorf("open UDP port %d: %w", at.Port(), err)
	}
	return u, at, nil
}

// unlessFull returns nil for an error that says to try again.
func unlessFull(err error) error {
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOBUFS) {
		return nil
	}
	return err
}

// UDPPeer is the other process of [MeasureUDP]: it counts the packets of a
// stream, sends pings back, and ends when in ends. It writes its address to
// out. A line with an address in in makes it a server for [DialRC], with its
// device at that address; the TCP port is written to out.
func UDPPeer(ctx context.Context, in io.Reader, out io.Writer) (err error) {
	u, at, err := openBare()
	if err != nil {
		return err
	}
	defer func() { core.KeepFirst(&err, u.Close()) }()
	if _, err = fmt.Fprintln(out, at); err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- obey(ctx, in, out, at) }()
	runtime.LockOSThread() // as the other end
	defer runtime.UnlockOSThread()
	if err = sink(u); err != nil {
		return err
	}
	return <-served
}

// obey serves one RC client for each address that in has, and then ends sink
// with a datagram.
func obey(ctx context.Context, in io.Reader, out io.Writer, at netip.AddrPort) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	lines := bufio.NewScanner(in)
	var serving chan error
	for err == nil && lines.Scan() {
		if serving != nil {
			err, serving = <-serving, nil
		}
		if err != nil {
			break
		}
		serving, err = serveBeside(ctx, lines.Text(), out)
	}
	cancel()
	if serving != nil {
		core.KeepFirst(&err, unlessCanceled(<-serving))
	}
	conn, e := net.DialUDP("udp4", nil, net.UDPAddrFromAddrPort(at))
	if core.KeepFirst(&err, e); e == nil {
		_, e = conn.Write([]byte{datagramQuit})
		core.KeepFirst(&err, e)
		_ = conn.Close() // what was written is on its way
	}
	return err
}

func unlessCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// serveBeside starts a server for one RC client and says on which port.
func serveBeside(ctx context.Context, addr string, out io.Writer) (chan error, error) {
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if _, err = fmt.Fprintln(out, l.Addr()); err != nil {
		return nil, err
	}
	done := make(chan error, 1)
	go func() {
		stop := context.AfterFunc(ctx, func() { _ = l.Close() }) // the client may never come
		defer stop()
		conn, err := l.Accept()
		_ = l.Close() // one client is served
		switch {
		case err == nil:
			s := RCServer{Device: RCDevice{Fabric: FabricUDP, Addr: a}}
			_, _, err = s.Serve(ctx, conn)
		case ctx.Err() != nil:
			err = ctx.Err()
		}
		done <- err
	}()
	return done, nil
}

// sinkTurns is how often a sink polls in vain before it blocks.
const sinkTurns = 1 << 12

// sink answers datagrams until one says that it is enough.
func sink(u *sys.UDP) error {
	const many = 16
	buffers := make([][]byte, many)
	in := sys.NewRecvBatch(many)
	for i := range buffers {
		buffers[i] = make([]byte, 1<<16)
		in.Set(i, buffers[i])
	}
	out := sys.NewSendBatch(1, 1)
	var count uint64
	var merged byte
	var courtesy notify.Courtesy
	var alternates bool // the last datagram was a ping
	for idle := 0; ; {
		n, err := in.Recv(u, many)
		if n == 0 {
			if err = unlessFull(err); err != nil {
				return fmt.Errorf("receive: %w", err)
			}
			if alternates {
				courtesy.Turn()
			}
			if idle++; idle > sinkTurns {
				u.Wait()
			}
			continue
		}
		idle = 0
		var ack [ackSize]byte
		for i := range n {
			got := in.Got(i)
			alternates = buffers[i][0] == datagramPing
			from := netip.AddrPortFrom(netip.AddrFrom16(got.IP).Unmap(), got.Port)
			switch buffers[i][0] {
			case datagramQuit:
				return nil
			case datagramPing:
				answer(u, out, buffers[i][:got.Len], from)
			case datagramStream:
				packets := 1
				if got.Segment > 0 {
					packets, merged = (got.Len+got.Segment-1)/got.Segment, 1
				}
				count += uint64(packets)
				if i == n-1 || buffers[i+1][0] != datagramStream {
					binary.LittleEndian.PutUint64(ack[:], count)
					ack[ackSize-1] = merged
					answer(u, out, ack[:], from)
				}
			}
		}
	}
}

// answer sends one datagram. One that the kernel does not take is lost, as any
// may be.
func answer(u *sys.UDP, out *sys.SendBatch, b []byte, to netip.AddrPort) {
	out.Reset()
	out.Add(b)
	out.End(u, to, 0)
	_, _ = out.Send(u, 0)
}

// A udpPeer is the other process as the measuring one sees it.
type udpPeer struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	says bytes.Buffer // on standard error
	addr netip.AddrPort
}

func startUDPPeer(ctx context.Context, command func(context.Context) *exec.Cmd) (*udpPeer, error) {
	p := &udpPeer{cmd: command(ctx)}
	p.cmd.Stderr = &p.says
	p.cmd.WaitDelay = time.Second
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.in, p.out = in, bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the other process: %w", err)
	}
	line, err := p.line()
	if err == nil {
		p.addr, err = netip.ParseAddrPort(line)
	}
	if err != nil {
		_ = p.close(err) // the first error says why
		return nil, p.explain(err)
	}
	return p, nil
}

// line reads what the peer writes to its standard output. One that writes nothing
// is ended.
func (p *udpPeer) line() (string, error) {
	stop := time.AfterFunc(answerTime, func() { _ = p.cmd.Process.Kill() })
	more := p.out.Scan()
	switch inTime := stop.Stop(); {
	case more:
		return p.out.Text(), nil
	case !inTime:
		return "", fmt.Errorf("the other process has not answered for %v, and was ended: %w", answerTime, core.ErrTimeOut)
	}
	return "", fmt.Errorf("the other process ended: %w", io.ErrUnexpectedEOF)
}

// explain adds what the peer has said on standard error, once it has ended.
func (p *udpPeer) explain(err error) error {
	if p.cmd.ProcessState == nil || p.says.Len() == 0 {
		return err
	}
	return fmt.Errorf("%w (the other process: %s)", err, strings.TrimSpace(p.says.String()))
}

// close ends the peer, which goes when its standard input does, and waits for
// it: not for long if the measurement has failed, for it may stand still. The
// context of the measurement kills it.
func (p *udpPeer) close(failed error) error {
	_ = p.in.Close() // it may be gone already
	patience := answerTime
	if failed != nil {
		patience = time.Second
	}
	stop := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer stop.Stop()
	if err := p.cmd.Wait(); err != nil {
		return p.explain(fmt.Errorf("the other process: %w", err))
	}
	return nil
}
