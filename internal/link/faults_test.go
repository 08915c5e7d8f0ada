package link

import (
	"slices"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/internal/frame"
	"github.com/gantry-rdma/gantry/roce"
)

// journey sends n frames over a bad network and returns the order of arrival.
func journey(t *testing.T, f Faults, n int) (order []int, y *Faulty, b *Memory) {
	t.Helper()
	a, b := ends(t, PairConfig{})
	y = wrapped(t, NewFaults(a, f))
	in := make([]*frame.Frame, 64)
	drain := func() {
		for got := b.Recv(in); got > 0; got = b.Recv(in) {
			for _, f := range in[:got] {
				h, _, _ := roce.ParseHeaders(f.Head[:f.HeadLen])
				psn := int(h.BTH().PSN())
				if bad := intact(f, psn, 100+psn%50); bad != "" {
					t.Fatal(bad)
				}
				order = append(order, psn)
			}
			b.Give(in[:got])
		}
	}
	var pool sendPool
	for i := 0; i < n; i += 16 {
		var batch []*frame.Frame
		for j := i; j < min(i+16, n); j++ {
			batch = append(batch, pool.frame(b.Local(), j, 100+j%50, 2))
		}
		if got := y.Send(batch); got != len(batch) {
			t.Fatalf("%d taken, want %d", got, len(batch))
		}
		drain()
	}
	for end := time.Now().Add(limit); y.kept.waiting.Load(); y.Recv(in) {
		if time.Now().After(end) {
			t.Fatal("frames are still kept")
		}
	}
	if drain(); pool.out.Load() != 0 {
		t.Errorf("%d frames are still out", pool.out.Load())
	}
	return order, y, b
}

func TestTheSeedDecidesWhatHappens(t *testing.T) {
	arrived := func(f Faults) ([]int, Injected) {
		order, y, _ := journey(t, f, 4000)
		slices.Sort(order) // how late a frame is, the clock has a say in
		return order, y.Injected()
	}
	bad := Faults{Loss: 0.05, Dup: 0.05, Reorder: 0.05, Corrupt: 0.05, Seed: 7}
	first, n := arrived(bad)
	again, m := arrived(bad)
	if !slices.Equal(first, again) || n != m {
		t.Errorf("the same seed: %+v, then %+v", n, m)
	}
	bad.Seed = 8
	if other, _ := arrived(bad); slices.Equal(first, other) {
		t.Error("another seed, and the same happened")
	}
}

func TestEachFaultHappensAsOftenAsAsked(t *testing.T) {
	const n, part = 8000, 0.1
	about := func(got uint64) bool { return got > n*part*0.8 && got < n*part*1.2 }
	for _, c := range []struct {
		name string
		f    Faults
		n    func(i Injected) uint64
		want func(i Injected) int // frames that arrive
	}{
		{"loss", Faults{Loss: part}, func(i Injected) uint64 { return i.Lost },
			func(i Injected) int { return n - int(i.Lost) }},
		{"dup", Faults{Dup: part}, func(i Injected) uint64 { return i.Doubled },
			func(i Injected) int { return n + int(i.Doubled) }},
		{"reorder", Faults{Reorder: part}, func(i Injected) uint64 { return i.Reordered },
			func(Injected) int { return n }},
		{"corrupt", Faults{Corrupt: part}, func(i Injected) uint64 { return i.Corrupted },
			func(i Injected) int { return n - int(i.Corrupted) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			order, y, b := journey(t, c.f, n)
			i := y.Injected()
			if !about(c.n(i)) || len(order) != c.want(i) || i.Overflow != 0 {
				t.Errorf("%d arrived, want %d; injected %+v", len(order), c.want(i), i)
			}
			if got := b.Stats().BadICRC; got != i.Corrupted {
				t.Errorf("%d had a bad ICRC, want %d", got, i.Corrupted)
			}
			back, far := 0, 0
			for k := 1; k < len(order); k++ {
				if d := order[k-1] - order[k]; d > 0 {
					back, far = back+1, max(far, d)
				}
			}
			if c.f.Reorder > 0 && (back < int(i.Reordered)/2 || far > 16) || c.f.Reorder == 0 && back > 0 {
				t.Errorf("%d frames were overtaken, by up to %d", back, far)
			}
		})
	}
}

func TestDamageIsSeenByTheICRCOfTheReceiver(t *testing.T) {
	for _, addr := range []string{"127.0.0.1", "::1"} {
		t.Run(addr, func(t *testing.T) {
			inner, b := udpEnds(t, addr, UDPConfig{})
			a := wrapped(t, NewFaults(inner, Faults{Corrupt: 0.2, Seed: 3}))
			var pool sendPool
			in := make([]*frame.Frame, 64)
			got := 0
			const n = 4000
			for i := range n {
				a.Send([]*frame.Frame{pool.frame(b.Local(), i, 300, 1)})
				for k := b.Recv(in); k > 0; k = b.Recv(in) {
					for _, f := range in[:k] {
						h, _, _ := roce.ParseHeaders(f.Head[:f.HeadLen])
						if bad := intact(f, int(h.BTH().PSN()), 300); bad != "" {
							t.Error(bad)
						}
					}
					b.Give(in[:k])
					got += k
				}
			}
			i, s := a.Injected(), b.Stats()
			if got != n-int(i.Corrupted) || i.Corrupted == 0 || s.BadICRC == 0 {
				t.Errorf("%d arrived, want %d: %+v", got, n-int(i.Corrupted), s)
			}
		})
	}
}

func TestADelayIsKept(t *testing.T) {
	a, b := ends(t, PairConfig{})
	const delay = 3 * time.Millisecond
	y := wrapped(t, NewFaults(a, Faults{Delay: delay}))
	var pool sendPool
	start := time.Now()
	y.Send([]*frame.Frame{pool.frame(b.Local(), 1, 64, 1)})
	if pool.out.Load() != 0 {
		t.Error("the original is still out")
	}
	if !b.Wait() { // the timer sends it: nobody calls the sender any more
		t.Fatal("closed")
	}
	if took := time.Since(start); took < delay {
		t.Errorf("arrived after %v, want at least %v", took, delay)
	}
	in := make([]*frame.Frame, 1)
	if n := b.Recv(in); n != 1 || intact(in[0], 1, 64) != "" {
		t.Errorf("%d frames: %s", n, intact(in[0], 1, 64))
	}
	b.Give(in)
}

func TestADelayLineThatIsFullLosesFrames(t *testing.T) {
	a, b := ends(t, PairConfig{})
	y := wrapped(t, NewFaults(a, Faults{Delay: time.Hour}))
	var pool sendPool
	const n = 3000
	for i := range n {
		y.Send([]*frame.Frame{pool.frame(b.Local(), i, 0, 0)})
	}
	if got := y.Injected().Overflow; got == 0 || pool.back.Load() != n {
		t.Errorf("%d lost, %d back, want some, %d", got, pool.back.Load(), n)
	}
}
