package link

import (
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
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
