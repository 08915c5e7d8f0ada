// Package turns is what the two sync event samples share: signalling and
// waiting, by calls or by tasks, as the command line asks.
package turns

import (
	"context"
	"flag"
	"fmt"

	"github.com/gantry-rdma/gantry/core"
	"github.com/gantry-rdma/gantry/samples/internal/stage"
	"github.com/gantry-rdma/gantry/syncevent"
)

// allBits is a mask that compares the whole value.
const allBits = ^uint64(0)

// Turns are the moves of one process on an event.
type Turns struct {
	*stage.Stage
	Engine *core.Engine // set before Start; of the event, if that is a context

	async, add bool
	tasks      int
	event      *syncevent.Event
	life       *core.Context // of the event, if it is one; else nil
}

// Flags declares how the event is used.
func (t *Turns) Flags(fs *flag.FlagSet) {
	fs.BoolVar(&t.async, "async", false, "signal and wait by tasks instead of calls")
	fs.IntVar(&t.tasks, "async_num_tasks", 1, "`tasks` of each kind")
	fs.BoolVar(&t.add, "atomic", false, "signal by adding 1 instead of setting the value")
}

// Check says what is wrong with them.
func (t *Turns) Check() error {
	if t.tasks < 1 || t.tasks > syncevent.MaxTasks() {
		return fmt.Errorf("-async_num_tasks %d: want 1 to %d", t.tasks, syncevent.MaxTasks())
	}
	return nil
}

// Start starts an event, for calls alone or as a context.
func (t *Turns) Start(e *syncevent.Event) (err error) {
	t.event = e
	if !t.async {
		return e.Start()
	}
	if t.life, err = e.AsContext(); err != nil {
		return err
	}
	core.KeepFirst(&err, t.Engine.Connect(t.life))
	core.KeepFirst(&err, e.ConfigureNotifySet(func(n *syncevent.NotifySet) { t.back(&n.Task) }, func(n *syncevent.NotifySet) { t.back(&n.Task) }, t.tasks))
	core.KeepFirst(&err, e.ConfigureNotifyAdd(func(n *syncevent.NotifyAdd) { t.back(&n.Task) }, func(n *syncevent.NotifyAdd) { t.back(&n.Task) }, t.tasks))
	core.KeepFirst(&err, e.ConfigureWait(syncevent.Equal, func(w *syncevent.Wait) { t.back(&w.Task) }, func(w *syncevent.Wait) { t.back(&w.Task) }, t.tasks))
	t.life.SetStateFunc(t.Saw)
	core.KeepFirst(&err, t.life.Start())
	return err
}

// Signal makes the value v, which is one more than it was.
func (t *Turns) Signal(ctx context.Context, v uint64) (err error) {
	switch {
	case t.async && t.add:
		n, err := t.event.AllocNotifyAdd(1)
		if err != nil {
			return err
		}
		err = t.do(ctx, &n.Task)
		t.Say("a task added 1")
		return err
	case t.async:
		n, err := t.event.AllocNotifySet(v)
		if err != nil {
			return err
		}
		err = t.do(ctx, &n.Task)
		t.Say("a task set %d", v)
		return err
	case t.add:
		old, err := t.event.Add(1)
		t.Say("added 1 to %d", old)
		return err
	}
	t.Say("set %d", v)
	return t.event.Set(v)
}

// Wait waits until the value is v.
func (t *Turns) Wait(ctx context.Context, v uint64) error {
	t.Say("waiting for %d", v)
	if !t.async {
		return t.event.WaitYield(ctx, syncevent.Equal, v, allBits)
	}
	w, err := t.event.AllocWait(syncevent.Equal, v, allBits)
	if err != nil {
		return err
	}
	return t.do(ctx, &w.Task)
}

// do submits a task and progresses until it is back; it is freed by its
// callback.
func (t *Turns) do(ctx context.Context, task *core.Task) error {
	t.Tasks++
	before := t.Back()
	if err := task.Submit(); err != nil {
		return err
	}
	if err := t.Engine.Run(ctx, func() bool { return t.Back() > before }); err != nil {
		return err
	}
	return task.Status().Err()
}

// back is the callback of every task, whatever became of it.
func (t *Turns) back(task *core.Task) {
	switch task.Status() {
	case core.Success:
		t.Completed++
	case core.ErrFlushed:
		t.Flushed++
	default:
		t.Failed++
	}
	t.Keep(task.Free())
}

// Stop ends the use of the event.
func (t *Turns) Stop() error {
	switch {
	case t.life == nil:
		return t.event.Stop()
	case t.life.Engine() == nil:
		return nil
	}
	return t.life.Shutdown(context.Background())
}
