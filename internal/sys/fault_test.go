package sys

import (
	"bytes"
	"errors"
	"runtime"
	"runtime/debug"
	"testing"
)

func TestCopyCopiesTheShorterLength(t *testing.T) {
	dst := make([]byte, 4)
	if n, ok := Copy(dst, []byte("gantry")); n != 4 || !ok || !bytes.Equal(dst, []byte("gant")) {
		t.Errorf("got %d, %v, %q", n, ok, dst)
	}
	if n, ok := Copy(nil, dst); n != 0 || !ok {
		t.Errorf("nothing: got %d, %v, want 0, true", n, ok)
	}
}

func TestGuardLetsOtherPanicsThrough(t *testing.T) {
	boom := errors.New("boom")
	var nothing *[4]byte
	tests := []struct {
		name string
		f    func()
		is   func(r any) bool
	}{
		{"own panic", func() { panic(boom) }, func(r any) bool { return r == any(boom) }},
		{"nil pointer", func() { nothing[0] = 1 }, isRuntimeError},
		{"index", func() { _ = make([]byte, 1)[len(t.Name())] }, isRuntimeError},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			defer func() {
				if r := recover(); !tt.is(r) {
					t.Errorf("recovered %v", r)
				}
				if debug.SetPanicOnFault(false) {
					t.Error("the setting was not put back")
				}
			}()
			t.Errorf("Guard returned %v", Guard(tt.f))
		})
	}
}

func isRuntimeError(r any) bool {
	_, ok := r.(runtime.Error)
	return ok
}

func TestGuardPutsTheCallersSettingBack(t *testing.T) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(false))
	for _, want := range []bool{false, true} {
		debug.SetPanicOnFault(want)
		if !Guard(func() {}) {
			t.Error("an empty function faulted")
		}
		if got := debug.SetPanicOnFault(want); got != want {
			t.Errorf("setting is %v after Guard, want %v", got, want)
		}
	}
}

func TestCopyAllocatesNothing(t *testing.T) {
	dst, src := make([]byte, 64), make([]byte, 64)
	if got := testing.AllocsPerRun(1000, func() { Copy(dst, src) }); got != 0 {
		t.Errorf("%v allocations per copy", got)
	}
}

func BenchmarkCopy(b *testing.B) {
	dst, src := make([]byte, 64), make([]byte, 64)
	b.Run("guarded", func(b *testing.B) {
		for b.Loop() {
			Copy(dst, src)
		}
	})
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			copy(dst, src)
		}
	})
}
