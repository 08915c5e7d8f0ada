package syncevent

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/device"
)

// all compares every bit of a value.
const all = ^uint64(0)

// openDevice opens the first device.
func openDevice(t testing.TB) *device.Device {
	t.Helper()
	return openDeviceAt(t, 0)
}

// openDeviceAt opens a device by its place in the list.
func openDeviceAt(t testing.TB, i int) *device.Device {
	t.Helper()
	infos, err := device.List()
	want(t, "list the devices", err, nil)
	if i >= len(infos) {
		t.Skipf("there are %d devices, %d needed", len(infos), i+1)
	}
	d, err := device.Open(infos[i])
	want(t, "open the device", err, nil)
	t.Cleanup(func() { want(t, "close the device", d.Close(), nil) })
	return d
}

func want(t testing.TB, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

func equal[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// newEvent makes an idle event that this process publishes and subscribes to.
func newEvent(t testing.TB, d *device.Device) *Event {
	t.Helper()
	e, err := New()
	want(t, "new event", err, nil)
	want(t, "publisher", e.AddPublisher(CPU, d), nil)
	want(t, "subscriber", e.AddSubscriber(CPU, d), nil)
	return e
}

// startEvent makes a started event.
func startEvent(t testing.TB) *Event {
	t.Helper()
	e := newEvent(t, openDevice(t))
	want(t, "start", e.Start(), nil)
	t.Cleanup(func() { want(t, "destroy", e.Destroy(), nil) })
	return e
}

// soon is a context that ends a test that hangs.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A rig is an event that is a running context, with tasks of all kinds.
type rig struct {
	testing.TB
	*Event
	engine *core.Engine
	life   *core.Context
	done   []result // in the order of the callbacks
}

// A result is what came of a task.
type result struct {
	user   uint64
	status core.Status
	value  uint64
}

const rigTasks = 64

func newRig(t testing.TB, e *Event) *rig {
	t.Helper()
	r := &rig{TB: t, Event: e}
	var err error
	r.engine, err = core.NewEngine()
	want(t, "engine", err, nil)
	r.life, err = e.AsContext()
	want(t, "as context", err, nil)
	want(t, "connect", r.engine.Connect(r.life), nil)
	r.configure()
	want(t, "start", r.life.Start(), nil)
	t.Cleanup(func() {
		want(t, "shut down", r.life.Shutdown(soon(t)), nil)
		want(t, "destroy", e.Destroy(), nil)
		want(t, "destroy the engine", r.engine.Destroy(), nil)
	})
	return r
}

func (r *rig) configure() {
	r.Helper()
	got := func(x *Get) { r.finish(&x.Task, x.Result()) }
	want(r, "get", r.ConfigureGet(got, got, rigTasks), nil)
	put := func(x *NotifySet) { r.finish(&x.Task, x.Set()) }
	want(r, "set", r.ConfigureNotifySet(put, put, rigTasks/2), nil)
	added := func(x *NotifyAdd) { r.finish(&x.Task, x.Fetched()) }
	want(r, "add", r.ConfigureNotifyAdd(added, added, rigTasks), nil)
	met := func(x *Wait) { r.finish(&x.Task, x.Result()) }
	for _, c := range []Comparison{Equal, NotEqual, Greater} {
		want(r, c.String(), r.ConfigureWait(c, met, met, rigTasks/2), nil)
	}
}

func (r *rig) finish(t *core.Task, v uint64) {
	r.done = append(r.done, result{t.User, t.Status(), v})
	if err := t.Free(); err != nil {
		r.Errorf("free: %v", err)
	}
}

func (r *rig) submit(user uint64, t *core.Task, err error) {
	r.Helper()
	want(r, "alloc", err, nil)
	t.User = user
	want(r, "submit", t.Submit(), nil)
}

func (r *rig) get(user uint64) {
	r.Helper()
	t, err := r.AllocGet()
	r.submit(user, &t.Task, err)
}

func (r *rig) notifySet(user, v uint64) {
	r.Helper()
	t, err := r.AllocNotifySet(v)
	r.submit(user, &t.Task, err)
}

func (r *rig) notifyAdd(user, n uint64) {
	r.Helper()
	t, err := r.AllocNotifyAdd(n)
	r.submit(user, &t.Task, err)
}

func (r *rig) waitFor(user uint64, c Comparison, v, mask uint64) {
	r.Helper()
	t, err := r.AllocWait(c, v, mask)
	r.submit(user, &t.Task, err)
}

// progress does all that there is to do.
func (r *rig) progress() {
	for r.engine.Progress() {
	}
}

// run waits on the descriptor until n tasks are done.
func (r *rig) run(n int) {
	r.Helper()
	want(r, "run", r.engine.Run(soon(r), func() bool { return len(r.done) >= n }), nil)
}

// results compares what is done with what should be, and forgets it.
func (r *rig) results(what string, w ...result) {
	r.Helper()
	got := r.done
	r.done = nil
	if len(got) != len(w) {
		r.Fatalf("%s: got %v, want %v", what, got, w)
	}
	for i := range w {
		if got[i] != w[i] {
			r.Fatalf("%s: got %v, want %v", what, got, w)
		}
	}
}

// addressed makes an event whose value is at v.
func addressed(t testing.TB, d *device.Device, v *atomic.Uint64) *Event {
	t.Helper()
	e := newEvent(t, d)
	want(t, "set the address", e.SetAddr(v), nil)
	return e
}
