package script

import (
	"fmt"
	"strings"
)

// A Completion is an entry of a completion queue of the target.
type Completion struct {
	ID     uint64
	Status string // as libibverbs has it, without prefix: SUCCESS, RETRY_EXC_ERR
	Op     string // RECV, SEND, RDMA_WRITE; means nothing unless the status is SUCCESS

	// Values holds what else a completion of that kind has: len, imm, inv, src,
	// and grh, which is 1 or 0.
	Values map[string]uint64
}

// String returns the completion in the words of a script.
func (c Completion) String() string {
	s := fmt.Sprintf("id=%d status=%s", c.ID, c.Status)
	if c.Status != success {
		return s
	}
	s += " op=" + c.Op
	for _, name := range []string{"len", "imm", "inv"} {
		if x, ok := c.Values[name]; ok {
			s += " " + name + "=" + show(name, x)
		}
	}
	return s
}

const (
	success = "SUCCESS"
	flushed = "WR_FLUSH_ERR"
)

// which reads recv or send.
func (l *line) which() (receives bool) {
	n := l.name("recv or send")
	if n != "recv" && n != "send" {
		l.wrong("want recv or send, found %s", found(n))
	}
	return n == "recv"
}

// readComplete reads what the next completion is to be.
func readComplete(l *line) action {
	receives := l.which()
	var s span
	wants := map[string]expr{}
	status, op := success, ""
	for !l.done() {
		name := l.name("an attribute")
		if !l.take("=") {
			l.wrong("want = behind %s, found %s", name, found(l.rest()))
		}
		switch name {
		case "status":
			status = l.name("a status")
		case "op":
			op = l.name("an operation")
		case "id", "len", "imm", "inv", "src", "grh":
			wants[name] = l.expr(arithmetic)
		default:
			if l.err == nil && !s.option(l, name) {
				l.wrong("a completion has no %s", name)
			}
		}
	}
	return goal(l, func(p *player) error {
		var c Completion
		err := p.await(&s, func() (ok bool, what string, err error) {
			c, ok = p.Target.Poll(receives)
			return ok, "there is no completion; the queue pair is in " + p.Target.State(), nil
		})
		if err != nil {
			return err
		}
		return c.check(p.v, status, op, wants)
	})
}

// check compares a completion with what is wanted.
func (c Completion) check(v vars, status, op string, wants map[string]expr) error {
	wrong := status != "any" && c.Status != status || op != "" && c.Op != op
	for name, e := range wants {
		want, err := e(v)
		if err != nil {
			return err
		}
		got, ok := c.Values[name]
		if name == "id" {
			got, ok = c.ID, true
		}
		wrong = wrong || !ok || got != want
	}
	if wrong {
		return fmt.Errorf("the completion is %v", c)
	}
	return nil
}

// readNoCompletion reads how long there is to be none.
func readNoCompletion(l *line) action {
	receives := l.which()
	e := l.expr(arithmetic)
	return goal(l, func(p *player) error {
		d, err := duration(e, p.v)
		if err != nil {
			return err
		}
		for until := p.Wire.Now().Add(d); ; {
			if c, ok := p.Target.Poll(receives); ok {
				return fmt.Errorf("there is a completion: %v", c)
			}
			if !p.Wire.Now().Before(until) {
				return nil
			}
			if err := p.Wire.Sleep(p.ctx, look); err != nil {
				return err
			}
		}
	})
}

// leftOver looks, at the end, for completions that the script did not expect.
// What was flushed does not count.
func (p *player) leftOver() error {
	for _, receives := range []bool{true, false} {
		for {
			c, ok := p.Target.Poll(receives)
			if !ok {
				break
			}
			if c.Status != flushed {
				return &Failure{p.s.name, 0, "end of the script", fmt.Errorf("a completion is left: %v", c)}
			}
		}
	}
	return nil
}

