package dma

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/mem"
)

// wrongTasks is everything that TrySubmit refuses, with its code and what the
// text names.
var wrongTasks = []struct {
	name  string
	code  core.Status
	names []string
	task  func(r *rig) (src, dst *mem.Buf)
}{
	{"nil source", core.ErrInvalidValue, []string{"source is nil"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		return nil, r.dst(0, 64, 1)
	}},
	{"nil destination", core.ErrInvalidValue, []string{"destination is nil"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		return r.src(0, 64, 1), nil
	}},
	{"source without data", core.ErrInvalidValue, []string{"source", "data length 0"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		return r.dst(0, 64, 1), r.dst(1024, 64, 1)
	}},
	{"destination too small", core.ErrInvalidValue, []string{"65 bytes", "64 bytes"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		return r.src(0, 65, 1), r.dst(1024, 64, 2)
	}},
	{"destination full", core.ErrInvalidValue, []string{"room"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		return r.src(0, 64, 1), r.src(1024, 64, 1)
	}},
	{"source list too long", core.ErrInvalidValue, []string{"source list", "65", "64"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		return r.src(0, 6500, 65), r.dst(10_000, 6500, 1)
	}},
	{"destination list too long", core.ErrInvalidValue, []string{"destination list", "70", "64"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		return r.src(0, 7000, 1), r.dst(10_000, 7000, 70)
	}},
	{"same buf twice", core.ErrInvalidValue, []string{"overlap"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		b := r.src(0, 64, 1)
		r.want("shrink", b.SetDataLen(10), nil)
		return b, b
	}},
	{"overlap by a byte", core.ErrInvalidValue, []string{"overlap"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		return r.src(0, 64, 2), r.dst(63, 64, 3)
	}},
	{"overlap through another map", core.ErrInvalidValue, []string{"overlap"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		m := r.newMap(r.region[:128], mem.LocalReadWrite)
		return r.src(0, 64, 1), r.fromMap(m, 0, 64)
	}},
	{"read-only destination", core.ErrNotPermitted, []string{"destination", "write"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		return r.src(0, 64, 1), r.fromMap(r.newMap(make([]byte, 4096), mem.LocalReadOnly), 0, 64)
	}},
	{"map of another device", core.ErrInvalidValue, []string{"device"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		m, err := mem.NewMap()
		r.want("map", err, nil)
		r.want("range", m.SetRange(make([]byte, 4096)), nil)
		r.want("device", m.AddDevice(otherDevice(r)), nil)
		r.want("start", m.Start(), nil)
		return r.src(0, 64, 1), r.fromMap(m, 0, 64)
	}},
	{"memory of a stopped map", core.ErrInvalidValue, []string{"map", "not started"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		m, err := mem.NewMap()
		r.want("map", err, nil)
		r.want("range", m.SetRange(make([]byte, 4096)), nil)
		r.want("device", m.AddDevice(r.device), nil)
		r.want("thread safety", m.EnableThreadSafety(), nil) // else bufs keep it from stopping
		r.want("start", m.Start(), nil)
		b := r.fromMap(m, 0, 64)
		r.want("stop", m.Stop(), nil)
		return r.src(0, 64, 1), b
	}},
	{"source that was returned", core.ErrInvalidValue, []string{"source", "no references"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		b, dst := r.src(0, 64, 1), r.dst(1024, 64, 1)
		r.want("release", release(b), nil)
		return b, dst
	}},
	{"destination that is not a head", core.ErrInvalidValue, []string{"destination", "head"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		head := r.dst(1024, 128, 2)
		r.Cleanup(func() { r.want("release", release(head), nil) })
		return r.src(0, 64, 1), head.Next()
	}},
	{"more data than the capability", core.ErrInvalidValue, []string{"1073741888", "1073741824"}, func(r *rig) (*mem.Buf, *mem.Buf) {
		const each = maxBufSize/maxBufListLen + 1 // the same bytes in every element
		m := r.newMap(make([]byte, each), mem.LocalReadWrite)
		a, _, _ := m.Range()
		var src *mem.Buf
		for range maxBufListLen {
			b, err := r.bufs.ByData(m, a, each)
			r.want("source", err, nil)
			if src == nil {
				src = b
				continue
			}
			r.want("chain", src.Chain(b), nil)
		}
		return src, r.dst(0, 64, 1)
	}},
}

// The same task that passed Submit ends as failed.
func TestWrongTasksAreRefusedOrFail(t *testing.T) {
	const size = 256 << 10
	for _, c := range wrongTasks {
		t.Run(c.name, func(t *testing.T) {
			onEvery(t, 1, size, func(t *testing.T, r *rig) {
				r.free = false
				r.want("start", r.dma.Start(), nil)
				src, dst := c.task(r)
				task := r.alloc(src, dst)
				err := task.TrySubmit()
				r.want("try to submit", err, c.code)
				for _, name := range c.names {
					if !strings.Contains(err.Error(), name) {
						t.Errorf("the text %q does not name %q", err, name)
					}
				}
				r.want("submit", task.Submit(), nil)
				r.run(1)
				if len(r.failed) != 1 || task.Status() != core.ErrIOFailed {
					t.Errorf("the task ended with %v, want %v", task.Status(), core.ErrIOFailed)
				}
				if got := r.dma.State(); got != core.Stopping {
					t.Errorf("the context is %v, want stopping", got)
				}
				r.want("free", task.Free(), nil)
				if src == dst {
					dst = nil
				}
				r.want("release", release(src, dst), nil)
			})
		})
	}
}

// fromMap returns a buf without data.
func (r *rig) fromMap(m *mem.Map, off, n int) *mem.Buf {
	r.Helper()
	a, _, err := m.Range()
	r.want("range", err, nil)
	b, err := r.bufs.ByAddr(m, a+mem.Addr(off), n)
	r.want("buf", err, nil)
	return b
}

