package dma

import "testing"

// BenchmarkRoundTrip is alloc, submit, progress and free of a 64-byte copy on
// the inline executor.
func BenchmarkRoundTrip(b *testing.B) {
	r := newRig(b, nil, 1, 4096)
	r.want("configure", r.dma.ConfigureMemcpy(freeTask, freeTask, 1), nil)
	r.want("start", r.dma.Start(), nil)
	src, dst := r.src(0, 64, 1), r.dst(1024, 64, 1)
	for b.Loop() {
		t, _ := r.dma.AllocMemcpy(src, dst)
		_ = t.Submit()
		for !r.engine.Progress() {
		}
		_ = dst.ResetDataLen()
	}
	r.want("release", release(src, dst), nil)
}

func BenchmarkIdleProgress(b *testing.B) {
	r := newRig(b, nil, 1, 4096)
	r.want("start", r.dma.Start(), nil)
	for b.Loop() {
		r.engine.Progress()
	}
}
