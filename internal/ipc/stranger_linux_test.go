package ipc

import (
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAnotherUserIsTurnedAway needs root, who can become somebody else, on one
// thread, which ends with its goroutine.
func TestAnotherUserIsTurnedAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can be another user")
	}
	dir := runtimeDir(t)
	l := listen(t, "n")
	path := l.dir.address(l.file + socketSuffix)
	for p, mode := range map[string]os.FileMode{dir: 0o711, dir + "/..": 0o711, dir + "/../..": 0o711, path: 0o777} {
		must(t, os.Chmod(p, mode))
	}
	connected := make(chan error)
	var stranger int
	go func() {
		runtime.LockOSThread()
		_, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 12345, ^uintptr(0))
		if errno != 0 {
			connected <- errno
			return
		}
		var err error
		stranger, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(stranger, &unix.SockaddrUnix{Name: path})
		}
		connected <- err
	}()
	must(t, <-connected)
	defer unix.Close(stranger)
	must(t, os.Chmod(dir, 0o700))
	friend, err := Dial(t.Context(), "n")
	must(t, err)
	defer friend.Close()
	c, err := l.Accept()
	must(t, err)
	defer c.Close()
	must(t, unix.SetNonblock(stranger, true)) // it is closed by now, or never
	if n, err := unix.Read(stranger, make([]byte, 1)); n != 0 || err != nil {
		t.Errorf("the stranger reads %d bytes: %v, want the end", n, err)
	}
	must(t, friend.Send([]byte("m")))
	if n, _, err := c.Recv(make([]byte, 1)); n != 1 || err != nil {
		t.Errorf("the connection is not the friend's: %v", err)
	}
	must(t, os.Chown(dir, 12345, -1))
	defer os.Chown(dir, 0, -1)
	if _, err := Dial(t.Context(), "n"); err == nil {
		t.Error("a directory of another user was accepted")
	}
}
