package dmacopy

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

// small is a window that files of a few hundred kilobytes go round in often.
func small(file string) Options { return Options{File: file, chunk: 4096, slots: 4} }

func TestBothSidesMustAgreeOnWhoSends(t *testing.T) {
	p := newPlace(t)
	a, b := p.file("a", []byte("one")), p.file("b", []byte("other"))
	h, d := p.both(small(a), small(b))
	wantError(t, h.err, "both sides have a file", "--overwrite", a)
	wantError(t, d.err, "both sides have a file", b)
	h, d = p.both(small(p.path("x")), small(p.path("y")))
	wantError(t, h.err, "neither side has the file", p.path("x"))
	wantError(t, d.err, "neither side has the file", p.path("y"))
	over := small(a)
	over.Overwrite = true
	h, d = p.both(over, Options{File: b, Overwrite: true})
	wantError(t, h.err, "neither side")
	wantError(t, d.err, "neither side")
	p.wantFile("a", []byte("one"))
	p.wantFile("b", []byte("other"))
	p.wantFiles("a", "b")
}

func TestOverwriteReplacesTheFileOfItsSide(t *testing.T) {
	want := pattern(100_000)
	for _, gets := range []Side{Host, DPU} {
		p := newPlace(t)
		src, dst := small(p.file("src", want)), small(p.file("old", []byte("the old one")))
		if err := os.Chmod(dst.File, 0o604); err != nil {
			t.Fatal(err)
		}
		dst.Overwrite = true
		if gets == Host {
			p.mustBoth(dst, src)
		} else {
			p.mustBoth(src, dst)
		}
		p.wantFile("old", want)
		p.wantFiles("old", "src")
		if info, err := os.Stat(dst.File); err != nil || info.Mode() != 0o604 {
			t.Errorf("permissions %v, %v, want those of the old file", info.Mode(), err)
		}
	}
}

// The file that is sent is the file that is replaced: it stays as it is.
func TestOverwriteWithItself(t *testing.T) {
	p := newPlace(t)
	want := pattern(100_000)
	name := p.file("src", want)
	over := small(name)
	over.Overwrite = true
	p.mustBoth(small(name), over)
	p.wantFile("src", want)
	p.wantFiles("src")
}

func TestFilesThatCannotBeAreToldBeforeTheWait(t *testing.T) {
	p := newPlace(t)
	for name, says := range map[string]string{
		p.path("none/file"):  "its directory",
		p.dir:                "is a directory",
		p.path("none") + "/": "there is no directory",
		"":                   "no file is named",
	} {
		for _, side := range []Side{Host, DPU} {
			_, err := Run(t.Context(), Options{File: name, Side: side})
			wantError(t, err, says)
		}
	}
	p.wantFiles()
}

func TestNobodyComes(t *testing.T) {
	p := newPlace(t)
	for _, side := range []Side{Host, DPU} {
		begin := time.Now()
		_, err := Run(t.Context(), Options{File: p.path("x"), Side: side, Wait: 100 * time.Millisecond})
		wantError(t, err, "nobody came to the "+side.Other().String()+" side in 100ms: start the other side")
		if !errors.Is(err, core.ErrTimeOut) || time.Since(begin) > 10*time.Second {
			t.Errorf("got %v after %v", err, time.Since(begin))
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, side := range []Side{Host, DPU} {
		if _, err := Run(ctx, Options{File: p.path("x"), Side: side, Wait: -1}); !errors.Is(err, context.Canceled) {
			t.Errorf("the %v side, cancelled: got %v", side, err)
		}
	}
	p.wantFiles()
}

// Options of two sides, of which one does something in the middle.
func inTheMiddle(o Options, do func()) Options {
	began := false
	o.Progress = func(done, total int64) {
		if !began && done > total/4 {
			began = true
			do()
		}
	}
	return o
}

func TestSourceThatShrinksIsAnErrorOnBothSides(t *testing.T) {
	for _, from := range []Side{Host, DPU} {
		for _, to := range []int64{0, 4096, 200_001} {
			p := newPlace(t)
			name := p.file("src", pattern(400_000))
			src := inTheMiddle(small(name), func() { _ = os.Truncate(name, to) })
			dst := small(p.path("dst"))
			host, dpu := src, dst
			if from == DPU {
				host, dpu = dst, src
			}
			h, d := p.both(host, dpu)
			mine, theirs := h.err, d.err
			if from == DPU {
				mine, theirs = d.err, h.err
			}
			wantError(t, mine, "was truncated while it was copied: it had 400000 bytes, and has")
			wantError(t, theirs, "the other side gave up: ", "was truncated while it was copied")
			p.wantFiles("src")
		}
	}
}

func TestVerifyFindsASourceThatChanged(t *testing.T) {
	p := newPlace(t)
	name := p.file("src", pattern(400_000))
	src := inTheMiddle(small(name), func() {
		if f, err := os.OpenFile(name, os.O_WRONLY, 0); err == nil {
			_, _ = f.WriteAt([]byte("changed"), 10)
			_ = f.Close()
		}
	})
	src.Verify = true
	h, d := p.both(src, small(p.path("dst")))
	wantError(t, h.err, "was changed while it was copied")
	wantError(t, d.err, "the other side gave up: ", "was changed")
	p.wantFiles("src")
}

// A side that is cancelled says so, and the other one cleans up.
func TestEitherSideCanBeInterrupted(t *testing.T) {
	for _, from := range []Side{Host, DPU} {
		for _, stops := range []Side{Host, DPU} {
			p := newPlace(t)
			ctx, cancel := context.WithCancel(t.Context())
			src, dst := small(p.file("src", pattern(400_000))), small(p.path("dst"))
			src.Side, dst.Side = from, from.Other()
			mine, theirs := &src, &dst
			if stops != from {
				mine, theirs = &dst, &src
			}
			*mine = inTheMiddle(*mine, cancel)
			done := make(chan error)
			go func() {
				_, err := Run(t.Context(), *theirs)
				done <- err
			}()
			if _, err := Run(ctx, *mine); !errors.Is(err, context.Canceled) {
				t.Errorf("interrupted: got %v", err)
			}
			wantError(t, <-done, "the other side gave up: it was interrupted")
			p.wantFiles("src")
			cancel()
		}
	}
}

func TestSecondProcessOfASideIsSentAway(t *testing.T) {
	p := newPlace(t)
	var third error
	src := inTheMiddle(small(p.file("src", pattern(400_000))), func() {
		_, third = Run(t.Context(), Options{File: p.path("more"), Side: DPU})
	})
	p.mustBoth(src, small(p.path("dst")))
	wantError(t, third, "another process is the DPU side for the host function 0000:07:00.0 already")
	p.wantFiles("dst", "src")
}

// A host that comes while another one copies is told why it cannot.
func TestSecondHostIsSentAway(t *testing.T) {
	p := newPlace(t)
	want := pattern(400_000)
	var third error
	src := inTheMiddle(small(p.file("src", want)), func() { _, third = Run(t.Context(), small(p.path("more"))) })
	p.mustBoth(src, small(p.path("dst")))
	wantError(t, third, "the other side gave up: it is copying with another process")
	p.wantFile("dst", want)
	p.wantFiles("dst", "src")
}
