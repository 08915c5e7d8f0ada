package dmacopy

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/mem"
)

func TestMessagesSurviveTheWay(t *testing.T) {
	d := direction{true, 0o640, 1 << 40}
	if got, ok := parseDirection(d.encode()); !ok || got != d {
		t.Errorf("direction: got %v, %v", got, ok)
	}
	e := export{addr: 0x7f0012345000, chunk: 4096, slots: 7, blob: bytes.Repeat([]byte{9}, mem.ExportSize)}
	if got, ok := parseExport(e.encode()); !ok || !cmp.Equal(got, e, cmp.AllowUnexported(export{})) {
		t.Errorf("export: got %v, %v", got, ok)
	}
	s := status{false, 0xfedcba98, "no more room"}
	if got, ok := parseStatus(s.encode()); !ok || got != s {
		t.Errorf("status: got %v, %v", got, ok)
	}
	if got, ok := parseTurn(encodeTurn(kindDone, 1<<40)); !ok || got != 1<<40 {
		t.Errorf("turn: got %v, %v", got, ok)
	}
	long := status{reason: "\x1b[31m" + string(bytes.Repeat([]byte("long"), 1000))}
	if got, ok := parseStatus(long.encode()); !ok || len(got.reason) != maxReason-1 || got.reason[:4] != "[31m" {
		t.Errorf("a long reason with a control character: %d bytes, %v, %.10q", len(got.reason), ok, got.reason)
	}
}

func FuzzParseMessages(f *testing.F) {
	f.Add(direction{true, 0o644, 5}.encode())
	f.Add(export{chunk: 1, slots: 1, blob: []byte("blob")}.encode())
	f.Add(status{reason: "why"}.encode())
	f.Add(encodeTurn(kindReady, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		if d, ok := parseDirection(b); ok && (d.size < 0 || d.perm&^0o777 != 0) {
			t.Errorf("direction %+v", d)
		}
		if e, ok := parseExport(b); ok && (e.chunk < 1 || e.slots < 1 || e.slots > maxSlots || e.chunk*e.slots > maxWindow) {
			t.Errorf("export %+v", e)
		}
		if s, ok := parseStatus(b); ok && len(s.reason) > maxReason {
			t.Errorf("a reason of %d bytes", len(s.reason))
		}
		parseTurn(b)
	})
}

// A rude host does what it wants: it sends messages in any order.
func rudeHost(t *testing.T, messages ...[]byte) {
	t.Helper()
	s := newSession(Options{}.withDefaults())
	e, err := core.NewEngine()
	if err != nil {
		t.Fatal(err)
	}
	s.engine = e
	h := s.part.(*host)
	if err := h.open(); err != nil {
		t.Fatal(err)
	}
	s.err = errors.New("hears nothing")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := h.meet(ctx); err != nil {
		t.Fatal(err)
	}
	for _, m := range messages {
		if err := s.tell(m); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Run(ctx, func() bool { return h.client.State() == core.Idle }); err != nil {
		t.Errorf("the DPU does not end it: %v", err)
	}
	if err := errors.Join(s.leave(), ignore(s.close(), s.err)); err != nil {
		t.Error(err)
	}
}

// ignore returns err, unless it is the one that was put there.
func ignore(err, known error) error {
	if errors.Is(err, known) {
		return nil
	}
	return err
}

func TestNonsenseEndsTheCopy(t *testing.T) {
	hello := direction{true, 0o644, 400_000}.encode()
	blob := make([]byte, mem.ExportSize)
	for name, c := range map[string]struct {
		messages [][]byte
		says     string
	}{
		"nothing":               {[][]byte{{}}, "makes no sense"},
		"an unknown kind":       {[][]byte{hello, {77, 1, 2, 3}}, "makes no sense"},
		"a short direction":     {[][]byte{{kindDirection, 1}}, "makes no sense"},
		"two directions":        {[][]byte{hello, hello}, "makes no sense"},
		"a size beyond all":     {[][]byte{direction{true, 0, math.MaxInt64}.encode()}, "makes no sense"},
		"a negative size":       {[][]byte{direction{true, 0, -1}.encode()}, "makes no sense"},
		"an early export":       {[][]byte{export{chunk: 4096, slots: 1, blob: blob}.encode()}, "makes no sense"},
		"an early turn":         {[][]byte{hello, encodeTurn(kindReady, 0)}, "makes no sense"},
		"a turn backwards":      {[][]byte{hello, encodeTurn(kindReady, -5)}, "makes no sense"},
		"a DONE to the DPU":     {[][]byte{hello, encodeTurn(kindDone, 0)}, "makes no sense"},
		"a window too large":    {[][]byte{hello, export{chunk: 1 << 30, slots: 2, blob: blob}.encode()}, "makes no sense"},
		"a window of nobody":    {[][]byte{hello, export{chunk: 4096, slots: 4, blob: blob}.encode()}, "import the window"},
		"an early end":          {[][]byte{hello, status{good: true}.encode()}, "makes no sense"},
		"another checksum":      {[][]byte{direction{true, 0o644, 0}.encode(), status{good: true, sum: 5}.encode()}, "the checksum of what was written is 00000000, and 00000005 was read"},
		"an end before a start": {[][]byte{status{good: true}.encode()}, "makes no sense"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			done := make(chan error)
			go func() {
				_, err := Run(t.Context(), Options{File: p.path("dst"), Side: DPU})
				done <- err
			}()
			rudeHost(t, c.messages...)
			wantError(t, <-done, c.says)
			p.wantFiles()
		})
	}
}

// A peer that leaves in the middle without a word, as a crash does.
func TestPeerThatVanishes(t *testing.T) {
	for _, from := range []Side{Host, DPU} {
		for _, dies := range []Side{Host, DPU} {
			p := newPlace(t)
			src, dst := small(p.file("src", pattern(400_000))), small(p.path("dst"))
			src.Side, dst.Side = from, from.Other()
			mine, theirs := src, dst
			if dies != from {
				mine, theirs = dst, src
			}
			done := make(chan error)
			go func() {
				_, err := Run(t.Context(), theirs)
				done <- err
			}()
			s := newSession(mine.withDefaults())
			s.Progress = func(n, total int64) {
				if n > total/4 {
					s.conn.Abort() // and nothing can be said any more
				}
			}
			_ = s.run(t.Context())
			_ = s.close()
			err := <-done
			wantError(t, err, "the other side ended before the copy was complete")
			if !errors.Is(err, core.ErrConnectionReset) {
				t.Errorf("got %v, want it to match %v", err, core.ErrConnectionReset)
			}
			p.wantFiles("src")
		}
	}
}
