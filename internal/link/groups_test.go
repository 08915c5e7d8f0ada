package link

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
)

var (
	group4 = netip.MustParseAddr("239.77.1.2")
	group6 = netip.MustParseAddr("ff15::77:12")
)

// groupFabrics have both ends on one port, so that a group leads to both.
func groupFabrics() []fabric {
	udp := func(t testing.TB, c UDPConfig) (a, b Link) {
		c.Port = freePort(t, "127.0.0.41")
		var both [2]Link
		for i := range both {
			c.Addr = netip.AddrFrom4([4]byte{127, 0, 0, byte(41 + i)})
			u, err := ListenUDP(c)
			if err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() { u.Close() })
			both[i] = u
		}
		return both[0], both[1]
	}
	memory := func(t testing.TB) (a, b Link) { return ends(t, PairConfig{}) }
	return []fabric{
		{"memory", memory},
		{"memory, alone", func(t testing.TB) (a, b Link) { return ends(t, PairConfig{Alone: true}) }},
		{"memory, captured", func(t testing.TB) (a, b Link) {
			a, b = memory(t)
			return wrapped(t, NewCapture(a, io.Discard)), wrapped(t, NewCapture(b, io.Discard))
		}},
		{"memory, good network", func(t testing.TB) (a, b Link) {
			a, b = memory(t)
			return wrapped(t, NewFaults(a, Faults{})), b
		}},
		{"udp4", func(t testing.TB) (a, b Link) { return udp(t, UDPConfig{}) }},
		{"udp4 plain", func(t testing.TB) (a, b Link) { return udp(t, UDPConfig{Plain: true}) }},
	}
}

// hearing receives at both ends what the first sent to a group,
// until both have got want frames and nothing comes any more.
func hearing(t *testing.T, want [2]int, group netip.Addr, a, b Link) {
	t.Helper()
	var got [2]int
	in := make([]*frame.Frame, 16)
	for end, idle := time.Now().Add(limit), 0; idle < 100; {
		n := 0
		for i, l := range [...]Link{a, b} {
			k := l.Recv(in)
			for _, f := range in[:k] {
				if f.Local.AddrPort().Addr() != group || f.Peer != a.Local() {
					t.Errorf("got a frame from %v to %v, want %v to %v", f.Peer, f.Local, a.Local(), group)
				}
				if bad := intact(f, got[i], sizeOf(got[i])); bad != "" {
					t.Error(bad)
				}
				got[i]++
			}
			l.Give(in[:k])
			n += k
		}
		if n == 0 && got == want {
			idle++
		}
		if time.Now().After(end) {
			t.Fatalf("got %v frames, want %v; %+v; %+v", got, want, a.Stats(), b.Stats())
		}
	}
}

func sizeOf(n int) int { return 64 + n*n }

func TestAGroupLeadsToAllThatHaveJoined(t *testing.T) {
	for _, f := range groupFabrics() {
		t.Run(f.name, func(t *testing.T) {
			a, b := f.open(t)
			const n = 40
			to := frame.AddrOf(netip.AddrPortFrom(group4, a.Local().Port))
			for _, step := range []struct {
				what func() error
				want [2]int
			}{
				{func() error { return nil }, [2]int{0, 0}},
				{func() error { return b.Join(group4) }, [2]int{0, n}},
				{func() error { return a.Join(group4) }, [2]int{n, n}},
				{func() error { return b.Leave(group4) }, [2]int{n, 0}},
				{func() error { return a.Leave(group4) }, [2]int{0, 0}},
				{func() error { return b.Join(group4) }, [2]int{0, n}},
			} {
				if err := step.what(); err != nil {
					t.Fatal(err)
				}
				var pool sendPool
				var frames []*frame.Frame
				for i := range n {
					frames = append(frames, pool.frame(to, i, sizeOf(i), 1+i%2))
				}
				if taken := a.Send(frames); taken != n {
					t.Fatalf("got %d frames taken, want %d", taken, n)
				}
				hearing(t, step.want, group4, a, b)
				if out := pool.out.Load(); out != 0 {
					t.Errorf("%d frames are out", out)
				}
			}
		})
	}
}

// However much comes to the link itself, a group has its turn.
func TestAGroupIsHeardBesideAFlood(t *testing.T) {
	for _, f := range groupFabrics()[4:] {
		a, b := f.open(t)
		if err := b.Join(group4); err != nil {
			t.Fatal(err)
		}
		var pool sendPool
		to := frame.AddrOf(netip.AddrPortFrom(group4, a.Local().Port))
		a.Send([]*frame.Frame{pool.frame(to, 0, 100, 1)})
		in := make([]*frame.Frame, 4)
		heard := false
		for i := 0; !heard; i++ {
			if i == 1000 {
				t.Fatalf("%s: got nothing from the group in %d receives", f.name, i)
			}
			for n := range in { // of different sizes: each is a message
				a.Send([]*frame.Frame{pool.frame(b.Local(), n, 100+4*n, 1), pool.frame(b.Local(), n, 50, 1)})
			}
			n := b.Recv(in)
			for _, f := range in[:n] {
				heard = heard || f.Local == to
			}
			b.Give(in[:n])
		}
	}
}

