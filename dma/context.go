package dma

import (
	"fmt"
	"sync/atomic"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
	"github.com/gantry-rdma/gantry/work"
)

// The capabilities of every device that supports DMA.
const (
	maxBufSize    = 1 << 30 // bytes of one task
	maxBufListLen = 64      // elements of a source or destination list
	maxTasks      = 1 << 16 // tasks of one context
)

// Supported returns nil when the device can copy memory, else an error with
// core.ErrNotSupported. Like the other capability queries it needs no open
// device.
func Supported(i *device.Info) error {
	switch {
	case i == nil:
		return fmt.Errorf("dma: the device is nil: %w", core.ErrInvalidValue)
	case !i.Supports(device.FeatureDMA):
		return fmt.Errorf("dma: %s does not copy memory: %w", i.IBDev(), core.ErrNotSupported)
	}
	return nil
}

// MaxBufSize returns how many bytes one task can copy, over all elements of
// its source list.
func MaxBufSize(i *device.Info) (uint64, error) { return maxBufSize, Supported(i) }

// MaxBufListLen returns how many elements the source and the destination list
// of a task can have each.
func MaxBufListLen(i *device.Info) (uint32, error) { return maxBufListLen, Supported(i) }

// A Context copies memory for the tasks that are submitted to it. The embedded
// core.Context is its life: connect it, start it, stop it. All methods belong
// to the goroutine of its engine.
type Context struct {
	core.Context
	device *device.Device
	tasks  core.TaskPool[Memcpy, *Memcpy]

	executor work.Executor // nil if alone does the work
	alone    alone
	driver   driver // alone or the executor, if Poll can do its work
	inline   bool   // nobody else does
	lanes    []lane
	parts    queue[part]    // to be copied
	done     queue[*Memcpy] // to be reported
	flushing atomic.Bool    // parts are not copied any more
	reports  reports

	sized int // how many tasks the queues are made for; 0 for none yet
}

// New makes a context on dev, which stays open until Destroy. Its tasks are
// copied inside Progress unless SetExecutor says otherwise.
func New(dev *device.Device) (*Context, error) {
	if dev == nil {
		return nil, fmt.Errorf("dma: the device is nil: %w", core.ErrInvalidValue)
	}
	if err := Supported(dev.Info()); err != nil {
		return nil, err
	}
	if err := dev.Hold(); err != nil {
		return nil, fmt.Errorf("dma: %w", err)
	}
	d := &Context{device: dev}
	d.Init((*backend)(d), "dma")
	d.tasks.Init(&d.Context, "dma memcpy")
	d.setExecutor(nil)
	return d, nil
}

// Destroy ends an idle context and lets go of its device. It answers
// core.ErrBadState when the context is not idle.
func (d *Context) Destroy() error {
	if err := d.Context.Destroy(); err != nil {
		return err
	}
	d.closeLanes()
	d.device.Drop()
	return nil
}

// Device returns the device of the context.
func (d *Context) Device() *device.Device { return d.device }

// MaxTasks returns how many tasks a context can have.
func (d *Context) MaxTasks() int { return maxTasks }

// ConfigureMemcpy sets the callbacks for tasks that succeeded and that failed,
// and the number n of tasks that exist. It answers core.ErrInvalidValue for a
// nil callback and for an n that is not from 1 to MaxTasks, and
// core.ErrBadState when the context is not idle.
func (d *Context) ConfigureMemcpy(ok, fail func(*Memcpy), n int) error {
	return d.tasks.Configure(ok, fail, n, maxTasks)
}

// SetExecutor chooses where tasks are copied; nil is inside Progress, as with an
// inline executor, and cheaper, since nobody else can have a part in it. The caller keeps x, and closes it after Destroy. It answers
// core.ErrBadState when the context is not idle.
func (d *Context) SetExecutor(x work.Executor) error {
	if d.State() != core.Idle {
		return fmt.Errorf("dma: set the executor: the context is %v: %w", d.State(), core.ErrBadState)
	}
	d.closeLanes()
	d.setExecutor(x)
	return nil
}

func (d *Context) setExecutor(x work.Executor) {
	n := 1
	if w, ok := x.(interface{ Workers() int }); ok {
		n = w.Workers()
	}
	d.executor, d.sized = x, 0
	d.lanes = make([]lane, n)
	for i := range d.lanes {
		d.lanes[i].init(d, i)
	}
	d.driver, _ = x.(driver)
	_, d.inline = x.(*work.Inline)
	if x == nil {
		d.alone = alone{lane: &d.lanes[0]}
		d.driver, d.inline = &d.alone, true
	}
}

func (d *Context) closeLanes() {
	for i := range d.lanes {
		d.lanes[i].item.Close()
	}
}

// Executor returns where tasks are copied; nil for inside Progress.
func (d *Context) Executor() work.Executor { return d.executor }

// SetOrderedCompletions makes callbacks come in the order of the submits, also
// when an executor finishes the copies in another. It answers
// core.ErrBadState while tasks are in flight.
func (d *Context) SetOrderedCompletions(on bool) error {
	if n := d.Inflight(); n > 0 {
		return fmt.Errorf("dma: set ordered completions: %d tasks are in flight: %w", n, core.ErrBadState)
	}
	d.reports.ordered = on
	d.reports.settle()
	return nil
}

// Misses returns how often AllocMemcpy found no free task.
func (d *Context) Misses() uint64 { return d.tasks.Misses() }
