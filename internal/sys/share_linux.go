package sys

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ImportPages maps the first n bytes of shareable memory that another process
// made with AllocPages and sealed. It takes the descriptor over, and closes it
// when it fails.
//
// The other process may be hostile, so ImportPages checks that the size is
// fixed for good and large enough: then no access can fault because somebody
// made the memory smaller. Memory for reading must also be sealed against
// writing by others than the one who made it. The error is ErrNotSealed,
// ErrTooSmall, or holds a unix.Errno; EPERM is one of the attempt to write
// memory that is sealed against it.
//
// Who made the memory can still give pages of it back to the system. They come
// back as zeroes. Huge pages may not: touching them is a fault if the system has
// no others. So copies must go through [Copy], and memory in huge pages, of which
// Huge tells, must not be touched in any other way.
func ImportPages(fd, n int, writable bool) (*Pages, error) {
	p := &Pages{fd: fd}
	if err := p.importFrom(n, writable); err != nil {
		_ = p.Free()
		return nil, err
	}
	return p, nil
}

func (p *Pages) importFrom(n int, writable bool) error {
	want, prot := unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL, unix.PROT_READ|unix.PROT_WRITE
	if !writable {
		want, prot = want|unix.F_SEAL_FUTURE_WRITE, unix.PROT_READ
	}
	seals, err := unix.FcntlInt(uintptr(p.fd), unix.F_GET_SEALS, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotSealed, os.NewSyscallError("fcntl", err))
	}
	if seals&want != want {
		return fmt.Errorf("seals %#x, want %#x: %w", seals, want, ErrNotSealed)
	}
	size, has, err := p.sizes(n)
	if err != nil {
		return err
	}
	if n < 1 || int64(size) > has {
		return fmt.Errorf("%d bytes of %d: %w", n, has, ErrTooSmall)
	}
	raw, err := unix.Mmap(p.fd, 0, size, prot, unix.MAP_SHARED)
	if err != nil {
		return failed("mmap", n, err)
	}
	p.raw, p.mem = raw, raw[:n:n]
	return nil
}

// sizes returns how many bytes have to be mapped for n of them, and how many
// there are. Huge pages can only be unmapped as a whole.
func (p *Pages) sizes(n int) (size int, has int64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(p.fd, &st); err != nil {
		return 0, 0, failed("fstat", n, err)
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(p.fd, &fs); err != nil {
		return 0, 0, failed("fstatfs", n, err)
	}
	page := os.Getpagesize()
	if int64(fs.Type) == unix.HUGETLBFS_MAGIC {
		page, p.huge = int(fs.Bsize), true
	}
	size, ok := roundUp(n, page)
	if !ok {
		return 0, 0, failed("mmap", n, unix.ENOMEM)
	}
	return size, st.Size, nil
}

// PeerUID returns the user whose process is at the other end of a Unix socket:
// who connected it, or who listened.
func PeerUID(c syscall.Conn) (int, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return -1, err
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return -1, err
	}
	if credErr != nil {
		return -1, os.NewSyscallError("getsockopt", credErr)
	}
	return int(cred.Uid), nil
}