// A link goes on with its own socket while it is in groups.
func TestALinkInAGroupHearsBoth(t *testing.T) {
	for _, f := range groupFabrics()[4:] {
		a, b := f.open(t)
		if err := b.Join(group4); err != nil {
			t.Fatal(err)
		}
		to := frame.AddrOf(netip.AddrPortFrom(group4, a.Local().Port))
		var pool sendPool
		const n = 30
		for i := range n {
			a.Send([]*frame.Frame{pool.frame(b.Local(), i, 100, 1), pool.frame(to, i, 100, 1)})
		}
		in := make([]*frame.Frame, 4)
		last := [2]int{}
		for end := time.Now().Add(limit); last[0]+last[1] < 2*n; {
			k := b.Recv(in)
			for _, f := range in[:k] {
				which := 0
				if f.Local == to {
					which = 1
				}
				if bad := intact(f, last[which], 100); bad != "" {
					t.Fatal(bad)
				}
				last[which]++
			}
			b.Give(in[:k])
			if time.Now().After(end) {
				t.Fatalf("got %v frames, want %d each", last, n)
			}
		}
	}
}

// A goroutine that waits for the link is woken by a group.
func TestWaitReturnsForAGroup(t *testing.T) {
	for _, f := range groupFabrics()[4:] {
		a, b := f.open(t)
		if err := b.Join(group4); err != nil {
			t.Fatal(err)
		}
		got := make(chan int)
		go func() {
			in := make([]*frame.Frame, 4)
			for b.Wait() {
				if n := b.Recv(in); n > 0 {
					b.Give(in[:n])
					got <- n
				}
			}
		}()
		var pool sendPool
		for i := range 50 {
			a.Send([]*frame.Frame{pool.frame(frame.AddrOf(netip.AddrPortFrom(group4, a.Local().Port)), i, 8, 1)})
			within(t, got, "a frame")
		}
	}
}

func TestGroupsThatCannotBeAreRefused(t *testing.T) {
	for _, f := range groupFabrics() {
		a, _ := f.open(t)
		for what, err := range map[string]error{
			"no group":              a.Join(netip.MustParseAddr("127.0.0.1")),
			"other family":          a.Join(group6),
			"leave without joining": a.Leave(group4),
		} {
			if !errors.Is(err, syscall.EINVAL) {
				t.Errorf("%s, %s: got error %v, want EINVAL", f.name, what, err)
			}
		}
	}
}

// IPv6 multicast needs a route, which the loopback interface has not.
func TestIPv6GroupsWork(t *testing.T) {
	a := anyIPv6(t)
	if err := a.Join(group6); err != nil {
		t.Fatal(err)
	}
	var pool sendPool
	to := frame.AddrOf(netip.AddrPortFrom(group6, a.Local().Port))
	frames := []*frame.Frame{pool.frame(to, 0, 64, 1), pool.frame(to, 1, 65, 1)}
	if a.Send(frames); a.Stats().SendError != nil {
		t.Skipf("the interface carries no multicast: %v", a.Stats().SendError)
	}
	hearing(t, [2]int{2, 0}, group6, a, &Memory{peer: new(Memory)})
}

// anyIPv6 opens a link on an address of an interface that knows multicast.
func anyIPv6(t *testing.T) *UDP {
	t.Helper()
	all, err := net.Interfaces()
	if err != nil {
		t.Skip(err)
	}
	for _, i := range all {
		if i.Flags&(net.FlagUp|net.FlagMulticast) != net.FlagUp|net.FlagMulticast {
			continue
		}
		addrs, _ := i.Addrs()
		for _, has := range addrs {
			p, err := netip.ParsePrefix(has.String())
			if err != nil || !p.Addr().Is6() || p.Addr().IsLinkLocalUnicast() {
				continue
			}
			u, err := ListenUDP(UDPConfig{Addr: p.Addr(), Port: freePort(t, p.Addr().String())})
			if err == nil {
				t.Cleanup(func() { u.Close() })
				return u
			}
		}
	}
	t.Skip("no interface with multicast and an IPv6 address")
	return nil
}

func TestHeadersAreSeenWhenAskedFor(t *testing.T) {
	for _, f := range fabrics() {
		t.Run(f.name, func(t *testing.T) {
			a, b := f.open(t)
			var pool sendPool
			send := func(tos, ttl uint8) (got *frame.Frame) {
				t.Helper()
				var frames []*frame.Frame
				for i := range 3 { // together, and different: the kernel must not merge them
					f := pool.frame(b.Local(), i, 40, 1)
					f.TOS, f.TTL = tos+uint8(4*i), ttl+uint8(i)
					frames = append(frames, f)
				}
				n := 0
				sendAll(t, a, b, frames, func(f *frame.Frame) {
					if n == 2 {
						c := *f
						got = &c
					}
					n++
				})
				return got
			}
			b.SeeHeaders()
			if got := send(0x28, 5); got.TOS != 0x30 || got.TTL != 7 {
				t.Errorf("got class %#x and hop limit %d, want 0x30 and 7", got.TOS, got.TTL)
			}
		})
	}
}
