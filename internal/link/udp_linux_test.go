package link

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

func TestRunsAreCutAndMergedAndEveryICRCIsRightAsExpected(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		t.Run(addr, func(t *testing.T) {
			a, b := udpEnds(t, addr, UDPConfig{})
			if !a.send.cut {
				t.Skip("the kernel does not cut sends")
			}
			var pool sendPool
			var frames []*frame.Frame
			for i := range 16 * 20 { // a WRITE of 64 KiB, 20 times
				f := pool.frame(b.Local(), i, 4096, 1+i%3)
				if i%16 == 0 { // the first is longer, by a RETH
					h := roce.Build((*[roce.HeadSize]byte)(&f.Head), roce.RCWriteFirst)
					h.BTH().SetPSN(roce.PSN(i))
					f.HeadLen = uint8(h.Len())
				}
				frames = append(frames, f)
			}
			next := 0
			sendAll(t, a, b, frames, func(f *frame.Frame) {
				if bad := intact(f, next, 4096); bad != "" {
					t.Fatal(bad)
				}
				next++
			})
			s, r := a.Stats(), b.Stats()
			if s.SentMerged < 300 || s.SentCalls > 40 {
				t.Errorf("%d of 320 frames went in runs, with %d calls", s.SentMerged, s.SentCalls)
			}
			if r.RecvMerged < 300 {
				t.Errorf("%d of 320 frames came merged", r.RecvMerged)
			}
			if r.BadICRC != 0 || r.Solved != 0 {
				t.Errorf("%d bad ICRCs, %d worked out, want 0, 0", r.BadICRC, r.Solved)
			}
		})
	}
}

// descriptor returns that of the socket which is bound to a port.
func descriptor(t *testing.T, port uint16) int {
	t.Helper()
	for fd := range 1024 {
		if sa, err := syscall.Getsockname(fd); err == nil {
			if in, ok := sa.(*syscall.SockaddrInet4); ok && in.Port == int(port) {
				return fd
			}
		}
	}
	t.Fatal("socket not found")
	return -1
}

// TestWhatCannotBeCutIsSentOneByOne turns off checksums, with which the kernel
// refuses to cut.
func TestWhatCannotBeCutIsSentOneByOne(t *testing.T) {
	a, b := udpEnds(t, "127.0.0.1", UDPConfig{})
	if !a.send.cut {
		t.Skip("the kernel does not cut sends")
	}
	const noCheck = 11 // SO_NO_CHECK
	if err := syscall.SetsockoptInt(descriptor(t, a.Local().Port), syscall.SOL_SOCKET, noCheck, 1); err != nil {
		t.Fatal(err)
	}
	var pool sendPool
	var frames []*frame.Frame
	for i := range 40 {
		frames = append(frames, pool.frame(b.Local(), i, 1000, 1))
	}
	next := 0
	sendAll(t, a, b, frames, func(f *frame.Frame) {
		if bad := intact(f, next, 1000); bad != "" {
			t.Fatal(bad)
		}
		next++
	})
	s, r := a.Stats(), b.Stats()
	if a.send.cut || s.SentMerged != 0 || s.SentDropped != 0 || pool.back.Load() != 40 {
		t.Errorf("still cutting %v, %d back: %+v", a.send.cut, pool.back.Load(), s)
	}
	if r.BadICRC != 0 || r.Solved != 0 {
		t.Errorf("%d bad ICRCs, %d worked out, want 0, 0", r.BadICRC, r.Solved)
	}
}

