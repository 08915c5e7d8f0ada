package comch

import (
	"errors"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/internal/sys"
	"golang.org/x/sys/unix"
)

// A peer can punch holes into what it shares. Ordinary pages come back as
// zeros; huge pages may not come back, so words are not taken in them.
func TestWordsAreNotInHugePages(t *testing.T) {
	for _, huge := range []bool{false, true} {
		p, err := sys.AllocPages(4096, sys.PagesOptions{Shareable: true, Huge: huge})
		if err != nil {
			t.Skipf("no memory that can be shared: %v", err)
		}
		if huge && !p.Huge() {
			_ = p.Free()
			t.Skip("this machine has no huge pages: nothing to refuse")
		}
		if err := p.Seal(false); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.Dup(p.FD())
		if err != nil {
			t.Fatal(err)
		}
		got, err := importWords(fd, 4096)
		if huge != errors.Is(err, core.ErrNotPermitted) || !huge && err != nil {
			t.Errorf("huge %v: got %v", huge, err)
		}
		if got != nil {
			_ = got.Free()
		}
		if err := p.Free(); err != nil {
			t.Error(err)
		}
	}
}
