package dma

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/mem"
)

func (r *rig) importMap(e export) *mem.Map {
	r.Helper()
	m, err := mem.Import(0, nil, e.blob, r.device)
	r.want("import", err, nil)
	return m
}

// waitRevoked polls: the end of the owner arrives on a goroutine of mem.
func (r *rig) waitRevoked(m *mem.Map) {
	r.Helper()
	r.want("wait for the end of the owner", r.engine.Run(r.Context(), m.Revoked), nil)
}

// at returns a buf at an address of the owner.
func (r *rig) at(m *mem.Map, a mem.Addr, n int, data bool) *mem.Buf {
	r.Helper()
	get := r.bufs.ByAddr
	if data {
		get = r.bufs.ByData
	}
	b, err := get(m, a, n)
	r.want("buf", err, nil)
	return b
}

func TestMemoryOfAnotherProcessIsCopied(t *testing.T) {
	const size = 1 << 20
	for _, x := range executors {
		t.Run(x.name, func(t *testing.T) {
			names(t)
			r := newRig(t, x.make(), 2, 2*size)
			r.want("start", r.dma.Start(), nil)
			owner, e := r.owner(size, mem.PCIReadWrite)
			m := r.importMap(e)
			want := make([]byte, size)
			pattern(want, 0)

			src := r.at(m, e.base, 1000, true)
			r.want("chain", src.Chain(r.at(m, e.base+1000, size-1000, true)), nil)
			r.want("read", r.alloc(src, r.dst(size, size, 3)).TrySubmit(), nil)
			r.run(1)
			if len(r.ok) != 1 || !bytes.Equal(r.region[size:], want) {
				t.Fatalf("%d succeeded, or the bytes are wrong", len(r.ok))
			}
			pattern(r.region[:5000], 99)
			copy(want[300_001:], r.region[:5000])
			r.want("write", r.alloc(r.src(0, 5000, 2), r.at(m, e.base+300_001, 5000, false)).TrySubmit(), nil)
			// And within the memory of the owner.
			r.run(2)
			copy(want[700_000:800_000], want[250_000:350_000])
			r.want("copy there", r.alloc(r.at(m, e.base+250_000, 100_000, true), r.at(m, e.base+700_000, 100_000, false)).TrySubmit(), nil)
			r.run(3)
			if got, sum := owner.ask("sum"), fmt.Sprint(crc32.ChecksumIEEE(want)); got != sum || len(r.failed) > 0 {
				t.Errorf("the owner has %s, want %s; %d tasks failed", got, sum, len(r.failed))
			}
			r.want("destroy", m.Destroy(), nil)
			owner.end()
		})
	}
}

func TestAnImportForReadingIsNotWritten(t *testing.T) {
	names(t)
	r := newRig(t, nil, 1, 4096)
	r.free = false
	r.want("start", r.dma.Start(), nil)
	owner, e := r.owner(4096, mem.LocalReadWrite|mem.PCIReadOnly)
	m := r.importMap(e)
	before := owner.ask("sum")
	task := r.alloc(r.src(0, 64, 1), r.at(m, e.base, 64, false))
	err := task.TrySubmit()
	r.want("try", err, core.ErrNotPermitted)
	if !strings.Contains(err.Error(), "destination") {
		t.Errorf("text %q", err)
	}
	// Even a context that forgot to look does not get through.
	task.plan.faulting = m.Faulting()
	if task.copy(0, 64) {
		t.Error("the write went through")
	}
	r.want("submit", task.Submit(), nil)
	r.run(1)
	if task.Status() != core.ErrIOFailed || r.dma.State() != core.Stopping {
		t.Errorf("status %v, context %v", task.Status(), r.dma.State())
	}
	if after := owner.ask("sum"); after != before {
		t.Errorf("the owner has %s, had %s", after, before)
	}
	r.want("release", releaseAll(task), nil)
	r.want("destroy", m.Destroy(), nil)
	owner.end()
}

