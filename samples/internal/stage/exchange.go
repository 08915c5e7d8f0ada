package stage

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/mem"
)

// An Exchange is two files through which the samples of a pair hand over
// memory. As in DOCA's samples they take the place of a connection.
type Exchange struct {
	Descriptor string // holds the bytes of an export
	Buffer     string // holds the address and the number of bytes, in decimal, one a line
}

// Flags declares the names of the files.
func (x *Exchange) Flags(fs *flag.FlagSet) {
	dir := os.TempDir()
	fs.StringVar(&x.Descriptor, "descriptor-path", filepath.Join(dir, "export_desc.txt"), "the `file` for the export descriptor")
	fs.StringVar(&x.Descriptor, "d", x.Descriptor, "same as -descriptor-path")
	fs.StringVar(&x.Buffer, "buffer-path", filepath.Join(dir, "buffer_info.txt"), "the `file` for the address and the length")
	fs.StringVar(&x.Buffer, "b", x.Buffer, "same as -buffer-path")
}

// Write makes both files, for this user alone: the descriptor is a key to the
// memory. The descriptor comes last and at once, so whoever sees it can read
// both. Files of the names that exist already belong to somebody else.
func (x *Exchange) Write(blob []byte, addr mem.Addr, n int) (err error) {
	info := fmt.Sprintf("%d\n%d\n", addr, n)
	if err := create(x.Buffer, x.Buffer, []byte(info)); err != nil {
		return err
	}
	part := x.Descriptor + ".part"
	if err := create(part, x.Descriptor, blob); err != nil {
		return errors.Join(err, os.Remove(x.Buffer))
	}
	err = os.Link(part, x.Descriptor) // unlike a rename it replaces nothing
	if errors.Is(err, fs.ErrExist) {
		err = taken(x.Descriptor)
	}
	core.KeepFirst(&err, os.Remove(part))
	if err != nil {
		return errors.Join(err, os.Remove(x.Buffer))
	}
	return nil
}

// create makes one file; the name is what an error speaks of.
func create(path, name string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return taken(name)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	core.KeepFirst(&err, f.Close())
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func taken(name string) error {
	return fmt.Errorf("%s exists: another process uses it, or left it behind: remove it, or choose other files: %w", name, core.ErrAlreadyExists)
}

// Read waits until both files are there and returns what is in them.
func (x *Exchange) Read(ctx context.Context) (blob []byte, addr mem.Addr, n int, err error) {
	if err := until(ctx, func() bool { return exists(x.Descriptor) }); err != nil {
		return nil, 0, 0, err
	}
	if blob, err = os.ReadFile(x.Descriptor); err != nil {
		return nil, 0, 0, err
	}
	info, err := os.ReadFile(x.Buffer)
	if err != nil {
		return nil, 0, 0, err
	}
	fields := strings.Fields(string(info))
	if len(fields) != 2 {
		return nil, 0, 0, fmt.Errorf("%s has %d fields, want an address and a length: %w", x.Buffer, len(fields), core.ErrInvalidValue)
	}
	a, errA := strconv.ParseUint(fields[0], 10, 64)
	n, errN := strconv.Atoi(fields[1])
	if errA != nil || errN != nil || n < 0 {
		return nil, 0, 0, fmt.Errorf("%s has %q, want an address and a length: %w", x.Buffer, fields, core.ErrInvalidValue)
	}
	return blob, mem.Addr(a), n, nil
}

// Taken waits until the other process has removed the files: it is through.
func (x *Exchange) Taken(ctx context.Context) error {
	return until(ctx, func() bool { return !exists(x.Descriptor) })
}

// Remove removes both files, those that there are; the descriptor last.
func (x *Exchange) Remove() (err error) {
	for _, name := range []string{x.Buffer, x.Descriptor} {
		if e := os.Remove(name); !errors.Is(e, fs.ErrNotExist) {
			core.KeepFirst(&err, e)
		}
	}
	return err
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// until looks every few milliseconds: files cannot be waited for.
func until(ctx context.Context, done func() bool) error {
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-look.C:
		}
	}
	return nil
}
