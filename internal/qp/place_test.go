package qp

import (
	"bytes"
	"testing"
)

// A keyring counts how often memory is opened.
type keyring struct {
	Env
	mem   []byte
	opens int
}

func (k *keyring) Local(_ uint32, addr uint64, n int, _ bool) ([]byte, bool) {
	if k.opens++; addr+uint64(n) > uint64(len(k.mem)) {
		return nil, false
	}
	return k.mem[addr:][:n], true
}

func TestThePartsOfAPacketAreCopiedThroughOneOpening(t *testing.T) {
	parts := [][]byte{[]byte("header"), nil, []byte("some"), []byte(" payload")}
	const all = "headersome payload"
	for _, c := range []struct {
		name  string
		sg    []SGE
		n     int // bytes that are announced
		opens int
		ok    bool
	}{
		{"together", []SGE{{Addr: 2, Len: 40}}, len(all), 1, true},
		{"exactly", []SGE{{Addr: 2, Len: 18}}, len(all), 1, true},
		{"in two entries, cut in a part", []SGE{{Addr: 2, Len: 8}, {Addr: 10, Len: 30}}, len(all), 2, true},
		{"too few announced", []SGE{{Addr: 2, Len: 40}}, 6, 3, true},
		{"no room", []SGE{{Addr: 2, Len: 17}}, len(all), 1, false},
		{"not to be used", []SGE{{Addr: 60, Len: 18}}, len(all), 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := &keyring{mem: make([]byte, 64)}
			var p place
			s, ok := scatter{n: c.n}, true
			for _, part := range parts {
				ok = ok && p.copyPart(k, c.sg, &s, part)
			}
			if ok != c.ok || k.opens != c.opens {
				t.Errorf("got %v with %d openings, want %v with %d", ok, k.opens, c.ok, c.opens)
			}
			if ok && !bytes.Equal(k.mem[2:][:len(all)], []byte(all)) {
				t.Errorf("got %q, want %q", k.mem[2:][:len(all)], all)
			}
		})
	}
}
