package shmq

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// newQueue returns both ends of a queue over heap memory, with room for size
// bytes of receives.
func newQueue(t testing.TB, n int, size uint64) (*Sender, *Receiver, []byte) {
	t.Helper()
	mem := memory(QueueSize(n))
	r, err := NewReceiver(mem, n, MaxImmData)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSender(mem, n, size)
	if err != nil {
		t.Fatal(err)
	}
	return s, r, mem
}

// A queueModel is what a queue should do: receives that are free, posted,
// claimed, and arrived, in this order. Arrivals come in the order in which they
// are published, which is any.
type queueModel struct {
	s       *Sender
	r       *Receiver
	n       int
	busy    map[int]bool
	posted  []Receive
	claimed []Receive
	arrived []Arrival
}

// modelled is the memory that receives are in.
const modelled = 1 << 20

func TestQueueBehavesAsThreeLists(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &queueModel{n: rapid.IntRange(1, 9).Draw(rt, "slots"), busy: map[int]bool{}}
		m.s, m.r, _ = newQueue(t, m.n, modelled)
		rt.Repeat(map[string]func(*rapid.T){
			"post": m.post, "claim": m.claim, "arrive": m.arrive, "take": m.take, "": m.check,
		})
	})
}

func (m *queueModel) post(rt *rapid.T) {
	slot := rapid.IntRange(-1, m.n).Draw(rt, "slot")
	length := rapid.IntRange(0, 1000).Draw(rt, "length")
	off := uint64(rapid.IntRange(0, modelled-1000).Draw(rt, "offset"))
	want := slot >= 0 && slot < m.n && !m.busy[slot]
	if got := m.r.Post(slot, off, length); got != want {
		rt.Fatalf("post of slot %d: %v, want %v", slot, got, want)
	}
	if want {
		m.busy[slot] = true
		m.posted = append(m.posted, Receive{Off: off, Length: length, Slot: slot})
	}
}

func (m *queueModel) claim(rt *rapid.T) {
	got, ok, err := m.s.Peek()
	if ok != (len(m.posted) > 0) || ok != m.s.Credit() || err != nil {
		rt.Fatalf("peek: %v, %v with %d posted", ok, err, len(m.posted))
	}
	if !ok {
		return
	}
	if got != m.posted[0] {
		rt.Fatalf("claimed %+v, want %+v", got, m.posted[0])
	}
	m.s.Claim()
	m.posted, m.claimed = m.posted[1:], append(m.claimed, got)
}

func (m *queueModel) arrive(rt *rapid.T) {
	if len(m.claimed) == 0 {
		return
	}
	i := rapid.IntRange(0, len(m.claimed)-1).Draw(rt, "which")
	c := m.claimed[i]
	m.claimed = slices.Delete(m.claimed, i, i+1)
	a := Arrival{Slot: c.Slot}
	if a.Void = rapid.Bool().Draw(rt, "void"); a.Void {
		m.s.Void(c.Slot)
	} else {
		a.Length = rapid.IntRange(0, c.Length).Draw(rt, "length")
		a.From = rapid.Uint16().Draw(rt, "from")
		imm := rapid.SliceOfN(rapid.Byte(), 0, MaxImmData).Draw(rt, "immediate data")
		a.ImmLen = copy(a.Imm[:], imm)
		m.s.Arrive(a.Slot, a.Length, a.From, imm)
	}
	m.arrived = append(m.arrived, a)
}

func (m *queueModel) take(rt *rapid.T) {
	var got Arrival
	ok, err := m.r.Next(&got)
	if ok != (len(m.arrived) > 0) || err != nil {
		rt.Fatalf("next: %v, %v with %d arrived", ok, err, len(m.arrived))
	}
	if !ok {
		return
	}
	if got != m.arrived[0] {
		rt.Fatalf("arrived %+v, want %+v", got, m.arrived[0])
	}
	m.busy[got.Slot] = false
	m.arrived = m.arrived[1:]
}

func (m *queueModel) check(rt *rapid.T) {
	if want := len(m.posted) + len(m.claimed) + len(m.arrived); m.r.Posted() != want {
		rt.Fatalf("%d posted, want %d", m.r.Posted(), want)
	}
	if m.r.Ready() != (len(m.arrived) > 0) {
		rt.Fatalf("ready with %d arrived", len(m.arrived))
	}
}

