package ipc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

// TestMain lets a test start this binary as another process: one that takes the
// name in the variable, says so, and stays until it is killed.
func TestMain(m *testing.M) {
	name := os.Getenv("IPC_TEST_OWNER")
	if name == "" {
		goleak.VerifyTestMain(m)
		return
	}
	if _, err := Listen(name); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("listening")
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// runtimeDir gives the test a directory of its own, and checks at the end that
// nothing is open that was not before.
func runtimeDir(t testing.TB) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	t.Setenv("GANTRY_RUNTIME_DIR", dir)
	before := descriptorsOpen(t)
	t.Cleanup(func() {
		if after := descriptorsOpen(t); after != before {
			t.Errorf("%d descriptors are open, %d were before", after, before)
		}
	})
	return dir
}

func descriptorsOpen(t testing.TB) int {
	t.Helper()
	e, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(e)
}

func filesIn(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func listen(t testing.TB, name string) *Listener {
	t.Helper()
	l, err := Listen(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("close the listener: %v", err)
		}
	})
	return l
}

// pair returns the two ends of a connection.
func pair(t testing.TB) (a, b *Conn) {
	t.Helper()
	runtimeDir(t)
	l := listen(t, "pair")
	a, err := Dial(t.Context(), "pair")
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// owner starts a process that has the name.
func owner(t testing.TB, name string) *exec.Cmd {
	t.Helper()
	c := child.Command(t, os.Args[0])
	c.Env, c.Stderr = append(os.Environ(), "IPC_TEST_OWNER="+name), os.Stderr
	if _, err := c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, len("listening\n"))
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "listening\n" {
		t.Fatalf("the owner says %q: %v", line, err)
	}
	return c
}

func TestANameHasOneOwner(t *testing.T) {
	dir := runtimeDir(t)
	l := listen(t, "n")
	if _, err := Listen("n"); !errors.Is(err, ErrTaken) {
		t.Errorf("a second Listen: %v, want %v", err, ErrTaken)
	}
	listen(t, "another name")
	if n := len(filesIn(t, dir)); n != 4 {
		t.Errorf("%d files for two names, want 4", n)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	listen(t, "n")
}

func TestCloseLeavesNothing(t *testing.T) {
	dir := runtimeDir(t)
	l := listen(t, "n")
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if f := filesIn(t, dir); len(f) != 0 {
		t.Errorf("left: %v", f)
	}
}

func TestAKilledOwnerFreesItsName(t *testing.T) {
	dir := runtimeDir(t)
	c := owner(t, "n")
	if _, err := Listen("n"); !errors.Is(err, ErrTaken) {
		t.Fatalf("while the owner lives: %v, want %v", err, ErrTaken)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait()
	if f := filesIn(t, dir); len(f) != 2 {
		t.Errorf("the killed owner left %v, want a socket and a lock", f)
	}
	if _, err := Dial(t.Context(), "n"); !errors.Is(err, ErrNobody) {
		t.Errorf("dial a dead owner: %v, want %v", err, ErrNobody)
	}
	l := listen(t, "n")
	conn, err := Dial(t.Context(), "n")
	if err != nil {
		t.Fatalf("dial the next owner: %v", err)
	}
	conn.Close()
	l.Close()
	if f := filesIn(t, dir); len(f) != 0 {
		t.Errorf("left: %v", f)
	}
}

func TestTheNextListenSweepsOtherNames(t *testing.T) {
	dir := runtimeDir(t)
	dead, alive := owner(t, "random 1"), owner(t, "random 2")
	_ = dead.Process.Kill()
	_ = dead.Wait()
	listen(t, "n")
	if f := filesIn(t, dir); len(f) != 4 {
		t.Errorf("%v, want the files of the two names that are alive", f)
	}
	if _, err := Listen("random 2"); !errors.Is(err, ErrTaken) {
		t.Errorf("the sweep took a name from pid %d: %v", alive.Process.Pid, err)
	}
}

func TestDialWithoutAListener(t *testing.T) {
	runtimeDir(t)
	if _, err := Dial(t.Context(), "n"); !errors.Is(err, ErrNobody) {
		t.Errorf("got %v, want %v", err, ErrNobody)
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	dir := runtimeDir(t)
	l := listen(t, "n")
	_ = l
	// Nobody accepts: with a queue of one, the third connection waits.
	d := &directory{fd: -1, path: dir}
	raw, err := l.socket.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	_ = raw.Control(func(fd uintptr) { err = unix.Listen(int(fd), 0) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	for range 8 {
		var c *net.UnixConn
		if c, err = d.dial(ctx, fileName("n")+socketSuffix); err != nil {
			break
		}
		defer c.Close()
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want %v", err, context.DeadlineExceeded)
	}
}

func TestAHostileDirectoryIsRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		make func(path string) error
	}{
		{"a symbolic link", func(p string) error {
			if err := os.Mkdir(p+"-real", 0o700); err != nil {
				return err
			}
			return os.Symlink(p+"-real", p)
		}},
		{"open to the group", func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o750)) }},
		{"open to others", func(p string) error { return errors.Join(os.Mkdir(p, 0o700), os.Chmod(p, 0o701)) }},
		{"a file", func(p string) error { return os.WriteFile(p, nil, 0o600) }},
	} {
		dir := runtimeDir(t)
		if err := tt.make(dir); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GANTRY_RUNTIME_DIR", dir+"/") // must not make the link be followed
		_, err := Listen("n")
		if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), "GANTRY_RUNTIME_DIR") {
			t.Errorf("listen in %s: %v", tt.name, err)
		}
		if _, err := Dial(t.Context(), "n"); !errors.Is(err, os.ErrPermission) {
			t.Errorf("dial in %s: %v", tt.name, err)
		}
	}
	t.Setenv("GANTRY_RUNTIME_DIR", "/proc/1") // of another user, unless this is root
	if _, err := Listen("n"); err == nil {
		t.Error("listen in a directory that is not ours succeeded")
	}
}

