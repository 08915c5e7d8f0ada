package sys

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// onDiskHere returns a mapped file of two pages in a directory that outlasts a
// loss of power, or skips the test.
func onDiskHere(t *testing.T, writable bool) (*Pages, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, make([]byte, 2*os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	if !onDisk(path) {
		t.Skipf("%s is on a file system in memory", path)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := MapFile(f, 0, 2*os.Getpagesize(), writable)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Free(); err != nil {
			t.Error(err)
		}
	})
	return p, path
}

func TestOnlyMappedFilesAreDurable(t *testing.T) {
	durable := func(b []byte) bool {
		t.Helper()
		ok, err := Durable(b)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	p, path := onDiskHere(t, true)
	b := p.Bytes()
	if !durable(b) || !durable(b[1:2]) || !durable(b[len(b)-1:]) {
		t.Error("got a mapped file that is not durable")
	}
	if durable(make([]byte, 100)) {
		t.Error("got heap memory that is durable")
	}
	shared, err := AllocPages(4096, PagesOptions{Shareable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer shared.Free()
	if durable(shared.Bytes()) {
		t.Error("got a file in memory that is durable")
	}
	private := mapPrivately(t, path)
	if durable(private) {
		t.Error("got a private mapping that is durable")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if durable(b) {
		t.Error("got a file without a name that is durable")
	}
}

func mapPrivately(t *testing.T, path string) []byte {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := unix.Mmap(int(f.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Munmap(b); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestSyncTakesAnyPieceOfAMapping(t *testing.T) {
	p, _ := onDiskHere(t, true)
	b := p.Bytes()
	for _, piece := range [][]byte{b, b[1:2], b[len(b)-1:], b[100:5000], b[:0], nil} {
		if err := Sync(piece); err != nil {
			t.Errorf("got error %v for %d bytes", err, len(piece))
		}
	}
}