// Two goroutines, on heap memory so that the race detector sees the contents
// too: what is written to a receive is seen with its arrival, and a receive
// that is posted again is not read any more.
func TestQueueBetweenTwoGoroutines(t *testing.T) {
	const n, each, messages = 6, 64, 20_000
	s, r, _ := newQueue(t, n, n*each)
	room := memory(n * each)
	failed := make(chan error, 1)
	go func() {
		rng := rand.New(rand.NewPCG(2, 2))
		var held []Receive
		for i := 0; i < messages; {
			c, ok, err := s.Peek()
			if err != nil {
				failed <- err
				return
			}
			if ok {
				s.Claim()
				held = append(held, c)
			}
			if len(held) > 0 && (!ok || rng.IntN(2) == 0) { // out of order
				k := rng.IntN(len(held))
				c := held[k]
				held = append(held[:k], held[k+1:]...)
				for j := range room[c.Off:][:c.Length] {
					room[c.Off:][j] = byte(i + j)
				}
				s.Arrive(c.Slot, c.Length, uint16(i), []byte{byte(i)})
				i++
			}
		}
		failed <- nil
	}()
	for i := range n {
		r.Post(i, uint64(i*each), each)
	}
	for i := 0; i < messages; {
		var a Arrival
		ok, err := r.Next(&a)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		for j, b := range room[a.Slot*each:][:a.Length] {
			if b != byte(i+j) {
				t.Fatalf("byte %d of message %d is %d", j, i, b)
			}
		}
		if a.From != uint16(i) || !bytes.Equal(a.Imm[:a.ImmLen], []byte{byte(i)}) {
			t.Fatalf("message %d is %+v", i, a)
		}
		r.Post(a.Slot, uint64(a.Slot*each), each)
		i++
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

func TestQueueReportsWhatThePeerMayNot(t *testing.T) {
	const n = 4
	arrivals := (postsAt + depthOf(n)*postBytes) / 8
	for name, c := range map[string]struct{ word, value uint64 }{
		"a position of the future":    {0, 2},
		"a slot that is not posted":   {1, 3 << 32},
		"a slot that does not exist":  {1, 4 << 32},
		"a length beyond the receive": {1, 101},
		"immediate data too long":     {2, 33 << 16},
		"unknown flags":               {2, 1 << 33},
	} {
		s, r, mem := newQueue(t, n, 1000)
		r.Post(0, 0, 100)
		s.Arrive(0, 100, 1, make([]byte, MaxImmData))
		shared, _ := words(mem, len(mem))
		shared[arrivals+int(c.word)].Store(c.value)
		for range 2 {
			if ok, err := r.Next(new(Arrival)); ok || !errors.Is(err, ErrViolation) {
				t.Errorf("%s: %v, %v; want %v", name, ok, err, ErrViolation)
			}
		}
		if !r.Ready() || !errors.Is(r.Broken(), ErrViolation) {
			t.Errorf("%s: ready %v, broken is %v", name, r.Ready(), r.Broken())
		}
	}
	const first = 1 << 48
	for name, c := range map[string]struct{ word, value uint64 }{
		"a position of the future":    {0, 5 << 48},
		"an offset beyond the memory": {1, 1001},
		"an offset that would wrap":   {1, ^uint64(50)},
		"an end beyond the memory":    {0, first | 1001},
		"a length that is too large":  {0, first | 0xffffffff},
		"a slot that does not exist":  {0, first | 4<<32},
	} {
		s, r, mem := newQueue(t, n, 1000)
		r.Post(0, 0, 1000)
		shared, _ := words(mem, len(mem))
		shared[postsAt/8+c.word].Store(c.value)
		for range 2 {
			if _, ok, err := s.Peek(); ok || !errors.Is(err, ErrViolation) {
				t.Errorf("%s: %v, %v; want %v", name, ok, err, ErrViolation)
			}
		}
		if !s.Credit() || !errors.Is(s.Broken(), ErrViolation) {
			t.Errorf("%s: credit %v, broken is %v", name, s.Credit(), s.Broken())
		}
	}
}

func TestQueueSetUp(t *testing.T) {
	mem := memory(QueueSize(4) + 8)
	if _, err := NewReceiver(mem[:QueueSize(4)-1], 4, 0); err == nil {
		t.Error("memory that is too small was taken")
	}
	if _, err := NewSender(mem[4:], 4, 0); err == nil {
		t.Error("memory that is not aligned was taken")
	}
	for _, n := range []int{-1, 0, MaxDepth + 1} {
		if _, err := NewSender(mem, n, 0); err == nil {
			t.Errorf("a queue of %d receives was made", n)
		}
	}
	s, r, _ := newQueue(t, 4, 1<<20)
	if r.Post(0, 0, -1) || r.Post(0, 0, MaxLength+1) {
		t.Error("a receive of an impossible length was posted")
	}
	r.Wait().Set()
	if r.Wait().Taken() || s.Wait().Taken() == false || !s.Receiver().Take() || r.Credit().Take() {
		t.Error("the arms are not apart")
	}
}

// Positions are told apart by 16 bits, and go around often.
func TestPositionsGoAround(t *testing.T) {
	for _, n := range []int{1, 100, MaxDepth} {
		s, r, _ := newQueue(t, n, 1<<30)
		for i := range 80_000 {
			slot := i % n
			if _, ok, err := s.Peek(); ok || err != nil {
				t.Fatalf("depth %d, message %d: a receive that was not posted: %v, %v", n, i, ok, err)
			}
			r.Post(slot, uint64(i), i%1000)
			got, ok, err := s.Peek()
			if want := (Receive{Off: uint64(i), Length: i % 1000, Slot: slot}); !ok || err != nil || got != want {
				t.Fatalf("depth %d, message %d: %+v, %v, %v; want %+v", n, i, got, ok, err, want)
			}
			s.Claim()
			s.Arrive(slot, 0, 0, nil)
			if ok, err := r.Next(new(Arrival)); !ok || err != nil {
				t.Fatalf("depth %d, message %d: %v, %v", n, i, ok, err)
			}
		}
	}
}
