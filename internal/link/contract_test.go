package link

import (
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// onEach runs a test of the contract over every link.
func onEach(t *testing.T, test func(t *testing.T, a, b Link)) {
	for _, f := range fabrics() {
		t.Run(f.name, func(t *testing.T) {
			a, b := f.open(t)
			test(t, a, b)
		})
	}
}

func TestFramesOfEverySizeArriveInOrderAndIntact(t *testing.T) {
	onEach(t, func(t *testing.T, a, b Link) {
		var pool sendPool
		var frames []*frame.Frame
		for n := 0; n <= 4096; n += 1 + n/61 {
			frames = append(frames, pool.frame(b.Local(), n, n, 1+n%3))
		}
		for range 64 {
			frames = append(frames, pool.frame(b.Local(), 4096, 4096, 1))
		}
		next := 0
		sizes := make([]int, 0, len(frames))
		for _, f := range frames {
			sizes = append(sizes, f.Len)
		}
		sendAll(t, a, b, frames, func(f *frame.Frame) {
			if bad := intact(f, sizes[next], sizes[next]); bad != "" {
				t.Fatal(bad)
			}
			if f.Peer != a.Local() || f.Local != b.Local() {
				t.Fatalf("from %v to %v, want %v to %v", f.Peer, f.Local, a.Local(), b.Local())
			}
			next++
		})
		if out, back := pool.out.Load(), pool.back.Load(); out != 0 || back != int64(len(sizes)) {
			t.Errorf("%d frames out, %d back, want 0, %d", out, back, len(sizes))
		}
		if s := b.Stats(); s.BadICRC+s.BadLength+s.Solved > 0 || s.RecvFrames != uint64(len(sizes)) {
			t.Errorf("receiver counts %+v", s)
		}
	})
}

func TestWaitReturnsForAFrameAndForClose(t *testing.T) {
	onEach(t, func(t *testing.T, a, b Link) {
		var pool sendPool
		const rounds = 500
		took := make(chan int)
		ended := make(chan bool)
		go func() {
			in := make([]*frame.Frame, 4)
			for b.Wait() {
				n := b.Recv(in)
				b.Give(in[:n])
				if n > 0 {
					took <- n
				}
			}
			close(ended)
		}()
		for i := range rounds {
			if a.Send([]*frame.Frame{pool.frame(b.Local(), i, 8, 1)}) != 1 {
				t.Fatal("not taken")
			}
			within(t, took, "a frame")
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		within(t, ended, "the end of Wait")
	})
}

func TestCloseSendsBackWhatNobodyReceived(t *testing.T) {
	onEach(t, func(t *testing.T, a, b Link) {
		var pool sendPool
		var frames []*frame.Frame
		for i := range 32 {
			frames = append(frames, pool.frame(b.Local(), i, 1024, 1))
		}
		if n := a.Send(frames); n != len(frames) {
			t.Fatalf("%d taken, want %d", n, len(frames))
		}
		held := make([]*frame.Frame, 4)
		n := receive(t, b, held)
		for _, l := range []Link{a, b, b} {
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		}
		for i, f := range held[:n] { // they stay as they are until they are given back
			if bad := intact(f, i, 1024); bad != "" {
				t.Error(bad)
			}
		}
		b.Give(held[:n])
		if out := pool.out.Load(); out != 0 {
			t.Errorf("%d frames are still out", out)
		}
		if b.Wait() {
			t.Error("Wait of a closed link says that there is something")
		}
		if b.Recv(held) != 0 {
			t.Error("a closed link received something")
		}
	})
}

// receive waits for frames and returns how many.
func receive(t *testing.T, l Link, in []*frame.Frame) int {
	t.Helper()
	for end := time.Now().Add(limit); ; {
		if n := l.Recv(in); n > 0 {
			return n
		}
		if time.Now().After(end) {
			t.Fatalf("nothing received: %+v", l.Stats())
		}
	}
}

func TestAClosedLinkDropsWhatItIsGiven(t *testing.T) {
	onEach(t, func(t *testing.T, a, b Link) {
		var pool sendPool
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		frames := []*frame.Frame{pool.frame(b.Local(), 1, 8, 1), pool.frame(b.Local(), 2, 8, 1)}
		if n := a.Send(frames); n != 2 || pool.out.Load() != 0 {
			t.Errorf("%d taken, %d out, want 2, 0", n, pool.out.Load())
		}
	})
}

func TestFramesThatCannotBeSentComeBack(t *testing.T) {
	onEach(t, func(t *testing.T, a, b Link) {
		var pool sendPool
		lost := pool.frame(frame.Addr{Port: 4791}, 1, 8, 1)
		lost.Peer.IP[15] = 1 // ::1, or nobody
		if b.Local().IP == lost.Peer.IP {
			lost.Peer = frame.Addr{IP: lost.Peer.IP} // no port
		}
		got := 0
		sendAll(t, a, b, []*frame.Frame{lost, pool.frame(b.Local(), 7, 8, 1)}[1:], func(*frame.Frame) { got++ })
		if a.Send([]*frame.Frame{lost}) != 1 {
			t.Fatal("not taken")
		}
		for end := time.Now().Add(limit); pool.out.Load() > 0; {
			if a.Recv(nil); time.Now().After(end) {
				t.Fatalf("%d frames are still out", pool.out.Load())
			}
		}
		if s := a.Stats(); s.SentFrames != 1 || got != 1 {
			t.Errorf("%d sent, %d received, want 1, 1: %+v", s.SentFrames, got, s)
		}
	})
}

func TestAFrameIsNotTakenTwiceAndNotGivenBackTwice(t *testing.T) {
	onEach(t, func(t *testing.T, a, b Link) {
		var pool sendPool
		f := pool.frame(b.Local(), 1, 300, 1)
		got := make([]*frame.Frame, 4)
		a.Send([]*frame.Frame{f})
		n := receive(t, b, got)
		b.Give(got[:n])
		b.Give(got[:n])
		f.Back()
		if n != 1 || pool.back.Load() != 1 {
			t.Errorf("%d received, %d back, want 1, 1", n, pool.back.Load())
		}
		other := pool.frame(b.Local(), 2, 300, 1)
		other.Handed() // as if it were out
		a.Send([]*frame.Frame{other})
		if n := a.Stats().SentTwice; n != 1 {
			t.Errorf("%d frames that were out are counted, want 1", n)
		}
	})
}

func TestSendersAndTheReceiverRunAtOnce(t *testing.T) {
	onEach(t, func(t *testing.T, a, b Link) {
		const senders, each = 3, 2000
		var pool sendPool
		done := make(chan bool)
		for s := range senders {
			go func() {
				for i := 0; i < each; {
					batch := make([]*frame.Frame, 8)
					for j := range batch {
						batch[j] = pool.frame(b.Local(), s<<16|(i+j), 256, 1)
					}
					for rest := batch; len(rest) > 0; {
						rest = rest[a.Send(rest):]
						// Not more than the receiver's buffers hold.
						for pool.out.Load() > 512 {
							a.Stats()
						}
					}
					i += len(batch)
				}
				done <- true
			}()
		}
		var next [senders]int
		in := make([]*frame.Frame, 64)
		for end, left := time.Now().Add(limit), senders; left > 0 || pool.out.Load() > 0; {
			select {
			case <-done:
				left--
			default:
			}
			n := b.Recv(in)
			for _, f := range in[:n] {
				h, _, _ := roce.ParseHeaders(f.Head[:f.HeadLen])
				psn := int(h.BTH().PSN())
				if s := psn >> 16; psn&0xffff < next[s] {
					t.Errorf("sender %d: frame %d after %d", s, psn&0xffff, next[s])
				} else {
					next[s] = psn&0xffff + 1
				}
				if bad := intact(f, psn, 256); bad != "" {
					t.Error(bad)
				}
			}
			b.Give(in[:n])
			if t.Failed() || time.Now().After(end) {
				t.Fatalf("%d frames out: %+v", pool.out.Load(), b.Stats())
			}
		}
		if back := pool.back.Load(); back != senders*each {
			t.Errorf("%d frames back, want %d", back, senders*each)
		}
	})
}

// within returns what comes from c, in time.
func within[T any](t *testing.T, c <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-c:
	case <-time.After(limit):
		t.Fatalf("no %s within %v", what, limit)
	}
	return v
}