// TestPacketsAreOnTheWireAsTheICRCSays looks at whole IP packets.
func TestPacketsAreOnTheWireAsTheICRCSays(t *testing.T) {
	raw, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_UDP)
	if err != nil {
		t.Skipf("a raw socket needs a privilege: %v", err)
	}
	defer syscall.Close(raw)
	wait := syscall.NsecToTimeval(int64(time.Second))
	if err := syscall.SetsockoptTimeval(raw, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &wait); err != nil {
		t.Fatal(err)
	}
	a, b := udpEnds(t, "127.0.0.1", UDPConfig{})
	var pool sendPool
	send := func() { a.Send([]*frame.Frame{pool.frame(b.Local(), 1, 99, 2)}) }
	send()
	packet := make([]byte, 2048)
	for end := time.Now().Add(limit); ; {
		n, _, err := syscall.Recvfrom(raw, packet, 0)
		if (err == syscall.EINTR || err == syscall.EAGAIN) && time.Now().Before(end) {
			send() // the socket hears everybody, and may have had no room for ours
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		d, ok := roce.ParseIP(packet[:n])
		if !ok || d.Dst() != b.Local().AddrPort() {
			continue // somebody else's
		}
		if !d.Valid() || d.Ident() != roce.Segment(0) || d.Src() != a.Local().AddrPort() {
			t.Errorf("valid %v, %+v, from %v", d.Valid(), d.Ident(), d.Src())
		}
		return
	}
}

func TestAPortThatIsTakenIsExplained(t *testing.T) {
	a := udpEnd(t, "127.0.0.1", UDPConfig{})
	_, err := ListenUDP(UDPConfig{Addr: netip.MustParseAddr("127.0.0.1"), Port: a.Local().Port})
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "another socket has it") {
		t.Errorf("got %v", err)
	}
	for addr, want := range map[string]error{
		"0.0.0.0": syscall.EINVAL, "224.0.0.1": syscall.EINVAL, "203.0.113.7": syscall.EADDRNOTAVAIL,
		"fe80::1%nowhere": syscall.ENODEV,
	} {
		if _, err := ListenUDP(UDPConfig{Addr: netip.MustParseAddr(addr)}); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", addr, err, want)
		}
	}
	if _, err := ListenUDP(UDPConfig{}); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("no address: got %v, want EINVAL", err)
	}
}

func TestABufferGoesBackWithTheLastOfItsFrames(t *testing.T) {
	a, b := udpEnds(t, "127.0.0.1", UDPConfig{Buffers: 2})
	var pool sendPool
	var frames []*frame.Frame
	for i := range 6 { // three messages of two
		frames = append(frames, pool.frame(b.Local(), i, 2000-500*(i%2), 1))
	}
	if n := a.Send(frames); n != 6 {
		t.Fatalf("%d taken, want 6", n)
	}
	in := make([]*frame.Frame, 8)
	n := 0
	for n < 4 {
		n += receive(t, b, in[n:])
	}
	if again := b.Recv(in[n:]); n != 4 || again != 0 || b.Stats().NoBuffer == 0 {
		t.Fatalf("%d, then %d frames, %d times no buffer, want 4, 0, > 0", n, again, b.Stats().NoBuffer)
	}
	woken := make(chan bool, 1)
	go func() { woken <- b.Wait() }()
	b.Give(in[1:2]) // each buffer is still held by a frame
	b.Give(in[2:3])
	if got := b.Recv(in[4:]); got != 0 {
		t.Fatalf("%d frames while every buffer is held", got)
	}
	b.Give(in[:1])
	if !within(t, woken, "the end of Wait") {
		t.Error("Wait says that the link is closed")
	}
	if got := receive(t, b, in[4:]); got != 2 {
		t.Errorf("%d frames, want 2", got)
	}
	for i, k := range []int{3, 4, 5} {
		if bad := intact(in[k], k, 2000-500*(k%2)); bad != "" {
			t.Errorf("%d: %s", i, bad)
		}
	}
	b.Give(in[3:6])
	if got := len(b.recv.stock.frames) + len(b.recv.spare); got != 2*framesPerBuffer {
		t.Errorf("%d frames in stock, want %d", got, 2*framesPerBuffer)
	}
}

func TestNoMoreIsFetchedThanIsHandedOut(t *testing.T) {
	a, b := udpEnds(t, "127.0.0.1", UDPConfig{})
	if !b.sock.CanCut() {
		t.Skip("the kernel does not cut")
	}
	var pool sendPool
	const runs, run = 6, 8
	in := make([]*frame.Frame, run)
	for round := range 3 { // in the first, nobody knows yet how large messages are
		for r := range runs {
			var out []*frame.Frame
			for i := range run {
				out = append(out, pool.frame(b.Local(), r*run+i, 4096, 1))
			}
			a.Send(out)
		}
		for got := 0; got < runs*run; {
			n := b.Recv(in)
			b.Give(in[:n])
			if got += n; round > 0 && n > 0 && b.recv.count > 1 {
				t.Fatalf("%d messages were fetched, to hand out one", b.recv.count)
			}
		}
	}
}

