package dmacopy

import (
	"hash/crc32"
	"testing"
)

// Both directions, and sizes around those of chunks and of the window.
func TestFilesOfEverySizeArrive(t *testing.T) {
	const chunk, slots = 4096, 4
	for _, size := range []int{0, 1, chunk - 1, chunk, chunk + 1, slots*chunk - 1, slots * chunk, slots*chunk + 1, 50*chunk + 17} {
		for _, from := range []Side{Host, DPU} {
			for _, verify := range []bool{false, true} {
				p := newPlace(t)
				want := pattern(size)
				src := Options{File: p.file("src", want), Verify: verify, chunk: chunk, slots: slots}
				dst := Options{File: p.path("dst"), Verify: verify, chunk: chunk, slots: slots}
				var done, total int64
				dst.Progress = func(d, t int64) { done, total = d, t }
				host, dpu := src, dst
				if from == DPU {
					host, dpu = dst, src
				}
				h, d := p.mustBoth(host, dpu)
				p.wantFile("dst", want)
				p.wantFiles("src", "dst")
				sum := crc32.Checksum(want, crc32.MakeTable(crc32.Castagnoli))
				for _, r := range []Result{h.Result, d.Result} {
					if r.Bytes != int64(size) || r.Checksum != sum || r.From != from || r.To == from || r.Verified != verify {
						t.Errorf("%d bytes from the %v: got %+v, want the checksum %08x", size, from, r, sum)
					}
				}
				if done != int64(size) || total != int64(size) {
					t.Errorf("%d bytes: progress ended at %d of %d", size, done, total)
				}
			}
		}
	}
}
