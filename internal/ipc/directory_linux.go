package ipc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	socketSuffix = ".sock"
	lockSuffix   = ".lock"

	// maxSocketPath is what the address of a Unix socket has room for.
	maxSocketPath = 107
	// busyFor is how long to wait for others who change the directory. They
	// take microseconds, so it only matters when one of them is stopped.
	busyFor = 2 * time.Second
	// retryAfter is the pause between two tries of what may take a moment.
	retryAfter = time.Millisecond
)

// A directory is where the names of this user are. Files are opened relative
// to its descriptor, so nobody can put another directory in its place.
type directory struct {
	fd   int
	path string
}

// directoryPath says where the directory is, and which setting says so.
func directoryPath() (path, setBy string) {
	if p := os.Getenv("GANTRY_RUNTIME_DIR"); p != "" {
		return filepath.Clean(p), "GANTRY_RUNTIME_DIR"
	}
	if p := os.Getenv("XDG_RUNTIME_DIR"); p != "" {
		return filepath.Join(p, "gantry"), "XDG_RUNTIME_DIR"
	}
	return filepath.Join(os.TempDir(), fmt.Sprintf("gantry-%d", os.Geteuid())), "the directory for temporary files"
}

// Directory returns where names are, be it there or not.
func Directory() string {
	path, _ := directoryPath()
	return path
}

// openDirectory makes the directory if need be, and checks whose it is.
func openDirectory() (*directory, error) {
	path, setBy := directoryPath()
	d, err := openDirectoryAt(path)
	if err != nil {
		return nil, fmt.Errorf("directory %s (by %s; GANTRY_RUNTIME_DIR chooses another): %w", path, setBy, err)
	}
	return d, nil
}

func openDirectoryAt(path string) (*directory, error) {
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("it is no directory, or a symbolic link to one: %w", os.ErrPermission)
	}
	if err != nil {
		return nil, os.NewSyscallError("open", err)
	}
	if err := private(fd); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return &directory{fd: fd, path: path}, nil
}

// private checks that only this user can do anything in the directory.
func private(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return os.NewSyscallError("fstat", err)
	}
	switch uid := os.Geteuid(); {
	case int(st.Uid) != uid:
		return fmt.Errorf("it belongs to user %d and not to user %d: %w", st.Uid, uid, os.ErrPermission)
	case st.Mode&0o077 != 0:
		return fmt.Errorf("others have access (mode %#o, want 0700): %w", st.Mode&0o777, os.ErrPermission)
	}
	return nil
}

func (d *directory) close() { _ = unix.Close(d.fd) }

// fileName is what the files of a name are called: names of any length and
// with any characters have one of the same short length.
func fileName(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:16])
}

// address is the address of a socket in the directory. A path that is too long
// for one goes by way of the open descriptor.
func (d *directory) address(file string) string {
	if p := filepath.Join(d.path, file); len(p) <= maxSocketPath {
		return p
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.fd, file)
}

// lock keeps others from adding and removing names until unlock. The kernel
// unlocks for who dies.
func (d *directory) lock() error {
	ctx, cancel := context.WithTimeout(context.Background(), busyFor)
	defer cancel()
	for {
		err := flock(d.fd)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return os.NewSyscallError("flock", err)
		}
		if pause(ctx) != nil {
			return fmt.Errorf("directory %s: another process has it locked for %v; is one stopped? %w", d.path, busyFor, err)
		}
	}
}

func (d *directory) unlock() { _ = unix.Flock(d.fd, unix.LOCK_UN) }

// pause waits for retryAfter, or until ctx ends.
func pause(ctx context.Context) error {
	t := time.NewTimer(retryAfter)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// flock takes the lock of an open file if it is free.
func flock(fd int) error {
	for {
		if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != unix.EINTR {
			return err
		}
	}
}

// take takes the lock of a name. It fails with EWOULDBLOCK when another process
// has it.
func (d *directory) take(file string) (fd int, err error) {
	flags := unix.O_RDWR | unix.O_CREAT | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err = unix.Openat(d.fd, file+lockSuffix, flags, 0o600)
	if err != nil {
		return -1, os.NewSyscallError("openat", err)
	}
	if err := flock(fd); err != nil {
		_ = unix.Close(fd)
		return -1, os.NewSyscallError("flock", err)
	}
	return fd, nil
}

// remove removes the files of a name, the lock last.
func (d *directory) remove(file string) {
	_ = unix.Unlinkat(d.fd, file+socketSuffix, 0)
	_ = unix.Unlinkat(d.fd, file+lockSuffix, 0)
}

// sweep removes what dead processes left. The directory is locked: so a name
// whose lock is free has no owner, and nobody is just becoming it.
func (d *directory) sweep() {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return // what is left there is harmless
	}
	for _, e := range entries {
		file, isLock := strings.CutSuffix(e.Name(), lockSuffix)
		if !isLock || !e.Type().IsRegular() {
			continue
		}
		if fd, err := d.take(file); err == nil {
			d.remove(file)
			_ = unix.Close(fd)
		}
	}
}
