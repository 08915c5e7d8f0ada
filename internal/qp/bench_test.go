package qp

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
	"github.com/gantry-rdma/gantry/roce"
)

// A wire is the fastest device there can be around a machine: two of them,
// connected by handing over frames. What it takes is the machines' own time.
type wire struct {
	s     Sender
	r     Responder
	q     *SendQueue
	peer  *wire
	mem   []byte
	free  []*frame.Frame
	out   []*frame.Frame
	spare []*frame.Frame
	recv  RecvWQE
	done  int
	got   int
}

func (w *wire) Frame() *frame.Frame {
	n := len(w.free) - 1
	if n < 0 {
		return nil
	}
	f := w.free[n]
	w.free = w.free[:n]
	return f
}

func (w *wire) Emit(f *frame.Frame) { w.out = append(w.out, f) }

func (w *wire) Local(_ uint32, at uint64, n int, _ bool) ([]byte, bool) {
	return w.mem[at : at+uint64(n)], true
}

func (w *wire) Remote(_ uint32, at uint64, n int, _ Access) ([]byte, bool) {
	return w.mem[at : at+uint64(n)], true
}
func (w *wire) Atomic([]byte, Op, uint64, uint64) uint64 { return 7 }
func (w *wire) InvalidateLocal(uint32) bool              { return true }
func (w *wire) InvalidateRemote(uint32) bool             { return true }
func (w *wire) TakeReceive() *RecvWQE                    { return &w.recv }
func (w *wire) CompleteSend(*CQE) bool                   { w.done++; return true }
func (w *wire) Waiting(int) *frame.Frame                 { return nil }
func (w *wire) GiveUpReceive(*RecvWQE)                   {}
func (w *wire) Flush(*FlushTarget) bool                  { return true }
func (w *wire) BindWindow(*Binding) bool                 { return true }
func (w *wire) CompleteReceive(*RecvWQE, *CQE) bool      { w.got++; return true }
func (w *wire) WindowCap() int                           { return 1 << 20 }
func (w *wire) Raise(Event)                              {}
func (w *wire) Fatal(Status)                             {}
func (w *wire) Count(Counter)                            {}
func (w *wire) Now() Instant                             { return 1 }
func (w *wire) Near(uint32) *Responder                   { return nil }
func (w *wire) Handed(roce.Opcode, int, int)             {}
func (w *wire) Try(uint32, uint64, int, Access) ([]byte, bool) {
	return nil, false
}

// newWires returns two, with a window that is open.
func newWires(tb testing.TB) (a, b *wire) {
	a, b = &wire{}, &wire{}
	a.peer, b.peer = b, a
	for _, w := range []*wire{a, b} {
		w.q = NewSendQueue(128, 4, 64)
		w.mem = make([]byte, 1<<20)
		w.recv.SG = []SGE{{Addr: 0, Len: 1 << 17}}
		w.s.Init(w, w.q)
		w.r.Init(w, 16)
		for range 1024 {
			w.free = append(w.free, &frame.Frame{Payload: make([][]byte, 0, 4)})
		}
		w.out, w.spare = make([]*frame.Frame, 0, 1024), make([]*frame.Frame, 0, 1024)
		w.s.Start(SenderConfig{MTU: roce.MTU4096, Timeout: 14, RetryCount: 7, MaxRdAtomic: 16, Probe: DefaultProbe})
		w.r.Start(ResponderConfig{MTU: roce.MTU4096, MaxDestRdAtomic: 16, Access: everything})
	}
	for range 200 {
		turn(a, OpWrite, 1<<16, 8)
	}
	if a.s.Window() < 100 {
		tb.Fatalf("the window is %d", a.s.Window())
	}
	return a, b
}

// deliver hands over what w emitted, and gives the frames back.
func (w *wire) deliver() {
	w.out, w.spare = w.spare[:0], w.out
	for _, f := range w.spare {
		if !isRequest(f) {
			w.peer.s.Receive(f, 1)
		} else if !w.peer.r.Receive(f, 1) {
			w.peer.r.Step(1, 256)
			w.peer.deliver()
			w.peer.r.Receive(f, 1)
		}
		w.s.FrameBack(f)
		f.Reset()
		w.free = append(w.free, f)
	}
}

// turn posts a batch and carries it to its end.
func turn(a *wire, op Op, size, batch int) {
	for range batch {
		w := a.q.Reserve()
		w.Op, w.Flags, w.Len, w.RemoteAddr, w.Placement = op, Signaled, uint32(size), 0, roce.PlaceGlobal
		w.SG = w.SG[:0]
		if op != OpFlush {
			w.SG = append(w.SG, SGE{Addr: 0, Len: uint32(size)})
		}
	}
	a.q.Publish()
	for want := a.done + batch; a.done < want; {
		a.s.Step(1, 256) // the run that sends
		a.deliver()
		for a.peer.r.Step(1, 256) {
			a.peer.deliver()
		}
		a.peer.deliver()
	}
	a.s.Step(1, 256) // the run that took the answers
}

func benchmark(b *testing.B, op Op, size, batch int) {
	x, _ := newWires(b)
	before := x.done
	b.SetBytes(int64(size))
	b.ResetTimer()
	for i := 0; i < b.N; i += batch {
		turn(x, op, size, batch)
	}
	b.StopTimer()
	if n := x.done - before; n < b.N {
		b.Fatalf("completed %d of %d", n, b.N)
	}
}

// The figures are of one message, from post to both completions.

func BenchmarkSend64(b *testing.B)          { benchmark(b, OpSend, 64, 1) }
func BenchmarkSend64By16(b *testing.B)      { benchmark(b, OpSend, 64, 16) }
func BenchmarkWrite64By16(b *testing.B)     { benchmark(b, OpWrite, 64, 16) }
func BenchmarkWrite4KiBBy16(b *testing.B)   { benchmark(b, OpWrite, 4096, 16) }
func BenchmarkWrite64KiBBy4(b *testing.B)   { benchmark(b, OpWrite, 65536, 4) }
func BenchmarkRead64KiBBy4(b *testing.B)    { benchmark(b, OpRead, 65536, 4) }
func BenchmarkFetchAddBy16(b *testing.B)    { benchmark(b, OpFetchAdd, 8, 16) }
func BenchmarkAtomicWriteBy16(b *testing.B) { benchmark(b, OpAtomicWrite, 8, 16) }
func BenchmarkFlushBy16(b *testing.B)       { benchmark(b, OpFlush, 4096, 16) }

func BenchmarkCopy4KiB(b *testing.B) {
	from, to := make([]byte, 1<<20), make([]byte, 1<<20)
	b.SetBytes(4096)
	for b.Loop() {
		copy(to[:4096], from[:4096])
	}
}

func TestNothingAllocates(t *testing.T) {
	for _, c := range []struct {
		name string
		op   Op
		size int
	}{
		{"send", OpSend, 64}, {"send of many packets", OpSend, 65536}, {"write", OpWrite, 65536},
		{"write with immediate", OpWriteImm, 100}, {"read", OpRead, 65536}, {"swap", OpCompareSwap, 8},
		{"atomic write", OpAtomicWrite, 8}, {"flush", OpFlush, 4096}, {"bind", OpBindMW, 0}, {"add", OpFetchAdd, 8}, {"local invalidate", OpLocalInv, 0}, {"send with invalidate", OpSendInv, 64},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, _ := newWires(t)
			allocs.None(t, func() { turn(x, c.op, c.size, 2) })
		})
	}
}