// TestAFaultInAnImportFailsTheTask takes the check of the rights away, as a bug
// would: the destination is exchanged behind its back.
func TestAFaultInAnImportFailsTheTask(t *testing.T) {
	names(t)
	r := newRig(t, nil, 1, 4096)
	r.free = false
	r.want("start", r.dma.Start(), nil)
	owner, e := r.owner(4096, mem.PCIReadOnly)
	m := r.importMap(e)
	right, wrong := r.dst(1024, 64, 1), r.at(m, e.base, 64, false)
	task := r.alloc(r.at(m, e.base+1024, 64, true), right)
	r.want("submit", task.TrySubmit(), nil)
	r.want("lend", wrong.LendToWrite(), nil)
	task.dst = wrong
	r.run(1)
	if len(r.failed) != 1 || task.Status() != core.ErrIOFailed {
		t.Errorf("%d failed, status %v", len(r.failed), task.Status())
	}
	right.Return()
	r.want("release", release(right), nil)
	r.want("release", releaseAll(task), nil)
	r.want("destroy", m.Destroy(), nil)
	owner.end()
}

func TestTasksFailWhenTheOwnerHasStopped(t *testing.T) {
	for _, write := range []bool{false, true} {
		onEvery(t, 2, 4096, func(t *testing.T, r *rig) {
			names(t)
			r.free = false
			r.want("start", r.dma.Start(), nil)
			owner, e := r.owner(4096, mem.PCIReadWrite)
			m := r.importMap(e)
			task := r.alloc(r.at(m, e.base, 64, true), r.dst(1024, 64, 1))
			if write {
				r.want("release", release(task.Src(), task.Dst()), nil)
				task.src, task.dst = r.src(0, 64, 1), r.at(m, e.base, 64, false)
			}
			if got := owner.ask("stop"); got != "stopped: <nil>" {
				t.Fatal(got)
			}
			r.waitRevoked(m)
			err := task.TrySubmit()
			r.want("try", err, core.ErrIOFailed)
			if !strings.Contains(err.Error(), "owner") {
				t.Errorf("text %q", err)
			}
			r.want("submit", task.Submit(), nil)
			r.run(1)
			if len(r.failed) != 1 || task.Status() != core.ErrIOFailed {
				t.Errorf("ended with %v", task.Status())
			}
			r.want("release", releaseAll(task), nil)
			r.want("destroy", m.Destroy(), nil)
			owner.end()
		})
	}
}

// TestAKilledOwnerFailsTheNextTask kills the owner while copies run, again and
// again; what it leaves is swept by the next.
func TestAKilledOwnerFailsTheNextTask(t *testing.T) {
	const size = 600 << 10
	rounds := 6
	if testing.Short() {
		rounds = 1
	}
	for _, x := range executors {
		t.Run(x.name, func(t *testing.T) {
			dir := names(t)
			for round := range rounds {
				killOwnerOnce(t, newRig(t, x.make(), 4, 4*size), size, round%2 == 1)
			}
			r := newRig(t, x.make(), 1, size)
			last, e := r.owner(size, mem.PCIReadOnly)
			files, err := os.ReadDir(dir)
			if len(files) != 2 || err != nil {
				t.Errorf("%d files, %v; want those of the one that lives", len(files), err)
			}
			r.want("destroy", r.importMap(e).Destroy(), nil)
			last.end()
			if files, _ := os.ReadDir(dir); len(files) != 0 {
				t.Errorf("%d files are left", len(files))
			}
		})
	}
	if b, err := os.ReadFile("/proc/self/maps"); err != nil || bytes.Contains(b, []byte("memfd:gantry")) {
		t.Errorf("memory of a dead owner is still mapped, %v", err)
	}
}

