package sys

import (
	"bufio"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Durable reports whether what is written to b and then handed to [Sync] is
// still there after a loss of power: all of it is shared mappings of files, and
// the files are on something else than memory.
func Durable(b []byte) (bool, error) {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return false, err
	}
	defer f.Close()
	at, end := uint64(Addr(b)), uint64(Addr(b))+uint64(len(b))
	lines := bufio.NewScanner(f)
	for at < end && lines.Scan() {
		// 7f0000000000-7f0000001000 rw-s 00000000 08:01 1234   /path of the file
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		from, to, _ := strings.Cut(fields[0], "-")
		first, err1 := strconv.ParseUint(from, 16, 64)
		last, err2 := strconv.ParseUint(to, 16, 64)
		if err := errors.Join(err1, err2); err != nil {
			return false, err
		}
		if last <= at {
			continue
		}
		_, path, named := strings.Cut(lines.Text(), " /")
		if first > at || !named || !strings.HasSuffix(fields[1], "s") || !onDisk("/"+path) {
			return false, nil
		}
		at = last
	}
	return at >= end, lines.Err()
}

// onDisk reports whether a file is one that a loss of power leaves. Files that
// have no name any more are not: nobody will find them.
func onDisk(path string) bool {
	var s unix.Statfs_t
	if unix.Statfs(path, &s) != nil {
		return false
	}
	switch uint32(s.Type) {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC, unix.HUGETLBFS_MAGIC:
		return false
	}
	return true
}

// Sync writes out what b holds of files, and returns when it is safe. It waits
// for the disk.
func Sync(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	at := Addr(b)
	page := at &^ uintptr(os.Getpagesize()-1)
	_, _, no := unix.Syscall(unix.SYS_MSYNC, page, at-page+uintptr(len(b)), unix.MS_SYNC)
	runtime.KeepAlive(b)
	if no != 0 {
		return failed("msync", len(b), no)
	}
	return nil
}
