package dma

import (
	"bytes"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/internal/testkit/allocs"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/work"
)

// TestMain lets a test start this binary as another process.
func TestMain(m *testing.M) {
	if !otherProcess() {
		goleak.VerifyTestMain(m)
	}
}

func TestSetUpCodes(t *testing.T) {
	r := newRig(t, nil, 1, 4096)
	_, err := New(nil)
	r.want("no device", err, core.ErrInvalidValue)
	r.want("no tasks", r.dma.ConfigureMemcpy(freeTask, freeTask, 0), core.ErrInvalidValue)
	r.want("too many tasks", r.dma.ConfigureMemcpy(freeTask, freeTask, r.dma.MaxTasks()+1), core.ErrInvalidValue)
	r.want("no callback", r.dma.ConfigureMemcpy(nil, freeTask, 1), core.ErrInvalidValue)
	_, err = r.dma.AllocMemcpy(nil, nil)
	r.want("alloc while idle", err, core.ErrBadState)
	r.want("start", r.dma.Start(), nil)
	r.want("configure while running", r.dma.ConfigureMemcpy(freeTask, freeTask, 1), core.ErrBadState)
	r.want("executor while running", r.dma.SetExecutor(nil), core.ErrBadState)
	r.want("destroy while running", r.dma.Destroy(), core.ErrBadState)
	task := r.alloc(r.src(0, 8, 1), r.dst(64, 8, 1))
	_, err = r.dma.AllocMemcpy(nil, nil)
	r.want("empty pool", err, core.ErrNoMemory)
	if got := r.dma.Misses(); got != 1 {
		t.Errorf("%d misses, want 1", got)
	}
	r.want("submit", task.Submit(), nil)
	r.want("order in flight", r.dma.SetOrderedCompletions(true), core.ErrBadState)
	r.run(1)

	bare, err := New(r.device)
	r.want("another one", err, nil)
	r.want("start without an engine", bare.Start(), core.ErrNotConnected)
	r.want("connect", r.engine.Connect(&bare.Context), nil)
	r.want("start without tasks", bare.Start(), core.ErrInitialization)
	r.want("destroy", bare.Destroy(), nil)
	r.want("destroy twice", bare.Destroy(), core.ErrBadState)
}

func TestCapabilitiesNeedNoResource(t *testing.T) {
	infos, err := device.List()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range infos {
		if err := Supported(i); err != nil {
			t.Errorf("%s: %v", i.IBDev(), err)
		}
		size, err1 := MaxBufSize(i)
		n, err2 := MaxBufListLen(i)
		if size == 0 || n < 2 || err1 != nil || err2 != nil {
			t.Errorf("%s: sizes %d, %d, errors %v, %v", i.IBDev(), size, n, err1, err2)
		}
	}
	if err := Supported(nil); core.StatusOf(err) != core.ErrInvalidValue {
		t.Errorf("nil device: %v", err)
	}
}

// Copies of very different sizes are finished by a work queue in any order.
func TestOrderedCompletionsComeInOrder(t *testing.T) {
	const tasks, slot = 40, 256 << 10
	onEvery(t, tasks, (tasks+1)*slot, func(t *testing.T, r *rig) {
		r.want("ordered", r.dma.SetOrderedCompletions(true), nil)
		r.want("start", r.dma.Start(), nil)
		rng := rand.New(rand.NewPCG(1, 2))
		for i := range tasks {
			n := 1 << rng.IntN(16)
			if i%8 == 0 {
				n = slot
			}
			task := r.alloc(r.src(0, n, 1), r.dst((i+1)*slot, n, 1))
			task.User = uint64(i)
			r.want("submit", task.Submit(), nil)
		}
		r.run(tasks)
		if !slices.IsSorted(r.ok) || len(r.ok) != tasks {
			t.Errorf("%d completions, in order %v: %v", len(r.ok), slices.IsSorted(r.ok), r.ok)
		}
		r.want("not ordered", r.dma.SetOrderedCompletions(false), nil)
		r.want("submit", r.alloc(r.src(0, 64, 1), r.dst(slot, 64, 1)).Submit(), nil)
		r.run(tasks + 1)
	})
}

// The order begins when it is asked for, whatever was submitted before, and on
// which executor.
func TestOrderCanBeAskedForLater(t *testing.T) {
	onEvery(t, 4, 4096, func(t *testing.T, r *rig) {
		queue := work.NewWorkqueue(2)
		t.Cleanup(queue.Close)
		done := 0
		copies := func() {
			for range 3 {
				r.want("submit", r.alloc(r.src(0, 64, 1), r.dst(1024, 64, 1)).Submit(), nil)
				done++
				r.run(done)
			}
		}
		r.want("start", r.dma.Start(), nil)
		copies()
		r.want("ordered", r.dma.SetOrderedCompletions(true), nil)
		copies()
		r.want("shut down", r.dma.Shutdown(t.Context()), nil)
		own := r.dma.Executor()
		r.want("executor", r.dma.SetExecutor(queue), nil)
		r.want("start", r.dma.Start(), nil)
		copies()
		r.want("shut down", r.dma.Shutdown(t.Context()), nil)
		r.want("executor", r.dma.SetExecutor(own), nil)
	})
}

