package perf

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

// A pulse is a context with one task, which another goroutine completes: the
// least that a library with a worker of its own can be. Each call of fire is
// one operation that became ready; each operation completes the task once,
// whose callback submits it again.
//
// fire belongs to the other goroutine, all else to that of the engine.
type pulse struct {
	core.Context
	engine *core.Engine
	tasks  core.TaskPool[beat, *beat]
	beat   *core.Task // in flight, or nil
	flush  bool

	served func(waited time.Duration) // called back, so long after fire
	taken  atomic.Int64               // operations that were served

	epoch time.Time // of all stamps
	ring  [pulseRing]atomic.Int64
	fired atomic.Int64
	quit  atomic.Bool // nobody takes operations any more
}

// A beat is the task of a pulse.
type beat struct{ core.Task }

// pulseRing is how many operations may be ready at once: fire waits when a
// consumer is further behind.
const pulseRing = 1 << 12

func newPulse() (*pulse, error) {
	p := &pulse{epoch: time.Now(), served: func(time.Duration) {}}
	p.Init((*pulseBackend)(p), "pulse")
	p.tasks.Init(&p.Context, "beat")
	var err error
	if p.engine, err = core.NewEngine(); err != nil {
		return nil, err
	}
	if err = p.start(); err != nil {
		_ = p.close() // the first error says why
		return nil, err
	}
	return p, nil
}

func (p *pulse) start() error {
	if err := p.engine.Connect(&p.Context); err != nil {
		return err
	}
	if err := p.tasks.Configure(p.again, func(b *beat) { _ = b.Free() }, 1, 1); err != nil {
		return err
	}
	if err := p.Start(); err != nil {
		return err
	}
	b, err := p.tasks.Alloc()
	if err != nil {
		return err
	}
	return b.Submit()
}

func (p *pulse) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := p.Shutdown(ctx)
	core.KeepFirst(&err, p.Destroy())
	core.KeepFirst(&err, p.engine.Destroy())
	return err
}

// fire makes one operation ready and tells the engine.
func (p *pulse) fire() {
	i := p.fired.Load()
	for i-p.taken.Load() >= pulseRing {
		if p.quit.Load() {
			return
		}
	}
	p.ring[i%pulseRing].Store(int64(time.Since(p.epoch)))
	p.fired.Store(i + 1)
	p.Notify()
}

// again is the callback of the task.
func (p *pulse) again(b *beat) {
	i := p.taken.Load()
	p.served(time.Since(p.epoch) - time.Duration(p.ring[i%pulseRing].Load()))
	p.taken.Store(i + 1)
	_ = b.Submit() // refused only by a context that stops, which has no more use for it
}

// pulseBackend is pulse with the methods that core calls.
type pulseBackend pulse

func (p *pulseBackend) Start() error              { return nil }
func (p *pulseBackend) Stop() error               { p.flush = true; return nil }
func (p *pulseBackend) Submit(t *core.Task) error { p.beat = t; return nil }
func (p *pulseBackend) Check(*core.Task) error    { return nil }
func (p *pulseBackend) Flush()                    {}
func (p *pulseBackend) ready() bool               { return p.flush || p.fired.Load() > p.taken.Load() }
func (p *pulseBackend) Arm() bool                 { return p.beat != nil && p.ready() }

func (p *pulseBackend) Poll(int) bool {
	t := p.beat
	if t == nil || !p.ready() {
		return false
	}
	p.beat = nil
	if p.flush {
		p.Complete(t, core.ErrFlushed)
	} else {
		p.Complete(t, core.Success)
	}
	return true
}
