package syncevent

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/dma"
	"github.com/gantry-rdma/gantry/mem"
	"github.com/gantry-rdma/gantry/work"
)

// comparing are values, masks and what holds of them.
var comparing = []struct {
	value, mask, want        uint64
	equal, notEqual, greater bool
}{
	{5, all, 5, true, false, false},
	{5, all, 4, false, true, true},
	{5, all, 6, false, true, false},
	{0xf5, 0x0f, 5, true, false, false},
	{0xf5, 0x0f, 0xf5, false, true, false}, // the mask is for the value alone
	{0xf5, 0xf0, 0xef, false, true, true},
	{5, 0, 0, true, false, false},
	{all, all, all - 1, false, true, true}, // unsigned
	{1 << 63, all, 1, false, true, true},
}

func (c Comparison) of(i int) bool {
	return [comparisons]bool{comparing[i].equal, comparing[i].notEqual, comparing[i].greater}[c]
}

// waits are both forms of the call.
var waits = []struct {
	name string
	wait func(*Event, context.Context, Comparison, uint64, uint64) error
}{{"busy", (*Event).Wait}, {"yield", (*Event).WaitYield}}

func TestWaitComparesTheMaskedValue(t *testing.T) {
	e := startEvent(t)
	over, cancel := context.WithCancel(context.Background())
	cancel()
	for _, w := range waits {
		for i, x := range comparing {
			want(t, "set", e.Set(x.value), nil)
			for c := range Comparison(comparisons) {
				what := fmt.Sprintf("%s: %#x & %#x %v %#x", w.name, x.value, x.mask, c, x.want)
				var end error = context.Canceled
				if c.of(i) {
					end = nil
				}
				want(t, what, w.wait(e, over, c, x.want, x.mask), end)
			}
		}
	}
}

func TestWaitSeesWhatAnotherGoroutinePublishes(t *testing.T) {
	for _, w := range waits {
		t.Run(w.name, func(t *testing.T) {
			e := startEvent(t)
			there := make(chan error)
			go func() {
				for i := uint64(1); i < 200; i += 2 { // the other has the even ones
					if err := w.wait(e, soon(t), Equal, i, all); err != nil {
						there <- err
						return
					}
					if _, err := e.Add(1); err != nil {
						there <- err
						return
					}
				}
				there <- nil
			}()
			for i := uint64(0); i < 200; i += 2 {
				want(t, "wait", w.wait(e, soon(t), Equal, i, all), nil)
				want(t, "set", e.Set(i+1), nil)
			}
			want(t, "the other side", <-there, nil)
		})
	}
}

func TestWaitEndsWithItsContext(t *testing.T) {
	e := startEvent(t)
	why := errors.New("had enough")
	var none context.Context
	for _, w := range waits {
		ctx, cancel := context.WithCancelCause(context.Background())
		time.AfterFunc(time.Millisecond, func() { cancel(why) })
		want(t, w.name, w.wait(e, ctx, Equal, 1, all), why)
		ctx, end := context.WithTimeout(context.Background(), time.Millisecond)
		want(t, w.name, w.wait(e, ctx, Equal, 1, all), context.DeadlineExceeded)
		end()
		want(t, w.name+" of what is unknown", w.wait(e, ctx, comparisons, 1, all), core.ErrInvalidValue)
		want(t, w.name+" without a context", w.wait(e, none, Equal, 1, all), core.ErrInvalidValue)
	}
}

func TestStopEndsWaits(t *testing.T) {
	e := newEvent(t, openDevice(t))
	for _, w := range waits {
		want(t, "start", e.Start(), nil)
		ended := make(chan error)
		go func() { ended <- w.wait(e, soon(t), Equal, 1, all) }()
		for e.calls.Load() == open { // until the call is inside
			runtime.Gosched()
		}
		want(t, "stop", e.Stop(), nil)
		equal(t, "calls that are not out", e.calls.Load(), 0)
		want(t, w.name, <-ended, core.ErrBadState)
	}
	want(t, "destroy", e.Destroy(), nil)
}

