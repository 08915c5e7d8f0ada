package dmacopy

import (
	"bytes"
	"os"
	"testing"
)

// descriptors returns how many this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Skip(err)
	}
	return len(entries)
}

// mappings returns how many ranges of memory this process shares.
func mappings(t *testing.T) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip(err)
	}
	return bytes.Count(b, []byte("memfd:"))
}

// Copies that succeed and copies that fail give back what they took.
func TestNothingStaysOpen(t *testing.T) {
	p := newPlace(t)
	src := small(p.file("src", pattern(200_000)))
	once := func() {
		over := small(p.path("dst"))
		over.Overwrite = true
		p.mustBoth(src, over)
		p.mustBoth(over, src)
		p.both(src, src)
		shrinks := inTheMiddle(small(p.file("short", pattern(200_000))), func() { _ = os.Truncate(p.path("short"), 0) })
		p.both(shrinks, over)
	}
	once() // what is made once stays
	files, maps := descriptors(t), mappings(t)
	for range 3 {
		once()
	}
	if f, m := descriptors(t), mappings(t); f != files || m != maps {
		t.Errorf("%d descriptors and %d mappings, %d and %d before", f, m, files, maps)
	}
}