func TestCloseEndsAWaitForBuffers(t *testing.T) {
	a, b := udpEnds(t, "127.0.0.1", UDPConfig{Buffers: 1})
	var pool sendPool
	in := make([]*frame.Frame, 2)
	a.Send([]*frame.Frame{pool.frame(b.Local(), 1, 1000, 1)})
	n := receive(t, b, in)
	if n != 1 || b.Recv(in[1:]) != 0 || !b.recv.stock.empty.Load() {
		t.Fatalf("%d frames, and there are still buffers", n)
	}
	woken := make(chan bool, 1)
	go func() { woken <- b.Wait() }()
	for !b.recv.gate.waiting.Load() {
		b.Stats()
	}
	b.Close()
	if within(t, woken, "the end of Wait") {
		t.Error("Wait of a closed link says that there is something")
	}
	b.Give(in[:1])
}

func TestTheDescriptorIsReadableForFramesAndForRoom(t *testing.T) {
	a, b := udpEnds(t, "127.0.0.1", UDPConfig{})
	if b.sock.HasRoom(); pollable(t, b) {
		t.Fatal("readable without a reason")
	}
	var pool sendPool
	a.Send([]*frame.Frame{pool.frame(b.Local(), 1, 8, 1)})
	in := make([]*frame.Frame, 2)
	for end := time.Now().Add(limit); !pollable(t, b); {
		if time.Now().After(end) {
			t.Fatal("not readable with a frame there")
		}
	}
	b.Give(in[:b.Recv(in)])
	if pollable(t, b) {
		t.Fatal("readable after everything was received")
	}
	room := 0
	b.OnRoom(func() { room++ })
	b.sock.WatchRoom() // as a Send does that finds no room
	b.blocked.Store(true)
	if !pollable(t, b) {
		t.Error("not readable when a Send waits and there is room")
	}
	if !b.Wait() {
		t.Error("Wait says that the link is closed")
	}
	b.Recv(in)
	if room != 1 || pollable(t, b) || b.blocked.Load() {
		t.Errorf("room called %d times, want 1; readable %v", room, pollable(t, b))
	}
}

func pollable(t *testing.T, l Link) bool {
	t.Helper()
	fd, ok := l.Pollable()
	if !ok {
		t.Fatal("no descriptor")
	}
	var found [1]syscall.EpollEvent
	set, err := syscall.EpollCreate1(0)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(set)
	if err := syscall.EpollCtl(set, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN}); err != nil {
		t.Fatal(err)
	}
	n, err := syscall.EpollWait(set, found[:], 0)
	return err == nil && n == 1
}

