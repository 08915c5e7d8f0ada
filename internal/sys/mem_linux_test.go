package sys

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func alloc(t *testing.T, n int, o PagesOptions) *Pages {
	t.Helper()
	p, err := AllocPages(n, o)
	if err != nil {
		t.Fatalf("AllocPages(%d, %+v): %v", n, o, err)
	}
	t.Cleanup(func() {
		if err := p.Free(); err != nil {
			t.Errorf("Free: %v", err)
		}
	})
	return p
}

// tempFile returns a file of n bytes where byte i is byte(i).
func tempFile(t *testing.T, n int) *os.File {
	t.Helper()
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	f, err := os.OpenFile(filepath.Join(t.TempDir(), "file"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestShareableMemoryIsSeenThroughItsDescriptor(t *testing.T) {
	for _, huge := range []bool{false, true} {
		p := alloc(t, 5000, PagesOptions{Shareable: true, Huge: huge})
		if p.FD() < 0 {
			t.Fatal("shareable memory has no descriptor")
		}
		size := os.Getpagesize() * 2
		if p.Huge() {
			size = hugePage
		}
		other, err := unix.Mmap(p.FD(), 0, size, unix.PROT_READ, unix.MAP_SHARED)
		if err != nil {
			t.Fatal(err)
		}
		p.Bytes()[4999] = 7
		if other[4999] != 7 {
			t.Errorf("other mapping reads %d, want 7", other[4999])
		}
		if err := unix.Munmap(other); err != nil {
			t.Fatal(err)
		}
	}
}

func TestShareableMemoryCannotChangeItsSize(t *testing.T) {
	p := alloc(t, 4096, PagesOptions{Shareable: true})
	for _, size := range []int64{0, 1 << 20} {
		if err := unix.Ftruncate(p.FD(), size); err != unix.EPERM {
			t.Errorf("truncate to %d: %v, want EPERM", size, err)
		}
	}
}

func TestSealedReadOnlyMemoryCannotBeMappedForWriting(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		p := alloc(t, 4096, PagesOptions{Shareable: true})
		if err := p.Seal(readOnly); err != nil {
			t.Fatal(err)
		}
		if _, err := unix.FcntlInt(uintptr(p.FD()), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err != unix.EPERM {
			t.Errorf("a further seal: %v, want EPERM", err)
		}
		raw, err := unix.Mmap(p.FD(), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err == nil {
			_ = unix.Munmap(raw)
		}
		if got := err == unix.EPERM; got != readOnly {
			t.Errorf("Seal(%v): writable mapping gives %v", readOnly, err)
		}
		p.Bytes()[0] = 1 // the owner still writes
	}
	if err := alloc(t, 1, PagesOptions{}).Seal(false); !errors.Is(err, unix.EBADF) {
		t.Errorf("Seal of private memory: %v, want EBADF", err)
	}
}

func TestImpossibleSizesGiveAnErrorNumber(t *testing.T) {
	tests := []struct {
		n    int
		o    PagesOptions
		want error
	}{
		{0, PagesOptions{}, unix.EINVAL},
		{-1, PagesOptions{Shareable: true}, unix.EINVAL},
		{math.MaxInt, PagesOptions{}, unix.ENOMEM},
		{math.MaxInt, PagesOptions{Huge: true}, unix.ENOMEM},
		{math.MaxInt - 1<<20, PagesOptions{}, unix.ENOMEM},
	}
	for _, tt := range tests {
		if p, err := AllocPages(tt.n, tt.o); !errors.Is(err, tt.want) {
			t.Errorf("AllocPages(%d, %+v) = %v, %v, want %v", tt.n, tt.o, p, err, tt.want)
		}
	}
}

func TestMapFileTakesAnyOffset(t *testing.T) {
	f := tempFile(t, 3*4096+10)
	for _, at := range []struct {
		off int64
		n   int
	}{{0, 1}, {1, 4096}, {4095, 2}, {4096, 4096}, {5000, 7298}} {
		p, err := MapFile(f, at.off, at.n, true)
		if err != nil {
			t.Fatalf("MapFile(%d, %d): %v", at.off, at.n, err)
		}
		b := p.Bytes()
		if len(b) != at.n || cap(b) != at.n {
			t.Errorf("MapFile(%d, %d): len %d cap %d", at.off, at.n, len(b), cap(b))
		}
		for i, c := range b {
			if want := byte(at.off + int64(i)); c != want {
				t.Fatalf("MapFile(%d, %d): byte %d is %d, want %d", at.off, at.n, i, c, want)
			}
		}
		if err := p.Free(); err != nil {
			t.Fatal(err)
		}
		if p.Bytes() != nil {
			t.Error("bytes remain after Free")
		}
	}
}

func TestMapFileRefuses(t *testing.T) {
	f := tempFile(t, 4096)
	readOnly, err := os.Open(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	tests := []struct {
		name string
		f    *os.File
		off  int64
		n    int
		want error
	}{
		{"negative offset", f, -1, 1, unix.EINVAL},
		{"no bytes", f, 0, 0, unix.EINVAL},
		{"too many bytes", f, 0, math.MaxInt, unix.EINVAL},
		{"writing a read-only file", readOnly, 0, 1, unix.EACCES},
	}
	for _, tt := range tests {
		if p, err := MapFile(tt.f, tt.off, tt.n, true); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v, %v, want %v", tt.name, p, err, tt.want)
		}
	}
}

func TestCopySurvivesATruncatedFile(t *testing.T) {
	f := tempFile(t, 4*4096)
	p, err := MapFile(f, 0, 4*4096, true)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Free()
	dst := make([]byte, 4*4096)
	if n, ok := Copy(dst, p.Bytes()); n != len(dst) || !ok {
		t.Fatalf("before the truncation: %d, %v", n, ok)
	}
	if err := f.Truncate(4096); err != nil {
		t.Fatal(err)
	}
	if n, ok := Copy(dst, p.Bytes()); n != 0 || ok {
		t.Errorf("reading what is gone: %d, %v, want 0, false", n, ok)
	}
	if n, ok := Copy(p.Bytes()[4096:], dst[:4096]); n != 0 || ok {
		t.Errorf("writing what is gone: %d, %v, want 0, false", n, ok)
	}
	if n, ok := Copy(dst, p.Bytes()[:4096]); n != 4096 || !ok {
		t.Errorf("reading what is left: %d, %v, want 4096, true", n, ok)
	}
}

func TestCopySurvivesProtectedMemory(t *testing.T) {
	p := alloc(t, 4096, PagesOptions{})
	if err := unix.Mprotect(p.raw, unix.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	if n, ok := Copy(make([]byte, 64), p.Bytes()); n != 0 || ok {
		t.Errorf("got %d, %v, want 0, false", n, ok)
	}
}