// readCounter reads what a counter is to become.
func readCounter(l *line) action {
	name := l.name("the name of a counter")
	op := l.comparison(name)
	e := l.expr(arithmetic)
	return goal(l, func(p *player) error {
		want, err := e(p.v)
		if err != nil {
			return err
		}
		return p.await(new(span), func() (bool, string, error) {
			got, ok := p.Target.Counter(name)
			if !ok {
				return false, "", fmt.Errorf("there is no counter %s", name)
			}
			return compare(op, got, want), fmt.Sprintf("it is %d", got), nil
		})
	})
}

// readState reads the state that the queue pair is to reach.
func readState(l *line) action {
	want := l.name("a state")
	return goal(l, func(p *player) error {
		return p.await(new(span), func() (bool, string, error) {
			got := p.Target.State()
			return got == want, "it is in " + got, nil
		})
	})
}

// readEvent reads which asynchronous event is to be next.
func readEvent(l *line) action {
	want := l.name("the name of an event")
	return goal(l, func(p *player) error {
		var got string
		err := p.await(new(span), func() (ok bool, what string, err error) {
			got, ok = p.Target.Event()
			return ok, "there is no event", nil
		})
		if err == nil && got != want {
			err = fmt.Errorf("the event is %s", got)
		}
		return err
	})
}

// stretch reads a piece of a region: NAME off= len= and a payload.
func (l *line) stretch() (region string, off expr, w payload) {
	region = l.name("the name of a region")
	off = constant(0)
	for !l.done() {
		name := l.name("off, len, data, fill or at")
		switch {
		case !l.take("="):
			l.wrong("want = behind %s, found %s", name, found(l.rest()))
		case name == "off":
			off = l.expr(arithmetic)
		case !w.option(l, name):
			l.wrong("memory has no %s", name)
		}
	}
	return region, off, w
}

// touch calls f with the memory that a statement names.
func (p *player) touch(region string, off expr, w *payload, f func(mem []byte) error) error {
	return p.Target.Touch(region, func(mem []byte) error {
		at, err := within(off, p.v, "off", uint64(len(mem)))
		if err != nil {
			return err
		}
		n := uint64(len(w.data))
		if w.len != nil {
			n, err = within(w.len, p.v, "len", uint64(len(mem))-at)
		} else if n > uint64(len(mem))-at {
			err = fmt.Errorf("%d bytes at %d are not all in %s", n, at, region)
		}
		if err != nil {
			return err
		}
		return f(mem[at : at+n])
	})
}

// readMemory reads what memory of the target is to hold.
func readMemory(l *line) action {
	region, off, w := l.stretch()
	return goal(l, func(p *player) error {
		return p.touch(region, off, &w, func(mem []byte) error {
			why, err := w.differs(p.v, mem)
			if err == nil && why != "" {
				err = fmt.Errorf("%s: %s", region, why)
			}
			return err
		})
	})
}

// readFill reads what to put into memory of the target.
func readFill(l *line) action {
	region, off, w := l.stretch()
	return goal(l, func(p *player) error {
		return p.touch(region, off, &w, func(mem []byte) error {
			b, err := w.bytes(p.v, len(mem))
			copy(mem, b)
			return err
		})
	})
}

func readArm(l *line) action {
	receives := l.which()
	solicited := l.takeWord("solicited")
	return goal(l, func(p *player) error { p.Target.Arm(receives, solicited); return nil })
}

// readNotified reads that an event of an armed queue is to come, or, with no,
// that none has.
func readNotified(l *line) action {
	no := l.takeWord("no")
	receives := l.which()
	return goal(l, func(p *player) error {
		if no {
			if p.Target.Notified(receives) {
				return fmt.Errorf("there was an event")
			}
			return nil
		}
		return p.await(new(span), func() (bool, string, error) {
			return p.Target.Notified(receives), "there is no event", nil
		})
	})
}

func readModify(l *line) action {
	state := strings.ToUpper(l.name("a state"))
	return goal(l, func(p *player) error { return p.Target.Modify(state) })
}

func readDeregister(l *line) action {
	region := l.name("the name of a region")
	return goal(l, func(p *player) error { return p.Target.Deregister(region) })
}