// A stop in the middle of the traffic, at any moment, loses no task.
func TestStopUnderLoadLosesNothing(t *testing.T) {
	rounds := 300
	if testing.Short() {
		rounds = 30
	}
	onEvery(t, 16, 1<<20, func(t *testing.T, r *rig) {
		rng := rand.New(rand.NewPCG(3, 4))
		for range rounds {
			r.want("start", r.dma.Start(), nil)
			r.ok, r.failed = nil, nil
			n := 1 + rng.IntN(16)
			for i := range n {
				size := 1 << rng.IntN(15)
				flags := core.Flags(rng.IntN(4))
				r.want("submit", r.alloc(r.src(0, size, 1), r.dst(1<<19+i<<15, size, 1)).SubmitFlags(flags), nil)
			}
			for range rng.IntN(2 * n) {
				r.engine.Progress()
			}
			r.want("shut down", r.dma.Shutdown(t.Context()), nil)
			if len(r.ok)+len(r.failed) != n {
				t.Fatalf("%d ok + %d flushed, want %d", len(r.ok), len(r.failed), n)
			}
		}
	})
}

// One long inline copy takes as many Progress calls as its size asks for.
func TestLongInlineCopyIsCutIntoBudgets(t *testing.T) {
	r := newRig(t, nil, 1, 2<<20)
	r.want("start", r.dma.Start(), nil)
	r.want("submit", r.alloc(r.src(0, 1<<20, 1), r.dst(1<<20, 1<<20, 1)).Submit(), nil)
	calls := 0
	for len(r.ok) == 0 {
		if !r.engine.Progress() {
			t.Fatal("no progress with a copy under way")
		}
		calls++
	}
	if calls != 4 {
		t.Errorf("1 MiB took %d calls, want 4 of 256 KiB", calls)
	}
}

// Contexts on one engine and one executor do not disturb each other.
func TestContextsShareAnExecutor(t *testing.T) {
	for _, x := range []work.Executor{work.NewInline(), work.NewTasklet(), work.NewWorkqueue(2)} {
		a, b := newRig(t, x, 4, 4096), newRig(t, x, 4, 4096)
		for _, r := range []*rig{a, b} {
			r.want("start", r.dma.Start(), nil)
			pattern(r.region[:512], 1)
			for i := range 4 {
				r.want("submit", r.alloc(r.src(0, 512, 1), r.dst(512+i*512, 512, 1)).Submit(), nil)
			}
		}
		a.run(4)
		b.run(4)
		for _, r := range []*rig{a, b} {
			if !bytes.Equal(r.region[:512], r.region[4*512:5*512]) {
				t.Errorf("%v: wrong contents", x)
			}
		}
	}
}

func TestEmptySourceIsWarnedOf(t *testing.T) {
	r := newRig(t, nil, 1, 4096)
	var out bytes.Buffer
	r.want("watch", r.engine.SetWatchdog(slog.New(slog.NewTextHandler(&out, nil)), time.Hour), nil)
	r.want("start", r.dma.Start(), nil)
	r.want("submit", r.alloc(r.dst(0, 8, 1), r.dst(64, 8, 1)).Submit(), nil)
	if !strings.Contains(out.String(), "data length 0") {
		t.Errorf("log: %q", out.String())
	}
	r.run(1)
}

func TestDataPathAllocatesNothing(t *testing.T) {
	for _, x := range executors {
		t.Run(x.name, func(t *testing.T) {
			r := newRig(t, x.make(), 8, 4<<20)
			done := 0
			back := func(m *Memcpy) { done++; _ = m.Free() }
			r.want("configure", r.dma.ConfigureMemcpy(back, back, 8), nil)
			r.want("ordered", r.dma.SetOrderedCompletions(true), nil)
			r.want("start", r.dma.Start(), nil)
			var src, dst [8]*mem.Buf
			for i := range src {
				src[i], dst[i] = r.src(0, 1<<18, 3), r.dst((i+1)<<18, 1<<18, 2)
			}
			defer func() { r.want("release", release(append(src[:], dst[:]...)...), nil) }()
			allocs.None(t, func() {
				done = 0
				for i := range src {
					m, _ := r.dma.AllocMemcpy(src[i], dst[i])
					if i%2 == 0 {
						_ = m.Submit()
					} else {
						_ = m.TrySubmit()
					}
				}
				for done < len(src) {
					r.engine.Progress()
				}
				for _, b := range dst {
					for ; b != nil; b = b.Next() {
						_ = b.ResetDataLen()
					}
				}
			})
		})
	}
}
