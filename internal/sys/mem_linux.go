package sys

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// hugePage is the page size asked for: the one that amd64, arm64 with 4 KiB
// pages and most others have.
const hugePage = 2 << 20

// AllocPages takes n bytes of zeroed, page-aligned memory.
//
// Memory that is returned is there: shareable memory and huge pages are
// reserved before they are handed out, so that touching them cannot fault.
// The error holds a unix.Errno: ENOMEM or ENOSPC when there is not enough.
func AllocPages(n int, o PagesOptions) (*Pages, error) {
	if n <= 0 {
		return nil, failed("mmap", n, unix.EINVAL)
	}
	if o.Huge {
		if p, err := allocHuge(n, o.Shareable); err == nil {
			return p, nil
		}
	}
	size, ok := roundUp(n, os.Getpagesize())
	if !ok {
		return nil, failed("mmap", n, unix.ENOMEM)
	}
	p, err := mapNew(n, size, o.Shareable, 0, 0)
	if err == nil && o.Huge {
		// Advice only: a kernel without it just keeps small pages.
		_ = unix.Madvise(p.raw, unix.MADV_HUGEPAGE)
	}
	return p, err
}

// allocHuge takes real huge pages, or fails.
func allocHuge(n int, shareable bool) (*Pages, error) {
	size, ok := roundUp(n, hugePage)
	if !ok {
		return nil, failed("mmap", n, unix.ENOMEM)
	}
	p, err := mapNew(n, size, shareable, unix.MFD_HUGETLB|unix.MFD_HUGE_2MB, unix.MAP_HUGETLB|unix.MAP_HUGE_2MB)
	if err != nil {
		return nil, err
	}
	// A control group can refuse huge pages that were reserved, with SIGBUS at
	// the first touch. Touching them here gives an error number instead.
	// EINVAL is a kernel before 5.14, which cannot be asked.
	if err := unix.Madvise(p.raw, unix.MADV_POPULATE_WRITE); err != nil && err != unix.EINVAL {
		_ = p.Free()
		return nil, failed("madvise", n, err)
	}
	p.huge = true
	return p, nil
}

// mapNew maps size bytes of new memory and hands out the first n.
func mapNew(n, size int, shareable bool, memfdFlags, mapFlags int) (*Pages, error) {
	p := &Pages{fd: -1}
	flags := unix.MAP_PRIVATE | unix.MAP_ANON | mapFlags
	if shareable {
		fd, err := memfd(size, memfdFlags)
		if err != nil {
			return nil, err
		}
		p.fd, flags = fd, unix.MAP_SHARED
	}
	raw, err := unix.Mmap(p.fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		_ = p.Free()
		return nil, failed("mmap", n, err)
	}
	p.raw, p.mem = raw, raw[:n:n]
	return p, nil
}

// memfd makes a descriptor with size bytes behind it, whose size is fixed:
// nobody can pull the memory away under a mapping.
func memfd(size, flags int) (int, error) {
	fd, err := unix.MemfdCreate("gantry", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING|flags)
	if err != nil {
		return -1, failed("memfd_create", size, err)
	}
	call := "ftruncate"
	if err = unix.Ftruncate(fd, int64(size)); err == nil {
		call, err = "fallocate", fallocate(fd, size)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW)
		call = "fcntl"
	}
	if err != nil {
		_ = unix.Close(fd)
		return -1, failed(call, size, err)
	}
	return fd, nil
}

// fallocate reserves the memory. A signal, such as that of the profiler, makes
// the kernel give up and undo; so try again.
func fallocate(fd, size int) error {
	for {
		if err := unix.Fallocate(fd, 0, 0, int64(size)); err != unix.EINTR {
			return err
		}
	}
}

// Seal fixes for good what holders of the descriptor may do, and must come
// before the descriptor leaves the process. With readOnly nobody can map the
// memory for writing any more; this process keeps its own writable mapping.
//
// It is not part of AllocPages because only the one who shares the memory
// knows which of the two it must be, and a sealed set of seals is final.
func (p *Pages) Seal(readOnly bool) error {
	seals := unix.F_SEAL_SEAL
	if readOnly {
		seals |= unix.F_SEAL_FUTURE_WRITE
	}
	if _, err := unix.FcntlInt(uintptr(p.fd), unix.F_ADD_SEALS, seals); err != nil {
		return failed("fcntl", len(p.mem), err)
	}
	return nil
}

// MapFile maps n bytes of f from offset off on, which need not be aligned.
// The mapping shares the file's pages, and outlives f.
//
// The caller has checked that the bytes are there now. They may go away later
// when someone truncates the file, so copies must go through [Copy].
func MapFile(f *os.File, off int64, n int, writable bool) (*Pages, error) {
	inPage := int(off % int64(os.Getpagesize()))
	size, ok := roundUp(n, os.Getpagesize())
	if off < 0 || n <= 0 || !ok {
		return nil, failed("mmap", n, unix.EINVAL)
	}
	size = n + inPage // roundUp left room for one page more
	prot := unix.PROT_READ
	if writable {
		prot |= unix.PROT_WRITE
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var raw []byte
	var mapErr error
	if err := conn.Control(func(fd uintptr) {
		raw, mapErr = unix.Mmap(int(fd), off-int64(inPage), size, prot, unix.MAP_SHARED)
	}); err != nil {
		return nil, err
	}
	if mapErr != nil {
		return nil, failed("mmap", n, mapErr)
	}
	return &Pages{mem: raw[inPage : inPage+n : inPage+n], raw: raw, fd: -1}, nil
}

// Free unmaps the memory and closes its descriptor. Freeing twice is harmless.
func (p *Pages) Free() error {
	var unmapErr, closeErr error
	if p.raw != nil {
		if err := unix.Munmap(p.raw); err != nil {
			unmapErr = failed("munmap", len(p.mem), err)
		}
	}
	if p.fd >= 0 {
		closeErr = os.NewSyscallError("close", unix.Close(p.fd))
	}
	p.mem, p.raw, p.fd = nil, nil, -1
	return errors.Join(unmapErr, closeErr)
}
