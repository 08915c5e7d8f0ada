package shmq

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// memory returns n zero bytes aligned to 8: large enough for the heap to do so.
func memory(n int) []byte { return make([]byte, n) }

// newStream returns both ends of a stream over heap memory.
func newStream(t testing.TB, l StreamLimits) (*Writer, *Reader, []byte) {
	t.Helper()
	mem := memory(l.Size())
	w, err := NewWriter(mem, l)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewReader(mem, l)
	if err != nil {
		t.Fatal(err)
	}
	return w, r, mem
}

// The model of a stream is a list of messages.
func TestStreamBehavesAsAList(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := StreamLimits{
			Message:  rapid.IntRange(0, 200).Draw(rt, "longest message"),
			Messages: rapid.IntRange(1, 6).Draw(rt, "messages"),
			Bytes:    rapid.IntRange(0, 700).Draw(rt, "bytes"),
		}
		w, r, _ := newStream(t, l)
		// Positions go around 2^32.
		start := uint32(rapid.Uint32().Draw(rt, "start") &^ 7)
		w.at, w.read, r.at, r.written = start, start, start, start
		w.tail.Store(uint64(start))
		w.head.Store(uint64(start))
		var model [][]byte
		used := 0
		buf := make([]byte, l.Message)
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				p := rapid.SliceOfN(rapid.Byte(), 0, l.Message+2).Draw(rt, "message")
				want := len(p) <= l.Message && len(model) < l.Messages && used+framed(len(p)) <= l.capacity()
				if room, err := w.Room(len(p)); room != want || err != nil {
					rt.Fatalf("room for %d bytes: %v, %v; want %v", len(p), room, err, want)
				}
				if ok, err := w.Write(p); ok != want || err != nil {
					rt.Fatalf("write of %d bytes: %v, %v; want %v", len(p), ok, err, want)
				}
				if want {
					model = append(model, p)
					used += framed(len(p))
				}
			},
			"read": func(rt *rapid.T) {
				n, ok, err := r.Read(buf)
				if ok != (len(model) > 0) || err != nil {
					rt.Fatalf("read: %v, %v with %d messages", ok, err, len(model))
				}
				if ok {
					if !bytes.Equal(buf[:n], model[0]) {
						rt.Fatalf("read %x, want %x", buf[:n], model[0])
					}
					used -= framed(n)
					model = model[1:]
				}
			},
			"": func(rt *rapid.T) {
				if n, err := w.Unread(); n != len(model) || err != nil {
					rt.Fatalf("%d unread, %v; want %d", n, err, len(model))
				}
				if ok, err := r.Ready(); ok != (len(model) > 0) || err != nil {
					rt.Fatalf("ready: %v, %v with %d messages", ok, err, len(model))
				}
			},
		})
	})
}

