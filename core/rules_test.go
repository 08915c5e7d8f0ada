package core

import (
	"testing"

	"pgregory.net/rapid"
)

// The six rules that hold in every run, whatever is called when:
//
//  1. as many callbacks as successful submits,
//  2. no callback outside Progress (and Start and Stop, for states),
//  3. idle is never reached with a task submitted or not freed,
//  4. a submit that failed is never called back,
//  5. the descriptor is readable whenever something is ready while armed,
//  6. pooled + with the application + in flight = configured.
type rules struct {
	*rapid.T
	engine *Engine
	libs   []*ruled
	inside bool // a call that may call back is running
	armed  bool
	fd     func() bool // whether the descriptor is readable; nil where there is none
}

// A ruled is one context and what the model knows of it.
type ruled struct {
	*fakeLibrary
	size      int
	submitted int
	called    int
	refused   map[*job]bool
	mine      []*job // with the application
}

func (r *rules) newLib(name string) *ruled {
	l := &ruled{size: rapid.IntRange(1, 5).Draw(r.T, name), refused: map[*job]bool{}}
	called := func(j *job) { r.completion(l, j) }
	l.fakeLibrary = newFake(r.T, r.engine, l.size, called, called)
	l.asyncStart = rapid.Bool().Draw(r.T, "async start")
	l.asyncStop = rapid.Bool().Draw(r.T, "async stop")
	l.failStart = rapid.IntRange(0, 4).Draw(r.T, "fail start") == 0
	l.steps = rapid.IntRange(0, 2).Draw(r.T, "steps")
	l.SetStateFunc(func(c *Context, prev, next State) {
		if !r.inside {
			r.Fatalf("%v>%v reported outside of a call", prev, next)
		}
		if next == Idle && (c.inflight != 0 || c.live != 0) {
			r.Fatalf("idle with %d in flight, %d not freed", c.inflight, c.live)
		}
	})
	return l
}

// completion is the callback of every task: it checks, then does something.
func (r *rules) completion(l *ruled, j *job) {
	l.called++
	if !r.inside {
		r.Fatal("a completion outside of Progress")
	}
	if l.refused[j] {
		r.Fatal("a refused submit was called back")
	}
	doomed := j.doomed
	switch rapid.SampledFrom([]string{"keep", "free", "submit", "stop", "alloc"}).Draw(r.T, "in the callback") {
	case "free":
		if err := j.Free(); err != nil {
			r.Fatalf("free in the callback: %v", err)
		}
		return
	case "submit":
		if r.submit(l, j) {
			return
		}
	case "stop":
		if err := l.Stop(); err != ErrInProgress {
			r.Fatalf("stop in a callback: %v", err)
		}
	case "alloc":
		r.alloc(l)
	}
	if !doomed {
		l.mine = append(l.mine, j)
	}
}

func (r *rules) alloc(l *ruled) {
	if j, err := l.jobs.Alloc(); err == nil {
		l.mine = append(l.mine, j)
		j.bad = rapid.IntRange(0, 9).Draw(r.T, "bad") == 0
		delete(l.refused, j)
	}
}

func (r *rules) submit(l *ruled, j *job) bool {
	l.refuse = nil
	if rapid.IntRange(0, 9).Draw(r.T, "refuse") == 0 {
		l.refuse = ErrAgain
	}
	flags := Flags(rapid.IntRange(0, 3).Draw(r.T, "flags"))
	if err := j.SubmitFlags(flags); err != nil {
		l.refused[j] = true
		return false
	}
	delete(l.refused, j)
	l.submitted++
	return true
}

// take removes one task from those the application has.
func (l *ruled) take(t *rapid.T) *job {
	if len(l.mine) == 0 {
		return nil
	}
	i := rapid.IntRange(0, len(l.mine)-1).Draw(t, "which task")
	j := l.mine[i]
	l.mine = append(l.mine[:i], l.mine[i+1:]...)
	return j
}

func (r *rules) lib() *ruled { return rapid.SampledFrom(r.libs).Draw(r.T, "context") }

// call runs something that may call back.
func (r *rules) call(f func()) {
	r.inside = true
	f()
	r.inside = false
}

func (r *rules) check() {
	ready := false
	for _, l := range r.libs {
		out := l.inflight + len(l.mine)
		if free := len(l.jobs.free); l.starts > 0 && free+out != l.size {
			r.Fatalf("%d pooled + %d in flight + %d mine, want %d", free, l.inflight, len(l.mine), l.size)
		}
		if l.called > l.submitted || l.called+l.inflight != l.submitted {
			r.Fatalf("%d called back, %d in flight, %d submitted", l.called, l.inflight, l.submitted)
		}
		ready = ready || l.ready.first != nil || (*fakeBackend)(l.fakeLibrary).Arm() ||
			l.state == Stopping && l.quiet()
	}
	if r.armed && ready && r.fd != nil && !r.fd() {
		r.Fatal("armed and ready, but the descriptor is quiet")
	}
}

func (r *rules) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"": func(*rapid.T) { r.check() },
		"start": func(*rapid.T) {
			r.call(func() { _ = r.lib().Start() })
		},
		"stop": func(*rapid.T) { r.call(func() { _ = r.lib().Stop() }) },
		"alloc": func(*rapid.T) {
			r.alloc(r.lib())
		},
		"submit": func(t *rapid.T) {
			l := r.lib()
			if j := l.take(t); j != nil && !r.submit(l, j) {
				l.mine = append(l.mine, j)
			}
		},
		"free": func(t *rapid.T) {
			if j := r.lib().take(t); j != nil {
				if err := j.Free(); err != nil {
					t.Fatalf("free: %v", err)
				}
			}
		},
		"free in flight": func(*rapid.T) {
			if t := r.lib().queue.first; t != nil {
				_ = t.Free()
			}
		},
		"flush":    func(*rapid.T) { r.lib().Flush() },
		"progress": func(*rapid.T) { r.call(func() { r.engine.Progress() }) },
		"request": func(t *rapid.T) {
			if r.fd != nil {
				wantNil(t, r.engine.RequestNotification())
				r.armed = true
			}
		},
		"clear": func(t *rapid.T) {
			if r.fd != nil {
				wantNil(t, r.engine.ClearNotification())
				r.armed = false
			}
		},
	}
}

func wantNil(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// finish ends every context and looks at the final balance.
func (r *rules) finish() {
	if r.fd != nil {
		wantNil(r.T, r.engine.ClearNotification())
	}
	for _, l := range r.libs {
		for i := 0; l.state != Idle && i < 10_000; i++ {
			r.call(func() { _ = l.Stop() })
			for len(l.mine) > 0 {
				j := l.mine[0]
				l.mine = l.mine[1:]
				wantNil(r.T, j.Free())
			}
			r.call(func() { r.engine.Progress() })
		}
		if l.state != Idle || l.called != l.submitted {
			r.Fatalf("at the end: %v, %d called back of %d", l.state, l.called, l.submitted)
		}
		wantNil(r.T, l.Destroy())
	}
	wantNil(r.T, r.engine.Destroy())
}

func TestStateRulesHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e, err := NewEngine()
		wantNil(t, err)
		r := &rules{T: t, engine: e, fd: readableFunc(t, e)}
		if rapid.Bool().Draw(t, "all") {
			wantNil(t, e.SetEventMode(ProgressAll))
		}
		for range rapid.IntRange(1, 3).Draw(t, "contexts") {
			r.libs = append(r.libs, r.newLib("size"))
		}
		t.Repeat(r.actions())
		r.finish()
	})
}
