package sys

import (
	"os"
	"testing"
)

func TestPagesAreAlignedZeroedAndExactlyAsLongAsAsked(t *testing.T) {
	for _, n := range []int{1, 63, 4096, 5000, 3 << 20} {
		for _, huge := range []bool{false, true} {
			p, err := AllocPages(n, PagesOptions{Huge: huge})
			if err != nil {
				t.Fatalf("AllocPages(%d, huge %v): %v", n, huge, err)
			}
			b := p.Bytes()
			if len(b) != n || cap(b) != n {
				t.Errorf("%d bytes asked: len %d, cap %d", n, len(b), cap(b))
			}
			if page := uintptr(os.Getpagesize()); Addr(b)%page != 0 {
				t.Errorf("%d bytes: address %#x is not page aligned", n, Addr(b))
			}
			if b[0] != 0 || b[n-1] != 0 {
				t.Errorf("%d bytes are not zero", n)
			}
			b[n-1] = 1
			if p.FD() != -1 {
				t.Errorf("private memory has descriptor %d", p.FD())
			}
			for range 2 {
				if err := p.Free(); err != nil {
					t.Errorf("Free: %v", err)
				}
			}
			if p.Bytes() != nil {
				t.Error("bytes remain after Free")
			}
		}
	}
}

func TestAddrIsThatOfTheFirstByte(t *testing.T) {
	b := make([]byte, 16)
	if got, want := Addr(b[5:]), Addr(b)+5; got != want {
		t.Errorf("got %#x, want %#x", got, want)
	}
	if got := Addr(nil); got != 0 {
		t.Errorf("Addr(nil) = %#x, want 0", got)
	}
}