// Two goroutines, on heap memory so that the race detector sees all of it.
func TestStreamBetweenTwoGoroutines(t *testing.T) {
	const messages = 20_000
	w, r, _ := newStream(t, StreamLimits{Message: 100, Messages: 5, Bytes: 300})
	failed := make(chan error, 1)
	go func() {
		rng := rand.New(rand.NewPCG(1, 1))
		p := make([]byte, 100)
		for i := 0; i < messages; {
			n := rng.IntN(101)
			for k := range p[:n] {
				p[k] = byte(i + k)
			}
			for ok := false; !ok; {
				var err error
				if ok, err = w.Write(p[:n]); err != nil {
					failed <- err
					return
				}
			}
			i++
		}
		failed <- nil
	}()
	rng := rand.New(rand.NewPCG(1, 1))
	p := make([]byte, 100)
	for i := 0; i < messages; {
		n, ok, err := r.Read(p)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			continue
		}
		if want := rng.IntN(101); n != want {
			t.Fatalf("message %d has %d bytes, want %d", i, n, want)
		}
		for k, b := range p[:n] {
			if b != byte(i+k) {
				t.Fatalf("byte %d of message %d is %d", k, i, b)
			}
		}
		i++
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

func TestStreamReportsWhatThePeerMayNot(t *testing.T) {
	l := StreamLimits{Message: 64, Messages: 4, Bytes: 256}
	for name, c := range map[string]struct {
		word  int
		value uint64
	}{
		"a tail beyond the ring":      {tailWord, 24 + 264},
		"a tail before the head":      {tailWord, 8},
		"a tail that is not aligned":  {tailWord, 25},
		"a tail of more than 32 bits": {tailWord, 24 | 1<<32},
		"a message too long":          {ringAt/8 + 3, 65},
		"a message not written yet":   {ringAt/8 + 3, 17},
		"a huge message":              {ringAt/8 + 3, 1 << 63},
	} {
		w, r, mem := newStream(t, l)
		buf := make([]byte, 64)
		for range 2 {
			if ok, err := w.Write(buf[:16]); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		if _, ok, err := r.Read(buf); !ok || err != nil {
			t.Fatal(ok, err)
		}
		r.written = r.at // as if it had not seen the second one
		shared, _ := words(mem, len(mem))
		shared[c.word].Store(c.value)
		for range 2 {
			if _, ok, err := r.Read(buf); ok || !errors.Is(err, ErrViolation) {
				t.Errorf("%s: %v, %v; want %v", name, ok, err, ErrViolation)
			}
		}
		if !errors.Is(r.Broken(), ErrViolation) {
			t.Errorf("%s: broken is %v", name, r.Broken())
		}
	}
	for name, head := range map[string]uint64{
		"more read than written":     48 | 1<<32,
		"more messages than written": 24 | 2<<32,
		"a read that was taken back": 0xffffffe8,
		"a head that is not aligned": 12 | 1<<32,
		"messages that were unread":  0xffffffff << 32,
	} {
		w, _, _ := newStream(t, l)
		if ok, err := w.Write(make([]byte, 16)); !ok || err != nil {
			t.Fatal(ok, err)
		}
		w.head.Store(head)
		if _, err := w.Unread(); !errors.Is(err, ErrViolation) {
			t.Errorf("%s: %v, want %v", name, err, ErrViolation)
		}
		if ok, err := w.Write(nil); ok || !errors.Is(err, ErrViolation) {
			t.Errorf("%s, then write: %v, %v", name, ok, err)
		}
	}
}

func TestStreamSetUp(t *testing.T) {
	l := StreamLimits{Message: 100, Messages: 4, Bytes: 256}
	mem := memory(l.Size() + 8)
	if _, err := NewWriter(mem[:l.Size()-1], l); err == nil {
		t.Error("memory that is too small was taken")
	}
	if _, err := NewReader(mem[4:], l); err == nil {
		t.Error("memory that is not aligned was taken")
	}
	for _, bad := range []StreamLimits{
		{Message: -1, Messages: 1}, {Messages: 0}, {Messages: 1, Bytes: -1},
		{Message: MaxStream, Messages: 1}, {Messages: 1, Bytes: MaxStream + 1}, {Messages: MaxStream + 1},
	} {
		if _, err := NewReader(mem, bad); err == nil {
			t.Errorf("limits %+v were taken", bad)
		}
	}
}

// A message of the largest size always fits into an empty stream.
func TestLongestMessageFits(t *testing.T) {
	for _, n := range []int{0, 1, 7, 8, 9, 55, 56, 57, 4080, 65536} {
		w, r, _ := newStream(t, StreamLimits{Message: n, Messages: 1})
		p := make([]byte, n)
		for i := range 5 {
			if ok, err := w.Write(p); !ok || err != nil {
				t.Errorf("message %d of %d bytes: %v, %v", i, n, ok, err)
			}
			if ok, _ := w.Write(nil); ok {
				t.Errorf("a second message beside one of %d bytes", n)
			}
			if k, ok, err := r.Read(p); k != n || !ok || err != nil {
				t.Errorf("read of %d bytes: %d, %v, %v", n, k, ok, err)
			}
		}
	}
}

func TestArmIsTakenOnce(t *testing.T) {
	w, r, _ := newStream(t, StreamLimits{Message: 8, Messages: 1})
	if w.Reader().Take() || !r.Wait().Taken() {
		t.Error("armed before anybody asked")
	}
	r.Wait().Set()
	if r.Wait().Taken() || !w.Reader().Take() || w.Reader().Take() || !r.Wait().Taken() {
		t.Error("an arm is not taken exactly once")
	}
	w.Wait().Set()
	if w.Reader().Take() || !r.Writer().Take() {
		t.Error("the two arms are not apart")
	}
}

func ExampleStreamLimits() {
	l := StreamLimits{Message: 4080, Messages: 1024, Bytes: 64 << 10}
	mem := make([]byte, l.Size()) // shared by two processes
	w, _ := NewWriter(mem, l)
	r, _ := NewReader(mem, l)
	_, _ = w.Write([]byte("hello"))
	p := make([]byte, l.Message)
	n, ok, err := r.Read(p)
	fmt.Println(string(p[:n]), ok, err)
	// Output: hello true <nil>
}
