package perf

import (
	"os"

	"golang.org/x/sys/unix"
)

// unixPair makes two connected sockets.
func unixPair() (mine, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "unix socket"), os.NewFile(uintptr(fds[1]), "unix socket"), nil
}