// TestWhatACopyWroteIsThereWhenTheEventIs publishes from the completion of a
// copy. The reader looks at the bytes without any other order: the race
// detector would object if the value did not give it.
func TestWhatACopyWroteIsThereWhenTheEventIs(t *testing.T) {
	const n, rounds = 8192, 200
	for _, x := range []struct {
		name string
		make func() work.Executor
	}{{"alone", func() work.Executor { return nil }}, {"workqueue", func() work.Executor { return work.NewWorkqueue(2) }}} {
		t.Run(x.name, func(t *testing.T) {
			e := startEvent(t)
			c := newCopier(t, openDevice(t), x.make(), n)
			turn := startEvent(t)
			seen := make(chan error, 1)
			go func() {
				for i := range uint64(rounds) {
					if err := e.WaitYield(soon(t), Equal, i+1, all); err != nil {
						seen <- err
						return
					}
					for at, b := range c.to() {
						if b != byte(i) {
							seen <- fmt.Errorf("round %d: byte %d is %#x", i, at, b)
							return
						}
					}
					_ = turn.Set(i + 1)
				}
				seen <- nil
			}()
			for i := range uint64(rounds) {
				c.copy(byte(i), func() { want(t, "publish", e.Set(i+1), nil) })
				want(t, "the reader", turn.WaitYield(soon(t), Equal, i+1, all), nil)
			}
			want(t, "the reader", <-seen, nil)
		})
	}
}

// A copier copies the first half of its region to the second.
type copier struct {
	testing.TB
	engine   *core.Engine
	context  *dma.Context
	region   []byte
	src, dst *mem.Buf
	then     func()
	done     bool
}

func newCopier(t testing.TB, d *device.Device, x work.Executor, n int) *copier {
	c := &copier{TB: t, region: make([]byte, 2*n)}
	m, err := mem.NewMap()
	want(t, "map", err, nil)
	want(t, "range", m.SetRange(c.region), nil)
	want(t, "device", m.AddDevice(d), nil)
	want(t, "start the map", m.Start(), nil)
	inventory, err := mem.NewInventory(2)
	want(t, "inventory", err, nil)
	want(t, "start the inventory", inventory.Start(), nil)
	base, _, _ := m.Range()
	c.src, err = inventory.ByData(m, base, n)
	want(t, "source", err, nil)
	c.dst, err = inventory.ByAddr(m, base+mem.Addr(n), n)
	want(t, "destination", err, nil)
	c.engine, err = core.NewEngine()
	want(t, "engine", err, nil)
	c.context, err = dma.New(d)
	want(t, "dma", err, nil)
	want(t, "connect", c.engine.Connect(&c.context.Context), nil)
	want(t, "executor", c.context.SetExecutor(x), nil)
	end := func(m *dma.Memcpy) {
		equal(t, "copy", m.Status(), core.Success)
		c.then()
		c.done = true
		want(t, "free", m.Free(), nil)
	}
	want(t, "configure", c.context.ConfigureMemcpy(end, end, 1), nil)
	want(t, "start", c.context.Start(), nil)
	t.Cleanup(func() {
		want(t, "shut down", c.context.Shutdown(soon(t)), nil)
		want(t, "destroy", c.context.Destroy(), nil)
		want(t, "destroy the engine", c.engine.Destroy(), nil)
		for _, b := range []*mem.Buf{c.src, c.dst} {
			_, err := b.Unref()
			want(t, "unref", err, nil)
		}
		want(t, "destroy the map", m.Destroy(), nil)
		if x != nil {
			x.Close()
		}
	})
	return c
}

func (c *copier) to() []byte { return c.region[len(c.region)/2:] }

// copy fills the source with b, copies it, and calls then from the callback.
func (c *copier) copy(b byte, then func()) {
	c.Helper()
	for i := range c.region[:len(c.region)/2] {
		c.region[i] = b
	}
	want(c, "reset", c.dst.ResetDataLen(), nil)
	c.then, c.done = then, false
	m, err := c.context.AllocMemcpy(c.src, c.dst)
	want(c, "alloc", err, nil)
	want(c, "submit", m.Submit(), nil)
	want(c, "run", c.engine.Run(soon(c), func() bool { return c.done }), nil)
}
