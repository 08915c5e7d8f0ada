package kit

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
)

// An archive writes what a kernel unpacks into its first file system: cpio in
// the format newc. Numbers are eight hexadecimal digits, and everything is
// padded to four bytes:
//
//	070701 inode mode uid gid links time size device(4) name-length check name data
type archive struct {
	w     *bufio.Writer
	inode int
	dirs  map[string]bool
	err   error
}

func newArchive(w io.Writer) *archive {
	return &archive{w: bufio.NewWriterSize(w, 1<<20), dirs: map[string]bool{".": true, "/": true}}
}

const (
	cpioDir  = 0o040000
	cpioFile = 0o100000
)

// entry writes one header, and data behind it.
func (a *archive) entry(name string, mode int, data []byte) {
	if a.err != nil {
		return
	}
	a.inode++
	head := fmt.Sprintf("070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
		a.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name)+1, 0, name)
	a.put([]byte(head))
	a.put(data)
}

func (a *archive) put(b []byte) {
	var zero [3]byte
	if _, err := a.w.Write(b); err != nil {
		a.err = err
	} else if _, err = a.w.Write(zero[:-len(b)&3]); err != nil {
		a.err = err
	}
}

// dir makes a folder, and those above it.
func (a *archive) dir(name string) {
	if !a.dirs[name] {
		a.dir(path.Dir(name))
		a.dirs[name] = true
		a.entry(name, cpioDir|0o755, nil)
	}
}

// file makes a file. Names have no slash in front.
func (a *archive) file(name string, data []byte) {
	a.dir(path.Dir(name))
	a.entry(name, cpioFile|0o755, data)
}

// copy makes a file of one of this machine.
func (a *archive) copy(name, from string) {
	b, err := os.ReadFile(from)
	if err != nil && a.err == nil {
		a.err = err
	}
	a.file(name, b)
}

// close ends the archive.
func (a *archive) close() error {
	a.inode = -1
	a.entry("TRAILER!!!", 0, nil)
	if a.err != nil {
		return a.err
	}
	return a.w.Flush()
}
