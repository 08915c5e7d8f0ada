package dmacopy

import (
	"testing"

	"golang.org/x/sys/unix"
)

// A sink that has no room is an error on both sides, and nothing stays.
func TestSinkWithoutRoom(t *testing.T) {
	for _, to := range []Side{Host, DPU} {
		p := newPlace(t)
		src := small(p.file("src", pattern(400_000)))
		tmp := newPlace(t)
		if err := unix.Mount("gantry-test", tmp.dir, "tmpfs", 0, "size=128k"); err != nil {
			t.Skipf("a small file system cannot be mounted here: %v", err)
		}
		defer func() {
			if err := unix.Unmount(tmp.dir, 0); err != nil {
				t.Error(err)
			}
		}()
		dst := small(tmp.path("dst"))
		host, dpu := src, dst
		if to == Host {
			host, dpu = dst, src
		}
		h, d := p.both(host, dpu)
		mine, theirs := d.err, h.err
		if to == Host {
			mine, theirs = h.err, d.err
		}
		wantError(t, mine, "of 400000 bytes were written", "no space left on device")
		wantError(t, theirs, "the other side gave up: ", "no space left on device")
		tmp.wantFiles()
	}
}
