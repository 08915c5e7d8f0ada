package filecopy

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// A refusal is a copy that must fail: the name of the source and the target
// below a fresh directory, which has the file "src" and the old target "old".
type refusal struct {
	name     string
	src, dst string
	before   func(t *testing.T, dir string)
	says     string
	is       error // or nil
}

var refusals = []refusal{
	{name: "missing source", src: "none", dst: "old", says: "no such file", is: fs.ErrNotExist},
	{name: "empty names", src: "", dst: "", says: "the source"},
	{name: "source is a directory", src: ".", dst: "old", says: "is a directory: only a regular file"},
	{name: "source below a file", src: "src/x", dst: "old", says: "not a directory"},
	{name: "source is a socket", src: "socket", dst: "old", says: "is a socket", before: socket},
	{name: "source link to nothing", src: "link", dst: "old", says: "no such file", before: link("link", "none")},
	{name: "the same file", src: "src", dst: "src", says: "same file"},
	{name: "the same file by another path", src: "src", dst: "./sub/../src", says: "same file", before: sub},
	{name: "the same file by a symbolic link", src: "src", dst: "link", says: "same file", before: link("link", "src")},
	{name: "a link to the target as source", src: "link", dst: "old", says: "same file", before: link("link", "old")},
	{name: "the same file by a hard link", src: "src", dst: "hard", says: "same file", before: hardLink},
	{name: "the same file by its directory", src: "src", dst: ".", says: "same file"},
	{name: "target is below a file", src: "src", dst: "old/x", says: "not a directory"},
	{name: "target directory is missing", src: "src", dst: "none/to", says: "its directory", is: fs.ErrNotExist},
	{name: "target directory with a slash is missing", src: "src", dst: "none/", says: "no directory"},
	{name: "a directory has the name in the target directory", src: "src", dst: "sub", says: "sub/src is a directory",
		before: func(t *testing.T, dir string) { try(t, os.MkdirAll(filepath.Join(dir, "sub", "src"), 0o755)) }},
	{name: "target link to nothing", src: "src", dst: "link", says: "symbolic link to none", before: link("link", "none")},
	{name: "target links in a circle", src: "src", dst: "a", says: "too many",
		before: func(t *testing.T, dir string) { link("a", "b")(t, dir); link("b", "a")(t, dir) }},
	{name: "target is a socket", src: "src", dst: "socket", says: "is a socket", before: socket},
}

func try(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func link(name, to string) func(*testing.T, string) {
	return func(t *testing.T, dir string) { try(t, os.Symlink(to, filepath.Join(dir, name))) }
}

func hardLink(t *testing.T, dir string) {
	try(t, os.Link(filepath.Join(dir, "src"), filepath.Join(dir, "hard")))
}

func sub(t *testing.T, dir string) { try(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755)) }

func socket(t *testing.T, dir string) {
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	try(t, err)
	t.Cleanup(func() { _ = l.Close() })
}

func TestRefusesWhatCannotBeCopied(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("links, sockets and the texts of errors are others here")
	}
	for _, c := range refusals {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) { c.check(t) })
	}
}

// check copies, and looks whether anything has changed.
func (c refusal) check(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	src := file(t, dir, "src", pattern(5000, 1))
	old := file(t, dir, "old", []byte("the old target"))
	if c.before != nil {
		c.before(t, dir)
	}
	names := entries(t, dir)
	_, err := Copy(t.Context(), c.src, c.dst, Options{Chunk: 1000, Verify: true})
	wantError(t, err, c.says)
	if c.is != nil && !errors.Is(err, c.is) {
		t.Errorf("%v does not match %v", err, c.is)
	}
	wantFile(t, src, pattern(5000, 1))
	wantFile(t, old, []byte("the old target"))
	if got := entries(t, dir); got != names {
		t.Errorf("the directory has %q, and had %q", got, names)
	}
}

// entries lists everything below dir.
func entries(t *testing.T, dir string) string {
	t.Helper()
	var all []string
	try(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		all = append(all, p)
		return err
	}))
	return strings.Join(all, " ")
}

func TestTargetDirectoryGetsTheName(t *testing.T) {
	dir := t.TempDir()
	try(t, os.Mkdir(filepath.Join(dir, "sub"), 0o755))
	src, want := file(t, dir, "src", pattern(5000, 1)), filepath.Join(dir, "sub", "src")
	for range 2 { // the second replaces the first
		if r := mustCopy(t, src, filepath.Join(dir, "sub")+"/", Options{}); r.Target != want {
			t.Errorf("copied to %s, want %s", r.Target, want)
		}
		wantFile(t, want, pattern(5000, 1))
		wantOnly(t, filepath.Join(dir, "sub"), "src")
	}
}

// The file that a link points to is replaced, where it is, and the link stays.
func TestTargetLinkIsFollowed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links need rights here")
	}
	dir := t.TempDir()
	sub(t, dir)
	src, real := file(t, dir, "src", pattern(5000, 1)), file(t, filepath.Join(dir, "sub"), "real", nil)
	link("link", "sub/real")(t, dir)
	link("link2", "link")(t, dir)
	mustCopy(t, src, filepath.Join(dir, "link2"), Options{})
	wantFile(t, real, pattern(5000, 1))
	wantOnly(t, dir, "link", "link2", "src", "sub")
	wantOnly(t, filepath.Join(dir, "sub"), "real")
	if to, err := os.Readlink(filepath.Join(dir, "link2")); err != nil || to != "link" {
		t.Errorf("the link is %q, %v, want link", to, err)
	}
}

// A ctx that ends stops the copy or its verification, and nothing is left.
func TestCancelCleansUp(t *testing.T) {
	for _, c := range []struct {
		name string
		at   int // calls of Progress before the end; 0 is before the start
	}{{"at once", 0}, {"in the copy", 3}, {"at its last chunk", 10}, {"in the verification", 11}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			src := file(t, dir, "src", pattern(10<<20, 1))
			old := file(t, dir, "old", []byte("the old target"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			calls := 0
			if c.at == 0 {
				cancel()
			}
			o := Options{Tasks: 2, Verify: true, Progress: func(int64, int64) {
				if calls++; calls == c.at {
					cancel()
				}
			}}
			if _, err := Copy(ctx, src, old, o); !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want a canceled context", err)
			}
			wantFile(t, old, []byte("the old target"))
			wantOnly(t, dir, "old", "src")
			wantReleased(t)
		})
	}
}

func TestVerifyNamesTheFirstDifference(t *testing.T) {
	dir := t.TempDir()
	src := file(t, dir, "src", pattern(3<<20, 1))
	old := file(t, dir, "old", []byte("the old target"))
	o := Options{Chunk: 1 << 20, Verify: true, Progress: func(done, total int64) {
		if done == total { // everything is written, and nothing compared
			f, err := os.OpenFile(src, os.O_WRONLY, 0)
			try(t, err)
			_, err = f.WriteAt([]byte("changed"), 2<<20+77)
			try(t, errors.Join(err, f.Close()))
		}
	}}
	_, err := Copy(t.Context(), src, old, o)
	wantError(t, err, "byte 2097229 of the copy")
	wantFile(t, old, []byte("the old target"))
	wantOnly(t, dir, "old", "src")
}
