package dmacopy

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A place is where a test meets: nobody else can come there.
type place struct {
	testing.TB
	dir string
}

func newPlace(t testing.TB) *place {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("there is no Comch")
	}
	p := &place{t, t.TempDir()}
	t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(t.TempDir(), "run"))
	return p
}

func (p *place) path(name string) string { return filepath.Join(p.dir, name) }

// file makes a file and returns its path.
func (p *place) file(name string, b []byte) string {
	p.Helper()
	if err := os.WriteFile(p.path(name), b, 0o640); err != nil {
		p.Fatal(err)
	}
	return p.path(name)
}

// wantFile checks contents, and wantFiles that there is nothing else.
func (p *place) wantFile(name string, want []byte) {
	p.Helper()
	got, err := os.ReadFile(p.path(name))
	if err != nil || !bytes.Equal(got, want) {
		p.Errorf("%s has %d bytes, %v, want %d and the right ones", name, len(got), err, len(want))
	}
}

func (p *place) wantFiles(names ...string) {
	p.Helper()
	entries, err := os.ReadDir(p.dir)
	if err != nil {
		p.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	slices.Sort(names)
	if !slices.Equal(got, names) {
		p.Errorf("there are the files %q, want %q", got, names)
	}
}

// An outcome is what one side returned.
type outcome struct {
	Result
	err error
}

// both runs the two sides and returns what came of them, the host first.
func (p *place) both(host, dpu Options) (h, d outcome) {
	p.Helper()
	dpu.Side = DPU
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	done := make(chan outcome)
	go func() {
		r, err := Run(ctx, dpu)
		done <- outcome{r, err}
	}()
	r, err := Run(ctx, host)
	h = outcome{r, err}
	d = <-done
	if ctx.Err() != nil {
		p.Fatalf("it takes too long: host %v, DPU %v", h.err, d.err)
	}
	return h, d
}

// mustBoth is both for copies that succeed.
func (p *place) mustBoth(host, dpu Options) (h, d outcome) {
	p.Helper()
	h, d = p.both(host, dpu)
	if h.err != nil || d.err != nil {
		p.Fatalf("host: %v\nDPU: %v", h.err, d.err)
	}
	return h, d
}

// wantError checks that an error has the texts in it.
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

// pattern returns n bytes of which no two chunks are alike.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8 + i>>16)
	}
	return b
}
