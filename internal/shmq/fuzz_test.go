package shmq

import (
	"encoding/binary"
	"errors"
	"testing"
)

// garble reads the next instruction of a hostile peer from data, a word and
// its new value, and carries it out. Small values are tried as often as large
// ones: they are nearer to what is possible.
func garble(mem, data []byte) (rest []byte, ok bool) {
	if len(data) < 6 {
		return nil, false
	}
	w, _ := words(mem, len(mem))
	at := &w[int(binary.LittleEndian.Uint16(data))%len(w)]
	v := uint64(binary.LittleEndian.Uint32(data[2:]))
	switch data[2] % 4 {
	case 0:
		v >>= 24
	case 1:
		v = v<<32 | v>>16
	case 2:
		v = at.Load() + v%3 - 1
	}
	at.Store(v)
	return data[6:], true
}

// FuzzStreamAgainstGarbage lets a peer write anything to any word while both
// ends are used. What an end says stays within its limits until it says that
// the peer broke the rules, and from then on it says only that.
func FuzzStreamAgainstGarbage(f *testing.F) {
	f.Add([]byte{0, 0, 8, 0, 0, 0, 16, 0, 1, 0, 0, 0})
	f.Add([]byte{64, 0, 3, 9, 9, 9, 0, 0, 2, 1, 0, 0, 65, 0, 2, 1, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		l := StreamLimits{Message: 40, Messages: 3, Bytes: 128}
		w, r, mem := newStream(t, l)
		buf := make([]byte, l.Message)
		for more := true; more; data, more = garble(mem, data) {
			for range 5 {
				ok, err := w.Write(buf[:len(data)%41])
				wellFormed(t, ok, err, w.Broken())
				ok, err = w.Room(8)
				wellFormed(t, ok, err, w.Broken())
				if n, err := w.Unread(); err == nil && uint(n) > uint(l.Messages) {
					t.Fatalf("%d messages unread", n)
				}
			}
			ok, err := r.Ready()
			wellFormed(t, ok, err, r.Broken())
			for range 5 {
				n, ok, err := r.Read(buf)
				wellFormed(t, ok, err, r.Broken())
				if uint(n) > uint(l.Message) {
					t.Fatalf("a message of %d bytes", n)
				}
			}
		}
	})
}

// FuzzQueueAgainstGarbage is the same for a sender and a receiver.
func FuzzQueueAgainstGarbage(f *testing.F) {
	f.Add([]byte{32, 0, 2, 0, 0, 0})
	f.Add([]byte{48, 0, 1, 0, 0, 0, 49, 0, 0, 1, 0, 0, 50, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		const n, size = 4, 100
		s, r, mem := newQueue(t, n, size)
		for more := true; more; data, more = garble(mem, data) {
			for slot := range n {
				r.Post(slot, uint64(slot*10), 10)
			}
			for i := range 3 {
				c, ok, err := s.Peek()
				wellFormed(t, ok, err, s.Broken())
				if !ok {
					continue
				}
				if c.Off > size || uint64(c.Length) > size-c.Off || uint(c.Slot) >= n {
					t.Fatalf("a receive %+v", c)
				}
				s.Claim()
				if i == 0 {
					s.Void(c.Slot)
				} else {
					s.Arrive(c.Slot, c.Length, 1, data)
				}
			}
			for range 3 {
				var a Arrival
				ok, err := r.Next(&a)
				wellFormed(t, ok, err, r.Broken())
				if ok && (uint(a.Slot) >= n || uint(a.Length) > 10 || uint(a.ImmLen) > MaxImmData) {
					t.Fatalf("an arrival %+v", a)
				}
				if got := r.Posted(); got < 0 || got > n {
					t.Fatalf("%d are posted", got)
				}
			}
		}
	})
}

// wellFormed wants an answer to be a success, nothing, or the violation that
// the end remembers.
func wellFormed(t *testing.T, ok bool, err, broken error) {
	t.Helper()
	if ok && err != nil || !errors.Is(err, broken) || broken != nil && !errors.Is(err, ErrViolation) {
		t.Fatalf("answered %v, %v; broken is %v", ok, err, broken)
	}
}