func TestWhatIsNoPacketIsCountedByReason(t *testing.T) {
	b := udpEnd(t, "127.0.0.1", UDPConfig{})
	c, err := net.Dial("udp", b.Local().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	version := make([]byte, 16)
	version[1] = 1
	opcode := append([]byte{0xa4}, make([]byte, 15)...)           // of XRC
	ragged := append([]byte{0x1f}, make([]byte, 16)...)           // reserved, and no multiple of 4
	long := append([]byte{byte(roce.RCAck)}, make([]byte, 27)...) // an ACK with a payload
	good := append([]byte{byte(roce.RCSendOnly)}, make([]byte, 15)...)
	for _, p := range [][]byte{{}, {1}, make([]byte, 15), version, opcode, ragged, long, good} {
		if _, err := c.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	in := make([]*frame.Frame, 4)
	var s Stats
	for end := time.Now().Add(limit); s.BadICRC == 0 && time.Now().Before(end); s = b.Stats() {
		if b.Recv(in) != 0 {
			t.Fatal("received rubbish")
		}
	}
	if s.BadLength != 5 || s.BadVersion != 1 || s.BadOpcode != 1 || s.BadICRC != 1 {
		t.Errorf("got %+v", s)
	}
}

// A reliable connection answers a reserved opcode, so it has to come up: as a
// BTH, and the rest as payload.
func TestAReservedOpcodeComesUp(t *testing.T) {
	b := udpEnd(t, "127.0.0.1", UDPConfig{})
	c, err := net.Dial("udp", b.Local().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	flow, _ := roce.NewFlow(netip.MustParseAddrPort(c.LocalAddr().String()), b.Local().AddrPort())
	for _, op := range []byte{0x15, 0x18, 0x1f, 0x2c, 0x3f, 0x60, 0x7f} {
		packet := []byte{op, 2 << 4, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0, 0, 5, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0, 0}
		p, _ := roce.ParseReserved(packet)
		binary.LittleEndian.PutUint32(packet[20:], flow.Sum(p, roce.Segment(0)))
		if _, err := c.Write(packet); err != nil {
			t.Fatal(err)
		}
		in := make([]*frame.Frame, 1)
		for end := time.Now().Add(limit); b.Recv(in) == 0; {
			if time.Now().After(end) {
				t.Fatalf("%#x did not come: %+v", op, b.Stats())
			}
		}
		f := in[0]
		if f.HeadLen != roce.BTHLen || f.Head[0] != op || f.Len != 6 || f.Pad != 2 || !bytes.Equal(f.Payload[0], packet[12:18]) {
			t.Errorf("%#x: got %d bytes %x, payload %x and %d of pad", op, f.HeadLen, f.Head[:12], f.Payload, f.Pad)
		}
		b.Give(in)
	}
}

func TestTheKernelsDropsAreCounted(t *testing.T) {
	a := udpEnd(t, "127.0.0.1", UDPConfig{})
	b := udpEnd(t, "127.0.0.1", UDPConfig{RecvBuffer: 16 << 10, Plain: true})
	var pool sendPool
	for i := range 200 {
		a.Send([]*frame.Frame{pool.frame(b.Local(), i, 4096, 1)})
	}
	if s := b.Stats(); s.Overflow == 0 || s.RecvBuffer < 16<<10 || s.SendBuffer == 0 {
		t.Errorf("got %+v", s)
	}
	if pool.out.Load() != 0 {
		t.Errorf("%d frames out, want 0", pool.out.Load())
	}
}

// FuzzReceive feeds any bytes to the receive path, as one message of packets of
// one length. It must not fail, and a frame must be what the packet says.
func FuzzReceive(f *testing.F) {
	f.Add([]byte{}, uint16(0))
	f.Add(make([]byte, 64), uint16(16))
	f.Add(append([]byte{byte(roce.RCWriteOnly)}, make([]byte, 500)...), uint16(100))
	u := &UDP{}
	u.recv.init(u, netip.MustParseAddrPort("192.0.2.1:4791"), UDPConfig{Buffers: 1, Plain: true})
	r := &u.recv
	f.Fuzz(func(t *testing.T, message []byte, segment uint16) {
		r.fill(1)
		r.at, r.count, r.off, r.id = 0, 1, 0, 0
		r.own.flows.table = [64]flow{}
		r.msg.Len = copy(r.slots[0].mem, message)
		r.msg.Segment = int(segment)
		r.flow = r.own.flows.find(frame.Addr{IP: [16]byte{10: 255, 11: 255, 12: 10}, Port: 4791})
		r.slots[0].refs.Store(1)
		in := make([]*frame.Frame, 4)
		for r.at == 0 {
			n, ok := u.takeApart(in)
			for _, f := range in[:n] {
				if f.Len != len(bytes.Join(f.Payload, nil)) || f.Pad > 3 || int(f.HeadLen) > len(f.Head) {
					t.Fatalf("%d bytes, pad %d, head %d", f.Len, f.Pad, f.HeadLen)
				}
			}
			u.Give(in[:n])
			if n == 0 && !ok {
				t.Fatal("no progress")
			}
		}
		if got := len(r.stock.frames) + len(r.spare); got != framesPerBuffer {
			t.Fatalf("%d frames in stock, want %d", got, framesPerBuffer)
		}
	})
}