func killOwnerOnce(t *testing.T, r *rig, size int, write bool) {
	t.Helper()
	r.want("start", r.dma.Start(), nil)
	owner, e := r.owner(size, mem.PCIReadWrite)
	m := r.importMap(e)
	copyOne := func(theirs *mem.Buf) {
		src, dst := theirs, (*mem.Buf)(nil)
		if write {
			src, dst = r.src(0, size/2, 1), theirs
		} else {
			dst = r.dst(2*size, size, 1)
		}
		back := len(r.ok) + len(r.failed)
		r.want("submit", r.alloc(src, dst).Submit(), nil)
		r.run(back + 1)
	}
	held := r.at(m, e.base, size, !write)
	for range rand.IntN(20) {
		copyOne(r.at(m, e.base, size, !write))
	}
	killed := make(chan bool)
	go func() { owner.kill(); close(killed) }()
	for len(r.failed) == 0 {
		theirs, err := r.bufs.ByArgs(m, e.base, size, e.base, map[bool]int{false: size}[write])
		if err == core.ErrBadState {
			break // revoked
		}
		r.want("buf", err, nil)
		copyOne(theirs)
	}
	<-killed
	r.waitRevoked(m)
	if len(r.failed) == 0 {
		copyOne(held)
	} else {
		r.want("release", release(held), nil)
	}
	if len(r.failed) != 1 {
		t.Errorf("%d tasks failed after the end of the owner, want 1", len(r.failed))
	}
	r.want("destroy", m.Destroy(), nil)
	r.want("a dead owner's export", second(mem.Import(0, nil, e.blob, r.device)), core.ErrNotPermitted)
}

func second[T any](_ T, err error) error { return err }

func TestAKilledImporterLeavesNothingWithTheOwner(t *testing.T) {
	dir := names(t)
	r := newRig(t, nil, 1, 4096)
	const size = 1 << 20
	m, err := mem.NewMap()
	r.want("map", err, nil)
	r.want("allocate", m.Allocate(size, mem.AllocOptions{Shareable: true}), nil)
	r.want("access", m.SetAccess(mem.PCIReadOnly), nil)
	r.want("device", m.AddDevice(r.device), nil)
	r.want("start", m.Start(), nil)
	blob, err := m.ExportPCI(r.device)
	r.want("export", err, nil)
	base, _, _ := m.Range()
	before, _ := os.ReadDir("/proc/self/fd")
	for round := range 10 {
		p := r.process("importer", fmt.Sprintf("%x %d %d", blob, uint64(base), size))
		if got := p.line(); got != "copying" {
			t.Fatal(got)
		}
		if round%2 == 0 {
			p.kill()
		}
		p.in.Close() // which ends it as well
		_ = p.cmd.Wait()
	}
	r.want("stop", m.Stop(), nil)
	r.want("destroy", m.Destroy(), nil)
	after, _ := os.ReadDir("/proc/self/fd")
	if len(after) > len(before) {
		t.Errorf("%d descriptors are open, %d were before", len(after), len(before))
	}
	if files, _ := os.ReadDir(dir); len(files) != 0 {
		t.Errorf("%d files are left", len(files))
	}
}

// BenchmarkRoundTripImported is BenchmarkRoundTrip with a source of another
// process.
func BenchmarkRoundTripImported(b *testing.B) {
	for _, size := range []int{64, 64 << 10} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			names(b)
			r := newRig(b, nil, 1, size)
			r.want("configure", r.dma.ConfigureMemcpy(freeTask, freeTask, 1), nil)
			r.want("start", r.dma.Start(), nil)
			_, e := r.owner(size, mem.PCIReadOnly)
			m := r.importMap(e)
			src, dst := r.at(m, e.base, size, true), r.dst(0, size, 1)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				t, _ := r.dma.AllocMemcpy(src, dst)
				_ = t.Submit()
				for r.dma.Inflight() > 0 {
					r.engine.Progress()
				}
				_ = dst.ResetDataLen()
			}
			r.want("release", release(src, dst), nil)
			r.want("destroy", m.Destroy(), nil)
		})
	}
}
