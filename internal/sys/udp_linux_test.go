package sys

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// loopback opens a socket at a free port of an address.
func loopback(t *testing.T, addr string) (*UDP, netip.AddrPort) {
	t.Helper()
	u, err := OpenUDP(netip.AddrPortFrom(netip.MustParseAddr(addr), 0), UDPOptions{Merge: true})
	if err != nil {
		t.Skipf("no socket at %s: %v", addr, err)
	}
	t.Cleanup(func() { u.Close() })
	sa, err := unix.Getsockname(u.fd)
	if err != nil {
		t.Fatal(err)
	}
	port := 0
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		port = sa.Port
	case *unix.SockaddrInet6:
		port = sa.Port
	}
	return u, netip.AddrPortFrom(netip.MustParseAddr(addr), uint16(port))
}

func TestBatchesCarryPiecesAndSegments(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		t.Run(addr, func(t *testing.T) {
			a, from := loopback(t, addr)
			b, to := loopback(t, addr)
			out := NewSendBatch(4, 8)
			out.Add([]byte("gan"))
			out.Add(nil)
			out.Add([]byte("try"))
			out.End(a, to, 0)
			if a.CanCut() {
				out.Add([]byte("aaaabbbb"))
				out.Add([]byte("cc"))
				out.End(a, to, 4)
			}
			if n, err := out.Send(a, 0); n != out.Len() || err != nil {
				t.Fatalf("sent %d, %v, want %d", n, err, out.Len())
			}
			if out.Reset(); out.Len() != 0 || out.Free() != 8 || out.m.iovs[0].Base != nil {
				t.Error("the batch still refers to what was sent")
			}
			in := NewRecvBatch(2)
			bufs := [2][]byte{make([]byte, 64), make([]byte, 64)}
			var got []byte
			for len(got) < 6 {
				if !b.Wait() {
					t.Fatal("closed")
				}
				in.Set(0, bufs[0])
				in.Set(1, bufs[1])
				n, err := in.Recv(b, 2)
				if err != nil {
					t.Fatal(err)
				}
				for i := range n {
					r := in.Got(i)
					if r.IP != from.Addr().As16() || r.Port != from.Port() || r.Truncated {
						t.Errorf("got %+v from %v", r, from)
					}
					if i == 1 && r.Segment != 4 {
						t.Errorf("segments of %d bytes, want 4", r.Segment)
					}
					got = append(got, bufs[i][:r.Len]...)
				}
			}
			if want := "gantryaaaabbbbcc"[:len(got)]; string(got) != want {
				t.Errorf("got %q, want %q", got, want)
			}
			if n, err := in.Recv(b, 2); n != 0 || err != unix.EAGAIN {
				t.Errorf("an empty socket gives %d, %v", n, err)
			}
		})
	}
}

func TestAMessageThatIsTooLongIsTruncated(t *testing.T) {
	a, _ := loopback(t, "127.0.0.1")
	b, to := loopback(t, "127.0.0.1")
	out, in := NewSendBatch(1, 1), NewRecvBatch(1)
	out.Add(bytes.Repeat([]byte{1}, 100))
	out.End(a, to, 0)
	if _, err := out.Send(a, 0); err != nil {
		t.Fatal(err)
	}
	in.Set(0, make([]byte, 10))
	b.Wait()
	if n, err := in.Recv(b, 1); n != 1 || err != nil || !in.Got(0).Truncated {
		t.Errorf("got %d, %v, %+v", n, err, in.Got(0))
	}
}

func TestTheReasonForWhichAMessageWasRefusedIsANumber(t *testing.T) {
	a, _ := loopback(t, "127.0.0.1")
	out := NewSendBatch(1, 1)
	out.Add(make([]byte, 70_000))
	out.End(a, netip.MustParseAddrPort("127.0.0.1:9"), 0)
	if n, err := out.Send(a, 0); n != 0 || !errors.Is(err, unix.EMSGSIZE) {
		t.Errorf("got %d, %v, want 0, EMSGSIZE", n, err)
	}
}

func TestTwoSocketsCannotHaveOnePort(t *testing.T) {
	_, at := loopback(t, "127.0.0.1")
	if _, err := OpenUDP(at, UDPOptions{}); !errors.Is(err, unix.EADDRINUSE) {
		t.Errorf("got %v, want EADDRINUSE", err)
	}
}

func TestGosPollerLearnsOfASocketWhenSomebodyWaits(t *testing.T) {
	a, _ := loopback(t, "127.0.0.1")
	b, to := loopback(t, "127.0.0.1")
	send := func() {
		out := NewSendBatch(1, 1)
		out.Add([]byte("x"))
		out.End(a, to, 0)
		if _, err := out.Send(a, 0); err != nil {
			t.Fatal(err)
		}
	}
	if send(); b.file != nil {
		t.Error("a socket that nobody waits on wakes a thread for each message")
	}
	if !b.Wait() || b.file == nil {
		t.Error("a wait for a message ended with false")
	}
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	c, _ := loopback(t, "127.0.0.1")
	if err := c.Close(); err != nil || b.Wait() || c.Wait() {
		t.Errorf("a closed socket: %v, and a wait does not end", err)
	}
}
