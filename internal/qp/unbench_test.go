package qp

import (
	"testing"

	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
	"github.com/gantry-rdma/gantry/roce"
)

// newUnreliableWires returns wires of another transport.
func newUnreliableWires(tb testing.TB, of roce.Transport) (a, b *wire) {
	a, b = newWires(tb)
	for _, w := range []*wire{a, b} {
		w.s.Reset()
		w.r.Reset()
		w.s.Start(SenderConfig{Transport: of, QPN: qpnA, MTU: roce.MTU4096})
		w.r.Start(ResponderConfig{Transport: of, QPN: qpnA, MTU: roce.MTU4096, Access: RemoteWrite})
	}
	return a, b
}

func TestNothingUnreliableAllocates(t *testing.T) {
	for _, c := range []struct {
		name string
		of   roce.Transport
		op   Op
		size int
	}{
		{"UC send", roce.UC, OpSend, 64}, {"UC send of many packets", roce.UC, OpSendImm, 65536},
		{"UC write", roce.UC, OpWrite, 65536}, {"UC write with immediate", roce.UC, OpWriteImm, 100},
		{"UD send", roce.UD, OpSend, 64}, {"UD send with immediate", roce.UD, OpSendImm, 4096},
	} {
		t.Run(c.name, func(t *testing.T) {
			x, _ := newUnreliableWires(t, c.of)
			before := x.peer.got
			turn(x, c.op, c.size, 2)
			if c.op != OpWrite && x.peer.got-before != 2 {
				t.Fatalf("delivered %d of 2", x.peer.got-before)
			}
			allocs.None(t, func() { turn(x, c.op, c.size, 2) })
		})
	}
}

func benchmarkUnreliable(b *testing.B, of roce.Transport, op Op, size, batch int) {
	x, _ := newUnreliableWires(b, of)
	b.SetBytes(int64(size))
	b.ResetTimer()
	for i := 0; i < b.N; i += batch {
		turn(x, op, size, batch)
	}
}

func BenchmarkUCSend64By16(b *testing.B)    { benchmarkUnreliable(b, roce.UC, OpSend, 64, 16) }
func BenchmarkUCWrite64By16(b *testing.B)   { benchmarkUnreliable(b, roce.UC, OpWrite, 64, 16) }
func BenchmarkUCWrite4KiBBy16(b *testing.B) { benchmarkUnreliable(b, roce.UC, OpWrite, 4096, 16) }
func BenchmarkUCWrite64KiBBy4(b *testing.B) { benchmarkUnreliable(b, roce.UC, OpWrite, 65536, 4) }
func BenchmarkUDSend64By16(b *testing.B)    { benchmarkUnreliable(b, roce.UD, OpSend, 64, 16) }
func BenchmarkUDSend1KiBBy16(b *testing.B)  { benchmarkUnreliable(b, roce.UD, OpSend, 1024, 16) }
