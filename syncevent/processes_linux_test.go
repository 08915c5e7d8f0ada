package syncevent

import (
	"context"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gantry-rdma/gantry/core"
)

func init() {
	roles["turns"] = playTurns
	roles["tasks"] = playTasks
	roles["add"] = playAdd
	roles["own"] = playOwn
}

const turns, addends = 200, 20000

// playTurns answers every odd value with the next, by calls.
func playTurns(p *peer) error {
	e, err := p.imported()
	if err != nil {
		return err
	}
	if err := e.Start(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for i := uint64(1); i < turns; i += 2 {
		if err := e.WaitYield(ctx, Equal, i, all); err != nil {
			return err
		}
		if old, err := e.Add(1); err != nil || old != i {
			return fmt.Errorf("add: old value %d, want %d: %w", old, i, err)
		}
	}
	return e.Destroy()
}

// playTasks is playTurns by tasks, with an engine that sleeps.
func playTasks(p *peer) error {
	e, err := p.imported()
	if err != nil {
		return err
	}
	engine, err := core.NewEngine()
	if err != nil {
		return err
	}
	life, err := e.AsContext()
	core.KeepFirst(&err, engine.Connect(life))
	next := uint64(1)
	met := func(w *Wait) {
		a, e2 := e.AllocNotifyAdd(1)
		core.KeepFirst(&err, e2)
		core.KeepFirst(&err, a.Submit())
		if next += 2; next < turns {
			core.KeepFirst(&err, w.SetWant(next))
			core.KeepFirst(&err, w.Submit())
			return
		}
		core.KeepFirst(&err, w.Free())
	}
	added := func(a *NotifyAdd) { core.KeepFirst(&err, a.Free()) }
	core.KeepFirst(&err, e.ConfigureWait(Equal, met, met, 1))
	core.KeepFirst(&err, e.ConfigureNotifyAdd(added, added, 2))
	core.KeepFirst(&err, life.Start())
	if err != nil {
		return err
	}
	w, err := e.AllocWait(Equal, next, all)
	core.KeepFirst(&err, w.Submit())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	core.KeepFirst(&err, engine.Run(ctx, func() bool { return life.Unfreed() == 0 }))
	core.KeepFirst(&err, life.Shutdown(ctx))
	core.KeepFirst(&err, e.Destroy())
	return err
}

// playAdd adds.
func playAdd(p *peer) error {
	e, err := p.imported()
	if err != nil {
		return err
	}
	if err := e.Start(); err != nil {
		return err
	}
	for range addends {
		if _, err := e.Add(1); err != nil {
			return err
		}
	}
	return e.Destroy()
}

// playOwn has an event, says its export, and then does as it is told.
func playOwn(p *peer) error {
	e, err := New()
	core.KeepFirst(&err, e.AddPublisher(RemotePCI, nil))
	core.KeepFirst(&err, e.AddSubscriber(CPU, p.device))
	core.KeepFirst(&err, e.Start())
	b, err2 := e.ExportPCI(p.device)
	core.KeepFirst(&err, err2)
	if err != nil {
		return err
	}
	fmt.Println(hex.EncodeToString(b))
	for {
		switch p.line() {
		case "add":
			if _, err := e.Add(1); err != nil {
				return err
			}
		case "hurry":
			for err == nil {
				_, err = e.Add(1)
			}
		case "stop":
			return e.Destroy()
		}
	}
}

func TestTwoProcessesTakeTurns(t *testing.T) {
	for _, role := range []string{"turns", "tasks"} {
		t.Run(role, func(t *testing.T) {
			d := openDevice(t)
			r := newRig(t, newShared(t, d, true))
			p := startProcess(t, role)
			p.export(export(t, r.Event, d))
			for i := uint64(0); i < turns; i += 2 {
				if i%4 == 0 { // by calls
					want(t, "set", r.Set(i+1), nil)
					want(t, "wait", r.WaitYield(soon(t), Equal, i+2, all), nil)
					continue
				}
				r.notifySet(1, i+1)
				r.waitFor(2, Equal, i+2, all)
				r.run(2)
				r.results("turn", result{1, ok, i + 1}, result{2, ok, i + 2})
			}
			p.wait()
		})
	}
}

func TestProcessesLoseNoAddends(t *testing.T) {
	d := openDevice(t)
	e, b := share(t, d, true)
	peers := []*process{startProcess(t, "add"), startProcess(t, "add"), startProcess(t, "add")}
	for _, p := range peers {
		p.export(b)
	}
	for range addends {
		_, err := e.Add(1)
		want(t, "add", err, nil)
	}
	for _, p := range peers {
		p.wait()
	}
	v, err := e.Get()
	want(t, "get", err, nil)
	equal(t, "sum", v, uint64(len(peers)+1)*addends)
}

// TestTheDeathOfAnOwnerEndsEverythingThatWaits kills and stops the owner while
// an engine sleeps and both forms of the call wait.
func TestTheDeathOfAnOwnerEndsEverythingThatWaits(t *testing.T) {
	for _, how := range []string{"kill", "stop"} {
		t.Run(how, func(t *testing.T) {
			runtimeDir(t)
			d := openDevice(t)
			p := startProcess(t, "own")
			b := p.imported()
			r := newRig(t, newImport(t, b, d))
			i := startImport(t, b, d)
			ended := make(chan error)
			for _, w := range waits {
				go func() { ended <- w.wait(i, soon(t), Greater, 5, all) }()
			}
			for c := range Comparison(comparisons) {
				r.waitFor(uint64(c), c, all, all)
			}
			r.progress()
			r.results("not equal", result{uint64(NotEqual), ok, 0})
			asleep := make(chan error)
			go func() { asleep <- r.engine.Run(soon(t), func() bool { return len(r.done) == 2 }) }()
			p.say("add") // and the tasks have seen it, or do so in the end
			want(t, "it lives", i.WaitYield(soon(t), Equal, 1, all), nil)
			if how == "stop" {
				p.say("stop")
			} else {
				p.kill()
			}
			want(t, "engine", <-asleep, nil)
			r.results("tasks", result{uint64(Equal), core.ErrConnectionReset, 1}, result{uint64(Greater), core.ErrConnectionReset, 1})
			for range waits {
				want(t, "wait", <-ended, core.ErrConnectionReset)
			}
			want(t, "idle", r.life.Shutdown(soon(t)), nil)
			_, err := Import(b, d)
			want(t, "import", err, core.ErrNotPermitted)
		})
	}
}

// TestAnOwnerMayDieWhileItPublishes kills one that changes the value without a
// pause, at some moment, while tasks wait for every change.
func TestAnOwnerMayDieWhileItPublishes(t *testing.T) {
	runtimeDir(t)
	d := openDevice(t)
	for round := range 10 {
		p := startProcess(t, "own")
		r := newRig(t, newImport(t, p.imported(), d))
		p.say("hurry")
		last, at := uint64(0), rand.IntN(1000)
		for n := 0; ; n++ {
			r.waitFor(1, Greater, last, all)
			r.run(1)
			if n == at {
				p.kill()
			}
			if r.done[0].status != ok {
				break
			}
			last = r.done[0].value
			r.done = r.done[:0]
		}
		equal(t, fmt.Sprintf("round %d, killed at %d", round, at), r.done[0].status, core.ErrConnectionReset)
	}
}

// TestAProcessEndsWithItsTest closes what the process would read, as a test does
// that is killed, while the process is busy.
func TestAProcessEndsWithItsTest(t *testing.T) {
	runtimeDir(t)
	p := startProcess(t, "own")
	e := startImport(t, p.imported(), openDevice(t))
	p.say("hurry")
	want(t, "it is busy", e.WaitYield(soon(t), Greater, 0, all), nil)
	want(t, "close", p.in.Close(), nil)
	want(t, "it ends", e.WaitYield(soon(t), Equal, 0, all), core.ErrConnectionReset)
}

func TestTheDeathOfAnImporterHarmsNobody(t *testing.T) {
	d := openDevice(t)
	r := newRig(t, newShared(t, d, true))
	b := export(t, r.Event, d)
	for range 5 {
		want(t, "set", r.Set(0), nil)
		p := startProcess(t, "turns")
		p.export(b)
		r.waitFor(1, Equal, 2, all)
		want(t, "set", r.Set(1), nil)
		r.run(1)
		r.results("turn", result{1, ok, 2})
		p.kill()
		r.waitFor(2, Equal, 4, all) // nobody will answer
		want(t, "set", r.Set(3), nil)
		r.progress()
		want(t, "set", r.Set(4), nil)
		r.run(1)
		r.results("by itself", result{2, ok, 4})
	}
}
