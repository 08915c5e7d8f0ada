package mem

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/sys"
)

// tempFile returns an open file of n bytes, where byte i is byte(i).
func tempFile(t *testing.T, n, flag int) *os.File {
	t.Helper()
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	name := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(name, b, 0o600))
	f, err := os.OpenFile(name, flag, 0)
	must(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func TestMapFileCodes(t *testing.T) {
	f := tempFile(t, 100, os.O_RDWR)
	readOnly, writeOnly := tempFile(t, 100, os.O_RDONLY), tempFile(t, 100, os.O_WRONLY)
	empty, closed := tempFile(t, 0, os.O_RDWR), tempFile(t, 100, os.O_RDWR)
	closed.Close()
	dir, err := os.Open(t.TempDir())
	must(t, err)
	defer dir.Close()
	pipe, _, err := os.Pipe()
	must(t, err)
	mapFile := func(f *os.File, off int64, n int, writable bool) error {
		return emptyMap(t).MapFile(f, off, n, writable)
	}
	writer := emptyMap(t)
	must(t, writer.SetAccess(LocalReadWrite))
	checkCodes(t, []codeTest{
		{"nil file", mapFile(nil, 0, 1, false), core.ErrInvalidValue},
		{"closed file", mapFile(closed, 0, 1, false), core.ErrInvalidValue},
		{"directory", mapFile(dir, 0, 1, false), core.ErrInvalidValue},
		{"pipe", mapFile(pipe, 0, 1, false), core.ErrInvalidValue},
		{"empty file", mapFile(empty, 0, 1, true), core.ErrInvalidValue},
		{"no bytes", mapFile(f, 0, 0, true), core.ErrInvalidValue},
		{"negative offset", mapFile(f, -1, 1, true), core.ErrInvalidValue},
		{"offset at the end", mapFile(f, 100, 1, true), core.ErrInvalidValue},
		{"offset behind the end", mapFile(f, 101, 1, true), core.ErrInvalidValue},
		{"one byte too many", mapFile(f, 1, 100, true), core.ErrInvalidValue},
		{"all bytes", mapFile(f, 1, 99, true), core.Success},
		{"write to a read-only file", mapFile(readOnly, 0, 100, true), core.ErrNotPermitted},
		{"read a read-only file", mapFile(readOnly, 0, 100, false), core.Success},
		{"read a write-only file", mapFile(writeOnly, 0, 100, false), core.ErrNotPermitted},
		{"read-only with a right to write", writer.MapFile(f, 0, 100, false), core.ErrNotPermitted},
		{"map twice", newMap(t, 1).MapFile(f, 0, 100, true), core.ErrNotPermitted},
		{"map while started", startedMap(t, 1).MapFile(f, 0, 100, true), core.ErrBadState},
	})
}

func TestReadOnlyFileRefusesRightsToWrite(t *testing.T) {
	m := emptyMap(t)
	must(t, m.MapFile(tempFile(t, 100, os.O_RDONLY), 0, 100, false))
	defer m.Destroy()
	if got := m.Access(); got != LocalReadOnly {
		t.Errorf("access %v, want %v", got, LocalReadOnly)
	}
	checkCodes(t, []codeTest{
		{"local", m.SetAccess(LocalReadWrite), core.ErrNotPermitted},
		{"RDMA", m.SetAccess(RDMAWrite), core.ErrNotPermitted},
		{"atomics", m.SetAccess(RDMAAtomic), core.ErrNotPermitted},
		{"PCI", m.SetAccess(PCIReadWrite), core.ErrNotPermitted},
		{"reading", m.SetAccess(RDMARead | PCIReadOnly), core.Success},
		{"start", m.Start(), core.Success},
	})
}

func TestMappedFileIsTheFileAndCanFault(t *testing.T) {
	f := tempFile(t, 3*4096, os.O_RDWR)
	m := emptyMap(t)
	must(t, m.MapFile(f, 5000, 7000, true))
	must(t, m.Start())
	if !m.Faulting() {
		t.Error("a mapped file is said not to fault")
	}
	b := take(t, startedInventory(t, 1), m, 100, 10)
	copy(b.Data(), "written")
	got := make([]byte, 10)
	if _, err := f.ReadAt(got, 5100); err != nil || !bytes.Equal(got[:7], []byte("written")) || got[9] != byte(5109%256) {
		t.Errorf("file has %q, %v", got, err)
	}
	must(t, f.Truncate(0))
	if _, ok := sys.Copy(got, b.Data()); ok {
		t.Error("copied from a file that is gone")
	}
	if _, err := b.Unref(); err != nil {
		t.Error(err)
	}
	must(t, m.Destroy())
}

func TestShareableMemoryIsAllocated(t *testing.T) {
	m := emptyMap(t)
	must(t, m.Allocate(100, AllocOptions{Shareable: true}))
	must(t, m.Start())
	if len(m.Bytes()) != 100 || m.Faulting() {
		t.Errorf("%d bytes, faulting %v", len(m.Bytes()), m.Faulting())
	}
	must(t, m.Destroy())
}
