package regular

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// A New is a file that comes to be: written under another name beside the one
// that it will have, so that nobody ever sees half of it.
type New struct {
	*os.File             // the new file; nil when it is renamed or removed
	Path     string      // the name that it will have, links followed
	was      fs.FileInfo // the file that it replaces, or nil
}

// Create finds out which file is meant by path and whether it may be written,
// and makes the new file beside it, with the permissions perm less the umask; a
// file that replaces another gets those of the old one. The file from is one
// that must not be replaced; nil for none. Commit or Discard it in the end.
func Create(path string, perm fs.FileMode, from fs.FileInfo) (*New, error) {
	n := &New{Path: path}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = n.isNew()
	case err == nil:
		err = n.replaces(info, from)
	}
	if err == nil {
		err = n.create(perm.Perm())
	}
	if err != nil {
		return nil, err
	}
	return n, nil
}

// isNew checks a name that no file has.
func (n *New) isNew() error {
	if os.IsPathSeparator(n.Path[max(0, len(n.Path)-1)]) {
		return fmt.Errorf("there is no directory %s: make it first", n.Path)
	}
	if to, err := os.Readlink(n.Path); err == nil {
		return fmt.Errorf("%s is a symbolic link to %s, which does not exist: remove the link or make the file", n.Path, to)
	}
	if _, err := os.Stat(filepath.Dir(n.Path)); err != nil {
		return fmt.Errorf("its directory: %w", err)
	}
	return nil
}

// replaces checks a file that is there: it must be one that may be written,
// and another one than the source, whatever the names are.
func (n *New) replaces(info, from fs.FileInfo) (err error) {
	switch {
	case from != nil && os.SameFile(info, from):
		return fmt.Errorf("%s is the same file as the source", n.Path)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is %s: only a regular file can be replaced", n.Path, kind(info))
	}
	// The rename would go through without the right to write to the file.
	f, err := os.OpenFile(n.Path, os.O_WRONLY, 0)
	if err == nil {
		err = f.Close()
	}
	if errors.Is(err, fs.ErrPermission) {
		return err
	}
	n.was = info
	n.Path, err = filepath.EvalSymlinks(n.Path)
	return err
}

// create makes the new file, which is nobody else's business until it replaces
// a file with permissions of its own.
func (n *New) create(perm fs.FileMode) (err error) {
	if n.was != nil {
		perm = 0o600
	}
	dir := filepath.Dir(n.Path)
	for range 100 {
		name := filepath.Join(dir, fmt.Sprintf(".gantry-copy-%016x", rand.Uint64()))
		n.File, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("a new file is written beside it first, and %s does not take one: %w", dir, err)
	}
	return nil
}

// Commit gives the new file its name. After an error it is removed.
func (n *New) Commit() error {
	f := n.File
	if n.was != nil {
		if err := f.Chmod(n.was.Mode().Perm()); err != nil {
			return errors.Join(err, n.Discard())
		}
	}
	n.File = nil
	err := f.Close() // some file systems find out here that there is no room
	if err == nil {
		err = os.Rename(f.Name(), n.Path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}

// Discard removes the new file, if it has not been committed.
func (n *New) Discard() error {
	if n.File == nil {
		return nil
	}
	f := n.File
	n.File = nil
	return errors.Join(f.Close(), os.Remove(f.Name()))
}
