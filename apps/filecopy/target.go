package filecopy

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// A target is the file that comes to be: written under another name beside the
// one that it will have, so that nobody ever sees half of it.
type target struct {
	path string      // the name that it will have
	was  fs.FileInfo // the file that it replaces, or nil
	file *os.File    // the new file; nil when it is renamed or removed
}

// openTarget finds out which file is meant by dst, and whether it may be
// written, and makes the new file beside it.
func openTarget(src, dst string, from fs.FileInfo) (*target, error) {
	if info, err := os.Stat(dst); err == nil && info.IsDir() {
		dst = filepath.Join(dst, filepath.Base(src))
	}
	t := &target{path: dst}
	info, err := os.Stat(dst)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = t.isNew()
	case err == nil:
		err = t.replaces(info, from)
	}
	if err == nil {
		err = t.create(from.Mode().Perm())
	}
	if err != nil {
		return nil, fmt.Errorf("the target: %w", err)
	}
	return t, nil
}

// isNew checks a name that no file has.
func (t *target) isNew() error {
	if os.IsPathSeparator(t.path[max(0, len(t.path)-1)]) {
		return fmt.Errorf("there is no directory %s: make it first", t.path)
	}
	if to, err := os.Readlink(t.path); err == nil {
		return fmt.Errorf("%s is a symbolic link to %s, which does not exist: remove the link or make the file", t.path, to)
	}
	if _, err := os.Stat(filepath.Dir(t.path)); err != nil {
		return fmt.Errorf("its directory: %w", err)
	}
	return nil
}

// replaces checks a file that is there: it must be one that may be written,
// and another one than the source, whatever the names are.
func (t *target) replaces(info, from fs.FileInfo) (err error) {
	switch {
	case os.SameFile(info, from):
		return fmt.Errorf("%s is the same file as the source", t.path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is %s: only a regular file can be replaced", t.path, kind(info))
	}
	// The rename would go through without the right to write to the file.
	f, err := os.OpenFile(t.path, os.O_WRONLY, 0)
	if err == nil {
		err = f.Close()
	}
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	t.was = info
	t.path, err = filepath.EvalSymlinks(t.path)
	return err
}

// create makes the new file. Its permissions are those of the source, less the
// umask; or nobody else's business until it replaces a file with others.
func (t *target) create(perm fs.FileMode) (err error) {
	if t.was != nil {
		perm = 0o600
	}
	dir := filepath.Dir(t.path)
	for range 100 {
		name := filepath.Join(dir, fmt.Sprintf(".gantry-copy-%016x", rand.Uint64()))
		t.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("a new file is written beside it first, and %s does not take one: %w", dir, err)
	}
	return nil
}

// commit gives the new file its name.
func (t *target) commit() error {
	f := t.file
	if t.was != nil {
		if err := f.Chmod(t.was.Mode().Perm()); err != nil {
			return fmt.Errorf("the target: %w", err)
		}
	}
	t.file = nil
	err := f.Close() // some file systems find out here that there is no room
	if err == nil {
		err = os.Rename(f.Name(), t.path)
	}
	if err != nil {
		return fmt.Errorf("the target: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// discard removes the new file, if it has not become the target.
func (t *target) discard() error {
	if t.file == nil {
		return nil
	}
	return errors.Join(t.file.Close(), os.Remove(t.file.Name()))
}
