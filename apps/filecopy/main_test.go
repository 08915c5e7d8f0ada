package filecopy

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// executors are those that files are copied on.
var executors = []struct {
	name string
	make func() work.Executor
}{
	{"default", func() work.Executor { return nil }},
	{"inline", func() work.Executor { return work.NewInline() }},
	{"tasklet", func() work.Executor { return work.NewTasklet() }},
	{"workqueue1", func() work.Executor { return work.NewWorkqueue(1) }},
	{"workqueue3", func() work.Executor { return work.NewWorkqueue(3) }},
}

// onEvery runs a test on each executor.
func onEvery(t *testing.T, f func(t *testing.T, x work.Executor)) {
	for _, e := range executors {
		t.Run(e.name, func(t *testing.T) {
			x := e.make()
			if x != nil {
				defer x.Close()
			}
			f(t, x)
		})
	}
}

// pattern returns n bytes of which no two chunks are alike.
func pattern(n, seed int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + i>>16 + seed)
	}
	return b
}

// file makes a file with the contents b and returns its path.
func file(t testing.TB, dir, name string, b []byte) string {
	t.Helper()
	p := filepath.Join(dir, name)
	if err := os.WriteFile(p, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

// wantFile checks the contents of a file.
func wantFile(t testing.TB, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %d bytes that differ at %d, want %d", path, len(got), difference(got[:min(len(got), len(want))], want[:min(len(got), len(want))]), len(want))
	}
}

// wantOnly checks that a directory has these entries and no others: above all
// that no file was left beside a target.
func wantOnly(t testing.TB, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(names, " ") {
		t.Errorf("%s has %q, want %q", dir, got, names)
	}
}

// wantError checks that an error has each of the texts in it.
func wantError(t testing.TB, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", texts)
	}
	for _, s := range texts {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("got %q, want it to say %q", err, s)
		}
	}
}

// wantReleased checks that nothing holds the device any more, as a map or a
// context would that was not destroyed.
func wantReleased(t testing.TB) {
	t.Helper()
	d, err := openDevice()
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Errorf("the device is held: %v", err)
	}
	if err := d.Close(); !errors.Is(err, core.ErrBadState) {
		t.Errorf("the device was left open: %v", err)
	}
}

func mustCopy(t testing.TB, src, dst string, o Options) Result {
	t.Helper()
	r, err := Copy(context.Background(), src, dst, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
