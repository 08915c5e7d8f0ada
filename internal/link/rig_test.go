package link

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/netip"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// limit bounds every wait of the tests. It is not a pause.
const limit = 20 * time.Second

// A fabric opens the two ends of a link.
type fabric struct {
	name string
	open func(t testing.TB) (a, b Link)
}

func fabrics() []fabric {
	memory := func(t testing.TB) (a, b Link) { return ends(t, PairConfig{}) }
	udp4 := func(t testing.TB) (a, b Link) { return udpEnds(t, "127.0.0.1", UDPConfig{}) }
	return []fabric{
		{"memory", memory},
		{"udp4", udp4},
		{"udp4 plain", func(t testing.TB) (a, b Link) { return udpEnds(t, "127.0.0.1", UDPConfig{Plain: true}) }},
		{"memory, good network", func(t testing.TB) (a, b Link) {
			a, b = memory(t)
			return wrapped(t, NewFaults(a, Faults{})), b
		}},
		{"udp4, slow network", func(t testing.TB) (a, b Link) {
			a, b = udp4(t)
			return wrapped(t, NewFaults(a, Faults{Delay: 10 * time.Microsecond})), b
		}},
		{"memory, captured", func(t testing.TB) (a, b Link) {
			a, b = memory(t)
			return wrapped(t, NewCapture(a, io.Discard)), wrapped(t, NewCapture(b, io.Discard))
		}},
		{"udp6", func(t testing.TB) (a, b Link) { return udpEnds(t, "::1", UDPConfig{}) }},
	}
}

// wrapped closes the outer link, and with it the inner one.
func wrapped[L Link](t testing.TB, l L) L {
	t.Cleanup(func() { l.Close() })
	return l
}

func ends(t testing.TB, c PairConfig) (a, b *Memory) {
	a, b = NewPair(c)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

func udpEnds(t testing.TB, addr string, c UDPConfig) (a, b *UDP) {
	return udpEnd(t, addr, c), udpEnd(t, addr, c)
}

func udpEnd(t testing.TB, addr string, c UDPConfig) *UDP {
	t.Helper()
	c.Addr, c.Port = netip.MustParseAddr(addr), freePort(t, addr)
	u, err := ListenUDP(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	return u
}

// freePort returns a port that is free, or skips the test where the address
// does not exist.
func freePort(t testing.TB, addr string) uint16 {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("UDP links need Linux")
	}
	c, err := net.ListenPacket("udp", net.JoinHostPort(addr, "0"))
	if err != nil {
		t.Skipf("this machine has no %s: %v", addr, err)
	}
	defer c.Close()
	return c.LocalAddr().(*net.UDPAddr).AddrPort().Port()
}

// A sendPool makes frames and watches that they come back. It overwrites what a
// frame borrowed as soon as the frame is back: whoever reads it later, reads
// rubbish.
type sendPool struct {
	out  atomic.Int64
	back atomic.Int64
}

func (p *sendPool) FrameBack(f *frame.Frame) {
	for _, b := range f.Payload {
		for i := range b {
			b[i] = 0xee
		}
	}
	p.out.Add(-1)
	p.back.Add(1)
}

// frame returns a frame with n bytes of payload in so many pieces, which start
// with value and count up.
func (p *sendPool) frame(to frame.Addr, psn, n, pieces int) *frame.Frame {
	f := &frame.Frame{Owner: p, Peer: to, Token: uint64(psn)}
	h := roce.Build((*[roce.HeadSize]byte)(&f.Head), roce.RCSendOnly)
	h.BTH().SetPSN(roce.NewPSN(uint32(psn)))
	f.Pad = uint8(roce.PadFor(n))
	h.BTH().SetPad(int(f.Pad))
	f.HeadLen, f.Len = uint8(h.Len()), n
	body := content(psn, n)
	for i := range pieces {
		f.Payload = append(f.Payload, body[i*n/pieces:(i+1)*n/pieces])
	}
	p.out.Add(1)
	return f
}

func content(psn, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(psn + i + i>>8)
	}
	return b
}

// sendAll sends the frames and receives at the other end meanwhile, so that no
// queue stays full. It returns what check made of each frame.
func sendAll(t testing.TB, from, to Link, frames []*frame.Frame, check func(*frame.Frame)) {
	t.Helper()
	want, got := len(frames), 0
	in := make([]*frame.Frame, 33)
	for end := time.Now().Add(limit); got < want; {
		if len(frames) > 0 {
			frames = frames[from.Send(frames[:min(len(frames), 48)]):]
		}
		n := to.Recv(in)
		for _, f := range in[:n] {
			check(f)
		}
		to.Give(in[:n])
		got += n
		if n == 0 && time.Now().After(end) {
			t.Fatalf("got %d frames, want %d; sender %+v; receiver %+v", got, want, from.Stats(), to.Stats())
		}
	}
}

// intact reports what is wrong with a received frame, or "".
func intact(f *frame.Frame, psn, n int) string {
	h, rest, ok := roce.ParseHeaders(f.Head[:f.HeadLen])
	if !ok || len(rest) > 0 {
		return "headers do not parse"
	}
	if got := int(h.BTH().PSN()); got != psn {
		return fmt.Sprintf("psn %d, want %d", got, psn)
	}
	if f.Len != n || int(f.Pad) != roce.PadFor(n) {
		return fmt.Sprintf("%d bytes, pad %d, want %d, %d", f.Len, f.Pad, n, roce.PadFor(n))
	}
	if got := bytes.Join(f.Payload, nil); !bytes.Equal(got, content(psn, n)) {
		return fmt.Sprintf("psn %d: %d bytes of payload differ", psn, n)
	}
	return ""
}
