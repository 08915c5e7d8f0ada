package ipc

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pipes returns n descriptors of files, which are closed at the end.
func pipes(t testing.TB, n int) []int {
	t.Helper()
	var fds []int
	for len(fds) < n {
		var p [2]int
		must(t, unix.Pipe2(p[:], unix.O_CLOEXEC))
		fds = append(fds, p[:]...)
	}
	t.Cleanup(func() {
		for _, fd := range fds {
			_ = unix.Close(fd)
		}
	})
	return fds[:n]
}

func TestDescriptorsArePassed(t *testing.T) {
	a, b := pair(t)
	sent := pipes(t, MaxFDs)
	must(t, a.Send([]byte("m"), sent...))
	p := make([]byte, 8)
	_, fds, err := b.Recv(p)
	if err != nil || len(fds) != MaxFDs {
		t.Fatalf("got %v: %v", fds, err)
	}
	for i, fd := range fds {
		var x, y unix.Stat_t
		must(t, unix.Fstat(fd, &x))
		must(t, unix.Fstat(sent[i], &y))
		if x.Ino != y.Ino {
			t.Errorf("descriptor %d is of another file", i)
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("descriptor %d would be inherited: %#x, %v", i, flags, err)
		}
		must(t, unix.Close(fd))
	}
}

// TestWhatDoesNotFitIsClosed relies on the count of open descriptors that pair
// compares at the end.
func TestWhatDoesNotFitIsClosed(t *testing.T) {
	a, b := pair(t)
	sent := pipes(t, MaxFDs+1)
	p := make([]byte, 8)
	for _, tt := range []struct {
		name string
		n    int
		fds  []int
	}{
		{"too many descriptors", 1, sent},
		{"too many bytes, and descriptors", 9, sent[:MaxFDs]},
		{"too many of both", 9, sent},
	} {
		_, _, err := a.u.WriteMsgUnix(make([]byte, tt.n), unix.UnixRights(tt.fds...), nil)
		must(t, err)
		n, fds, err := b.Recv(p)
		if n != 0 || fds != nil || !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %d bytes, %v: %v", tt.name, n, fds, err)
		}
	}
	must(t, a.Send([]byte("after")))
	if n, _, err := b.Recv(p); string(p[:n]) != "after" || err != nil {
		t.Errorf("after that: %q, %v", p[:n], err)
	}
}

func TestAnEmptyMessageIsTheEnd(t *testing.T) {
	a, b := pair(t)
	_, err := a.u.Write(nil)
	must(t, err)
	if _, fds, err := b.Recv(make([]byte, 8)); fds != nil || err != io.EOF {
		t.Errorf("got %v, %v", fds, err)
	}
}

func TestSendChecksItsLimits(t *testing.T) {
	a, _ := pair(t)
	for what, err := range map[string]error{
		"nothing":           a.Send(nil),
		"too many bytes":    a.Send(make([]byte, MaxMessage+1)),
		"a descriptor more": a.Send([]byte("m"), pipes(t, MaxFDs+1)...),
	} {
		if !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %v, want %v", what, err, ErrMessage)
		}
	}
	if err := a.Send([]byte("m"), 1<<20); !errors.Is(err, syscall.EBADF) {
		t.Errorf("a descriptor that is not open: %v", err)
	}
}

func TestCloseDeliversWhatWasSent(t *testing.T) {
	a, b := pair(t)
	must(t, b.Send([]byte("never read"))) // makes the close of a a reset
	must(t, a.Send([]byte("1")))
	must(t, a.Send([]byte("2"), pipes(t, 1)...))
	must(t, a.Close())
	p := make([]byte, 8)
	for _, want := range []string{"1", "2"} {
		n, fds, err := b.Recv(p)
		if string(p[:n]) != want || err != nil {
			t.Errorf("got %q: %v, want %q", p[:n], err, want)
		}
		for _, fd := range fds {
			must(t, unix.Close(fd))
		}
	}
	for range 2 {
		if _, _, err := b.Recv(p); err != io.EOF {
			t.Errorf("got %v, want %v", err, io.EOF)
		}
	}
	if err := b.Send([]byte("m")); !errors.Is(err, ErrGone) {
		t.Errorf("send: %v, want %v", err, ErrGone)
	}
}

func TestCloseEndsARecv(t *testing.T) {
	_, b := pair(t)
	ended := make(chan error)
	go func() {
		_, _, err := b.Recv(make([]byte, 8))
		ended <- err
	}()
	must(t, b.Close())
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}

func TestCloseEndsAnAccept(t *testing.T) {
	runtimeDir(t)
	l := listen(t, "n")
	ended := make(chan error)
	go func() {
		_, err := l.Accept()
		ended <- err
	}()
	must(t, l.Close())
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want %v", err, net.ErrClosed)
	}
}

func TestADeadlineEndsBoth(t *testing.T) {
	a, _ := pair(t)
	must(t, a.SetDeadline(time.Now().Add(5*time.Millisecond)))
	if _, _, err := a.Recv(make([]byte, 8)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("receive: %v", err)
	}
	var err error
	for range 1000 { // until nothing more fits
		if err = a.Send(make([]byte, MaxMessage)); err != nil {
			break
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("send: %v", err)
	}
}

func TestADescriptorSetThatIsLostIsClosed(t *testing.T) {
	a, b := pair(t)
	must(t, a.Send([]byte("m"), pipes(t, 3)...))
	must(t, b.Close()) // the kernel closes what nobody received
}

func TestAnAttendantOfTheUserIsToldApart(t *testing.T) {
	a, _ := pair(t)
	if !ofThisUser(a.u) {
		t.Error("a process of this user counts as a stranger")
	}
	// A socket that is not connected has a peer of nobody.
	s, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Net: "unixgram"})
	must(t, err)
	defer s.Close()
	if ofThisUser(s) {
		t.Error("nobody counts as this user")
	}
}

func TestTrySendNeverWaits(t *testing.T) {
	a, b := pair(t)
	must(t, a.TrySend([]byte("m"), pipes(t, 1)...))
	p := make([]byte, 8)
	n, fds, err := b.Recv(p)
	if string(p[:n]) != "m" || len(fds) != 1 || err != nil {
		t.Fatalf("got %q, %v: %v", p[:n], fds, err)
	}
	must(t, unix.Close(fds[0]))
	if err := a.TrySend(nil); !errors.Is(err, ErrMessage) {
		t.Errorf("nothing: %v, want %v", err, ErrMessage)
	}
	for err = nil; err == nil; {
		err = a.TrySend(make([]byte, MaxMessage))
	}
	if !errors.Is(err, ErrFull) {
		t.Errorf("when nothing more fits: %v, want %v", err, ErrFull)
	}
	must(t, b.Close())
	if err := a.TrySend([]byte("m")); !errors.Is(err, ErrGone) {
		t.Errorf("to nobody: %v, want %v", err, ErrGone)
	}
}
