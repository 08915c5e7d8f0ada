package dmacopydpu

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// What the files may say, and what comes of it. The files of a host that may
// still be there stay.
func TestFilesThatAreWrong(t *testing.T) {
	blob := string(make([]byte, mem.ExportSize))
	for _, c := range []struct {
		name, descriptor, buffer string
		code                     core.Status
	}{
		{"nothing to copy", blob, "4096\n0\n", core.ErrEmpty},
		{"more than the device copies", blob, "4096\n1073741825\n", core.ErrTooBig},
		{"no export", blob, "4096\n30\n", core.ErrInvalidValue},
		{"a short export", "short", "4096\n30\n", core.ErrInvalidValue},
		{"no buffer", blob, "hello", core.ErrInvalidValue},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("GANTRY_RUNTIME_DIR", filepath.Join(dir, "run"))
			d, b := filepath.Join(dir, "d"), filepath.Join(dir, "b")
			if err := errors.Join(os.WriteFile(b, []byte(c.buffer), 0o600), os.WriteFile(d, []byte(c.descriptor), 0o600)); err != nil {
				t.Fatal(err)
			}
			var errOut bytes.Buffer
			r, err := Run([]string{"-d", d, "-b", b}, t.Output(), &errOut)
			if r.OK || !errors.Is(err, c.code) || errOut.Len() > 0 || !strings.HasPrefix(err.Error(), "dma_copy_dpu: ") {
				t.Errorf("got %+v, %v, told %q, want %v", r, err, &errOut, c.code)
			}
			if _, err := os.Stat(d); err != nil {
				t.Errorf("the descriptor: %v", err)
			}
		})
	}
}
