package link

import (
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
)

func TestAFullQueueTakesWhatFitsAndSaysWhenThereIsRoom(t *testing.T) {
	a, b := ends(t, PairConfig{Depth: 8})
	room := 0
	a.OnRoom(func() { room++ })
	var pool sendPool
	var frames []*frame.Frame
	for i := range 12 {
		frames = append(frames, pool.frame(b.Local(), i, 8, 1))
	}
	if n := a.Send(frames); n != 8 || a.Stats().Blocked != 1 {
		t.Fatalf("%d taken, %d blocked, want 8, 1", n, a.Stats().Blocked)
	}
	if n := a.Send(frames[8:]); n != 0 || room != 0 {
		t.Fatalf("%d taken, room called %d times, want 0, 0", n, room)
	}
	in := make([]*frame.Frame, 3)
	b.Give(in[:b.Recv(in)])
	if room != 1 {
		t.Errorf("room called %d times after the queue was read, want 1", room)
	}
	if n := a.Send(frames[8:]); n != 3 {
		t.Errorf("%d taken, want 3", n)
	}
	b.Close()
	if room != 2 {
		t.Errorf("room called %d times after the receiver closed, want 2", room)
	}
	if n := a.Send(frames[11:]); n != 1 || pool.out.Load() != 0 {
		t.Errorf("%d taken, %d out after the receiver closed, want 1, 0", n, pool.out.Load())
	}
}

// TestTheRoomThatWasMissedComesBack: a sender that finds no room at the moment
// when the receiver makes some must hear of it.
func TestTheRoomThatWasMissedComesBack(t *testing.T) {
	a, b := ends(t, PairConfig{Depth: 2})
	room := make(chan bool, 1)
	a.OnRoom(func() {
		select {
		case room <- true:
		default:
		}
	})
	const total = 50_000
	var pool sendPool
	frames := []*frame.Frame{pool.frame(b.Local(), 0, 0, 0), pool.frame(b.Local(), 0, 0, 0)}
	done := make(chan bool)
	go func() {
		defer close(done)
		in := make([]*frame.Frame, 1)
		for got := 0; got < total && b.Wait(); {
			n := b.Recv(in)
			b.Give(in[:n])
			got += n
		}
	}()
	var spare sendPool
	for sent := 0; sent < total; {
		frames[0], frames[1] = spare.frame(b.Local(), 0, 0, 0), spare.frame(b.Local(), 0, 0, 0)
		for rest := frames[:min(2, total-sent)]; len(rest) > 0; {
			n := a.Send(rest)
			rest = rest[n:]
			sent += n
			if len(rest) > 0 {
				within(t, room, "room")
			}
		}
	}
	within(t, done, "the last frame")
}

func TestAFrameToOnesOwnAddressComesBackIn(t *testing.T) {
	a, b := ends(t, PairConfig{A: netip.MustParseAddr("10.0.0.1"), B: netip.MustParseAddr("fd00::2")})
	var pool sendPool
	a.Send([]*frame.Frame{pool.frame(a.Local(), 3, 40, 2)})
	in := make([]*frame.Frame, 2)
	if n := a.Recv(in); n != 1 || in[0].Peer != a.Local() {
		t.Fatalf("%d frames, want 1 from %v", n, a.Local())
	}
	if bad := intact(in[0], 3, 40); bad != "" {
		t.Error(bad)
	}
	a.Give(in[:1])
	if n := b.Recv(in); n != 0 {
		t.Errorf("the other end has %d frames, want 0", n)
	}
}

func TestADamagedFrameIsCountedAndComesBack(t *testing.T) {
	a, b := ends(t, PairConfig{})
	var pool sendPool
	bad := pool.frame(b.Local(), 1, 8, 1)
	bad.Damage = 1
	a.Send([]*frame.Frame{pool.frame(b.Local(), 0, 8, 1), bad, pool.frame(b.Local(), 2, 8, 1)})
	in := make([]*frame.Frame, 4)
	n := b.Recv(in)
	if s := b.Stats(); n != 2 || s.BadICRC != 1 || pool.back.Load() != 1 {
		t.Errorf("%d received, %d damaged, %d back, want 2, 1, 1", n, s.BadICRC, pool.back.Load())
	}
	if got := in[1].Token; got != 2 {
		t.Errorf("the second is frame %d, want 2", got)
	}
	b.Give(in[:n])
}

func TestOnReadyIsCalledAfterTheFrameIsThere(t *testing.T) {
	a, b := ends(t, PairConfig{})
	var pool sendPool
	in := make([]*frame.Frame, 4)
	var got atomic.Int64
	b.OnReady(func() {
		n := b.Recv(in)
		b.Give(in[:n])
		got.Add(int64(n))
	})
	a.Send([]*frame.Frame{pool.frame(b.Local(), 0, 8, 1)})
	if got.Load() != 1 {
		t.Errorf("OnReady received %d frames, want 1", got.Load())
	}
}

func TestPairConfigIsMadeToFit(t *testing.T) {
	for _, c := range []struct{ mtu, want int }{
		{0, 4096}, {1, 256}, {256, 256}, {1500, 1024}, {4095, 2048}, {9000, 4096},
	} {
		if a, _ := ends(t, PairConfig{MTU: c.mtu}); a.MTU() != c.want {
			t.Errorf("MTU %d gives %d, want %d", c.mtu, a.MTU(), c.want)
		}
	}
	a, b := ends(t, PairConfig{})
	if a.Local() == b.Local() || a.Local().Port != 4791 {
		t.Errorf("addresses %v and %v", a.Local(), b.Local())
	}
	if _, ok := a.Pollable(); ok {
		t.Error("a link through memory has a descriptor")
	}
}

// TestTheDataPathAllocatesNothing covers Send, Recv and Give of each link.
func TestTheDataPathAllocatesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, a, b Link) {
		if f, ok := a.(*Faulty); ok && f.f.Delay > 0 {
			t.Skip("a timer sends what is delayed, and the runtime may have to make its goroutine")
		}
		frames := make([]*frame.Frame, 16)
		var pool sendPool
		for i := range frames {
			frames[i] = pool.frame(b.Local(), i, 1024, 2)
			frames[i].Owner = discard{}
		}
		in := make([]*frame.Frame, 16)
		end := time.Now().Add(2 * limit)
		allocs.None(t, func() {
			for _, f := range frames {
				f.Peer = b.Local()
			}
			for sent, got := a.Send(frames), 0; got < sent && time.Now().Before(end); {
				if n := b.Recv(in); n > 0 {
					b.Give(in[:n])
					got += n
				}
				a.Recv(nil)
			}
		})
	})
}
