package filecopy

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gantry-rdma/gantry/internal/testkit/child"
)

func TestPipesAndDevicesAreRefused(t *testing.T) {
	dir := t.TempDir()
	src := file(t, dir, "src", pattern(5000, 1))
	pipe := filepath.Join(dir, "pipe")
	try(t, unix.Mkfifo(pipe, 0o600))
	for _, c := range []struct{ src, dst, says string }{
		{pipe, filepath.Join(dir, "to"), "is a pipe"}, // and does not wait for a writer
		{src, pipe, "is a pipe"},
		{"/dev/zero", filepath.Join(dir, "to"), "is a device"},
		{src, "/dev/full", "is a device"},
		{src, "/dev/null", "is a device"}, // which root must not replace
	} {
		_, err := Copy(t.Context(), c.src, c.dst, Options{})
		wantError(t, err, c.says)
	}
	wantOnly(t, dir, "pipe", "src")
}

func TestFilesWithoutATrueSizeAreRefused(t *testing.T) {
	for _, src := range []string{"/proc/self/status", "/sys/kernel/mm/transparent_hugepage/enabled"} {
		if _, err := os.Stat(src); err != nil {
			t.Logf("skipped %s: %v", src, err)
			continue
		}
		dir := t.TempDir()
		_, err := Copy(t.Context(), src, filepath.Join(dir, "to"), Options{})
		wantError(t, err, "cannot be copied")
		wantOnly(t, dir)
	}
}

// A file system without room is an error of the write, not a fault of a
// mapping. The limit on the size of a file takes the same way.
func TestTargetWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	src := file(t, dir, "src", pattern(2<<20, 1))
	small := filepath.Join(dir, "small")
	try(t, os.Mkdir(small, 0o755))
	if err := unix.Mount("gantry-test", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a file system of 1 MiB cannot be mounted here: %v", err)
	}
	defer func() { try(t, unix.Unmount(small, 0)) }()
	old := file(t, small, "old", []byte("the old target"))
	for _, chunk := range []int{10_000, 1 << 20, 2 << 20} {
		_, err := Copy(t.Context(), src, old, Options{Chunk: chunk, Tasks: 3})
		wantError(t, err, "the target", "no space left on device", "of 2097152 bytes were written")
		wantFile(t, old, []byte("the old target"))
		wantOnly(t, small, "old")
	}
}

func TestTargetAboveTheSizeLimit(t *testing.T) {
	var was unix.Rlimit
	try(t, unix.Getrlimit(unix.RLIMIT_FSIZE, &was))
	dir := t.TempDir()
	src, old := file(t, dir, "src", pattern(2<<20, 1)), file(t, dir, "old", []byte("the old target"))
	limit := was
	limit.Cur = 1 << 20
	try(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &limit))
	_, err := Copy(t.Context(), src, old, Options{Chunk: 300_000, Tasks: 3})
	try(t, unix.Setrlimit(unix.RLIMIT_FSIZE, &was))
	wantError(t, err, "the target", "file too large")
	wantFile(t, old, []byte("the old target"))
	wantOnly(t, dir, "old", "src")
}

// The program that is asked for permission is this test, as a user that may do
// little: root may everything.
func TestPermissionIsNeeded(t *testing.T) {
	if dir := os.Getenv("GANTRY_TEST_NOBODY"); dir != "" {
		asNobody(t, dir)
		return
	}
	dir, err := os.MkdirTemp("", "gantry-nobody-")
	try(t, err)
	defer func() { try(t, os.RemoveAll(dir)) }()
	try(t, os.Chmod(dir, 0o777))
	src := file(t, dir, "src", pattern(5000, 1))
	secret, shut := filepath.Join(dir, "secret"), filepath.Join(dir, "shut")
	try(t, os.WriteFile(secret, nil, 0o600))
	try(t, os.Mkdir(shut, 0o755))
	file(t, shut, "old", nil)
	file(t, dir, "theirs", []byte("the old target"))
	if os.Getuid() != 0 {
		t.Skip("another user's files can only be made by root")
	}
	exe := filepath.Join(dir, "test")
	b, err := os.ReadFile("/proc/self/exe")
	try(t, err)
	try(t, os.WriteFile(exe, b, 0o755))
	cmd := child.Command(t, exe)
	cmd.Env, cmd.Dir = append(os.Environ(), "GANTRY_TEST_NOBODY="+dir), dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	child.Test(t, cmd, "TestPermissionIsNeeded")
	wantFile(t, filepath.Join(dir, "theirs"), []byte("the old target"))
	wantFile(t, src, pattern(5000, 1))
	wantOnly(t, dir, "secret", "shut", "src", "test", "theirs", "to")
	wantOnly(t, shut, "old")
}

func asNobody(t *testing.T, dir string) {
	mustCopy(t, filepath.Join(dir, "src"), filepath.Join(dir, "to"), Options{})
	for _, c := range []struct{ src, dst string }{
		{"secret", "to2"},   // cannot be read
		{"src", "shut/to"},  // a directory that takes no file
		{"src", "shut/old"}, // nor one beside a file
		{"src", "theirs"},   // cannot be written, but could be renamed over
	} {
		_, err := Copy(t.Context(), filepath.Join(dir, c.src), filepath.Join(dir, c.dst), Options{})
		wantError(t, err, "permission denied")
	}
}