func TestWhereTheDirectoryIs(t *testing.T) {
	for _, tt := range []struct{ gantry, xdg, want string }{
		{"/a/b/", "/c", "/a/b"},
		{"", "/c", "/c/gantry"},
		{"", "", filepath.Join(os.TempDir(), fmt.Sprintf("gantry-%d", os.Geteuid()))},
	} {
		t.Setenv("GANTRY_RUNTIME_DIR", tt.gantry)
		t.Setenv("XDG_RUNTIME_DIR", tt.xdg)
		if got, _ := directoryPath(); got != tt.want {
			t.Errorf("%q and %q: %s, want %s", tt.gantry, tt.xdg, got, tt.want)
		}
	}
}

func TestALongDirectoryWorks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("d", 200))
	t.Setenv("GANTRY_RUNTIME_DIR", dir)
	l := listen(t, strings.Repeat("name", 1000))
	c, err := Dial(t.Context(), strings.Repeat("name", 1000))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	must(t, c.Send([]byte("x")))
	p := make([]byte, 2)
	if n, _, err := peer.Recv(p); n != 1 || err != nil {
		t.Errorf("received %d bytes: %v", n, err)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestMessagesKeepTheirEndsAndOrder(t *testing.T) {
	a, b := pair(t)
	for _, n := range []int{1, 100, MaxMessage} {
		must(t, a.Send(bytes.Repeat([]byte{byte(n)}, n)))
		must(t, a.Send([]byte("next")))
		p := make([]byte, MaxMessage)
		got, fds, err := b.Recv(p)
		if got != n || len(fds) != 0 || err != nil || p[n-1] != byte(n) {
			t.Errorf("%d bytes: got %d, %v: %v", n, got, fds, err)
		}
		if got, _, err := b.Recv(p); string(p[:got]) != "next" || err != nil {
			t.Errorf("got %q: %v", p[:got], err)
		}
	}
}