// otherDevice opens a device that the context is not on.
func otherDevice(r *rig) *device.Device {
	infos, err := device.List()
	r.want("list", err, nil)
	d, err := device.Open(infos[len(infos)-1])
	r.want("open", err, nil)
	return d
}

// A destination has one writer, and a reader of it waits for its end.
func TestBusyListsAreRefused(t *testing.T) {
	r := newRig(t, nil, 3, 4096)
	r.free = false
	r.want("start", r.dma.Start(), nil)
	a, b, c := r.src(0, 64, 1), r.dst(1024, 128, 1), r.dst(2048, 128, 1)
	first := r.alloc(a, b)
	r.want("submit", first.Submit(), nil)
	second := r.alloc(a, b)
	err := second.TrySubmit()
	r.want("a second writer", err, core.ErrInvalidValue)
	if !strings.Contains(err.Error(), "in use by a task in flight") {
		t.Errorf("text %q", err)
	}
	r.want("set", second.SetSrc(b), nil)
	r.want("set", second.SetDst(c), nil)
	r.want("a reader of what is written", second.TrySubmit(), core.ErrInvalidValue)
	r.want("set", second.SetSrc(a), nil)
	r.want("a second reader", second.TrySubmit(), nil)
	r.run(2)
	if len(r.ok) != 2 {
		t.Errorf("%d succeeded, want 2", len(r.ok))
	}
	r.want("release", release(a, b, c), nil)
	r.want("free", first.Free(), nil)
	r.want("free", second.Free(), nil)
}

// One task fails, as hardware would fail it: its context stops by itself, all
// behind it is flushed, and when all is freed the same object starts again.
func TestFailureStopsFlushesAndRestarts(t *testing.T) {
	const tasks = 255
	onEvery(t, tasks, tasks*1024, func(t *testing.T, r *rig) {
		var states []string
		r.dma.SetStateFunc(func(_ *core.Context, prev, next core.State) {
			states = append(states, fmt.Sprintf("%v>%v", prev, next))
		})
		for round := range 3 {
			r.ok, r.failed, states = nil, nil, nil
			r.want("start", r.dma.Start(), nil)
			broken := 0
			for i := range tasks {
				src := r.src(i*1024, 512, 1)
				if i == 2 {
					r.want("reset", src.ResetDataLen(), nil)
				}
				task := r.alloc(src, r.dst(i*1024+512, 512, 1))
				task.User = uint64(i)
				r.want("submit", task.Submit(), nil) // 255 in a row never find a full queue
			}
			r.want("run", r.engine.Run(r.Context(), func() bool { return r.dma.State() == core.Idle }), nil)
			if len(r.ok)+len(r.failed) != tasks || r.dma.Inflight() != 0 {
				t.Fatalf("round %d: %d ok + %d failed, %d in flight; want %d and 0",
					round, len(r.ok), len(r.failed), r.dma.Inflight(), tasks)
			}
			for _, u := range r.failed {
				if u == 2 {
					broken++
				}
			}
			if broken != 1 {
				t.Errorf("task 2 failed %d times", broken)
			}
			if want := []string{"idle>running", "running>stopping", "stopping>idle"}; fmt.Sprint(states) != fmt.Sprint(want) {
				t.Errorf("transitions %v, want %v", states, want)
			}
			if len(r.dma.lanes) == 1 && len(r.ok) != 2 {
				t.Errorf("%d tasks before the broken one succeeded, want 2", len(r.ok))
			}
		}
	})
}

func TestFlushedAndFailedAreToldApart(t *testing.T) {
	r := newRig(t, nil, 2, 4096)
	var got []core.Status
	r.want("configure", r.dma.ConfigureMemcpy(r.succeeded, func(m *Memcpy) {
		got = append(got, m.Status())
		r.fell(m)
	}, 2), nil)
	r.want("start", r.dma.Start(), nil)
	r.want("submit", r.alloc(r.dst(0, 8, 1), r.dst(64, 8, 1)).Submit(), nil)
	r.want("submit", r.alloc(r.src(128, 8, 1), r.dst(192, 8, 1)).Submit(), nil)
	r.run(2)
	if got[0] != core.ErrIOFailed || got[1] != core.ErrFlushed {
		t.Errorf("statuses %v", got)
	}
}

// A file that is cut while it is copied fails the task, and nothing else.
func TestVanishedMemoryFailsTheTask(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("mapped files can fault on Linux only")
	}
	onEvery(t, 2, 1<<20, func(t *testing.T, r *rig) {
		name := filepath.Join(t.TempDir(), "source")
		r.want("write", os.WriteFile(name, make([]byte, 1<<20), 0o600), nil)
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		r.want("open", err, nil)
		defer f.Close()
		m, err := mem.NewMap()
		r.want("map", err, nil)
		r.want("map the file", m.MapFile(f, 0, 1<<20, false), nil)
		r.want("device", m.AddDevice(r.device), nil)
		r.want("start the map", m.Start(), nil)
		a, n, err := m.Range()
		r.want("range", err, nil)
		src, err := r.bufs.ByData(m, a, n)
		r.want("buf", err, nil)
		r.want("start", r.dma.Start(), nil)
		r.want("truncate", f.Truncate(1000), nil)
		dst := r.dst(0, 1<<20, 1)
		r.want("submit", r.alloc(src, dst).TrySubmit(), nil)
		r.run(1)
		if len(r.failed) != 1 {
			t.Errorf("%d tasks failed, want 1", len(r.failed))
		}
		if got := dst.DataLen(); got != 0 {
			t.Errorf("a failed task left data length %d", got)
		}
		r.want("destroy the map", m.Destroy(), nil)
	})
}
