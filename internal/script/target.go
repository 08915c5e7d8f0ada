package script

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gantry-rdma/gantry/roce"
)

// A Target is the other side of the exchange, when it is in this process: one
// queue pair of a device, and what belongs to it. It is used by one goroutine.
type Target interface {
	// Start sets everything up and returns variables: qpn, for each region its
	// name with .va, .rkey, .lkey and .len, and for each window with .rkey.
	Start(Setup) (map[string]uint64, error)

	// Post posts a work request. It returns variables that change with it: the
	// key of a window that is bound.
	Post(Request) (map[string]uint64, error)

	// Poll returns the oldest completion of receives or of sends.
	Poll(receives bool) (Completion, bool)

	// Counter returns what the device has counted under a name.
	Counter(name string) (uint64, bool)

	// State returns the state of the queue pair.
	State() string

	// Event returns the oldest asynchronous event.
	Event() (string, bool)

	// Touch calls f with the memory of a region, and keeps the device away from
	// it meanwhile. What requests that were answered have done is there. It
	// returns the error of f.
	Touch(region string, f func(mem []byte) error) error

	// Arm asks for an event with the next completion, and Notified reports
	// whether there was one.
	Arm(receives, solicited bool)
	Notified(receives bool) bool

	// Modify takes the queue pair to a state.
	Modify(state string) error

	// Deregister makes the key of a region, or of a window, invalid.
	Deregister(name string) error

	// Group lets the queue pair receive what is sent to a multicast group, or
	// ends that.
	Group(group netip.Addr, member bool) error

	// LimitReceives arms the limit of the shared receive queue, and
	// FailReceives lets the queue fail.
	LimitReceives(n int) error
	FailReceives() error
}

// A Setup is what a target block says, with all expressions evaluated.
type Setup struct {
	Transport roce.Transport
	State     string // where to take the queue pair: INIT, RTR or RTS

	// LocalQPN is the queue pair that the script plays.
	LocalQPN uint32
	RQPSN    roce.PSN // of the first packet that the target expects
	SQPSN    roce.PSN // of the first packet that it sends

	Access  []string // what the script may do
	Values  map[string]uint64
	Regions []Region
	Windows []Window
}

// A Region is memory that the target registers.
type Region struct {
	Name   string
	Size   int
	Rights []string // those of regionRights
	Other  bool     // in a protection domain that is not the queue pair's
}

// A Window is a memory window that the target allocates.
type Window struct {
	Name  string
	Type  uint64
	Other bool // bound by a queue pair that is not the script's
}

// numbers are the attributes of a target that are numbers: what they are
// unless the script says, and at most.
var numbers = map[string]struct{ other, max uint64 }{
	"mtu": {1024, 4096}, "rq_psn": {0, 1<<24 - 1}, "sq_psn": {0, 1<<24 - 1},
	"timeout": {14, 31}, "retry_cnt": {7, 7}, "rnr_retry": {7, 7}, "min_rnr_timer": {12, 31},
	"max_rd_atomic": {16, 255}, "max_dest_rd_atomic": {16, 255},
	"send_wr": {64, 1 << 14}, "recv_wr": {64, 1 << 14}, "send_cqe": {128, 1 << 15}, "recv_cqe": {128, 1 << 15},
	"qkey": {0, 1<<32 - 1}, "srq": {0, 1 << 14}, "srq_limit": {0, 1 << 14},
}

// A setup is a target block that was read.
type setup struct {
	transport string
	state     string
	access    []string
	given     map[string]expr
	regions   []regionSpec
	windows   []windowSpec
}

type regionSpec struct {
	Region
	size expr
}

type windowSpec struct {
	Window
	typ expr
}

// regionRights are what may be allowed with memory.
var regionRights = map[string]bool{
	"local_write": true, "remote_write": true, "remote_read": true, "remote_atomic": true,
	"flush_global": true, "flush_persistent": true, "mw_bind": true, "zero_based": true,
}

// transports are the queue pair types of a target.
var transports = map[string]roce.Transport{"rc": roce.RC, "uc": roce.UC, "ud": roce.UD}

// read reads one line of the block.
func (s *setup) read(l *line, verb string) {
	if _, ok := numbers[verb]; ok {
		if s.given == nil {
			s.given = map[string]expr{}
		}
		s.given[verb] = l.expr(arithmetic)
		return
	}
	switch verb {
	case "type":
		s.transport = l.name("rc, uc or ud")
		if _, ok := transports[s.transport]; !ok {
			l.wrong("type %s: rc, uc and ud are possible", s.transport)
		}
	case "state":
		s.state = l.name("INIT, RTR or RTS")
		if s.state != "INIT" && s.state != "RTR" && s.state != "RTS" {
			l.wrong("state %s: INIT, RTR and RTS are possible", s.state)
		}
	case "access":
		s.access = append([]string{}, l.rights()...)
	case "mr":
		r := regionSpec{Region: Region{Name: l.name("the name of a region")}, size: l.expr(arithmetic)}
		r.Rights = l.rights()
		for i := len(r.Rights) - 1; i >= 0; i-- {
			if r.Rights[i] == "other_pd" {
				r.Rights, r.Other = append(r.Rights[:i:i], r.Rights[i+1:]...), true
			}
		}
		s.regions = append(s.regions, r)
	case "mw":
		w := windowSpec{Window: Window{Name: l.name("the name of a window")}, typ: l.expr(arithmetic)}
		w.Other = l.takeWord("other_qp")
		s.windows = append(s.windows, w)
	default:
		l.wrong("a target has no %s", verb)
	}
}

// rights reads the words that say what may be done to memory.
func (l *line) rights() (all []string) {
	for !l.done() {
		switch n := l.name("a right"); {
		case regionRights[n], n == "other_pd":
			all = append(all, n)
		case n != "none":
			l.wrong("%s: none and %s are possible", n, strings.Join(slices.Sorted(maps.Keys(regionRights)), ", "))
		}
	}
	return all
}

// evaluate gives all expressions their values.
func (s *setup) evaluate(v vars) (Setup, error) {
	out := Setup{
		Transport: transports[s.transport], State: s.state, Access: s.access,
		LocalQPN: uint32(v["local_qpn"]), Values: map[string]uint64{},
	}
	if out.State == "" {
		out.State = "RTS"
	}
	if s.access == nil {
		out.Access = []string{"remote_write", "remote_read", "remote_atomic"}
	}
	for name, n := range numbers {
		out.Values[name] = n.other
		if e := s.given[name]; e != nil {
			x, err := within(e, v, name, n.max)
			if err != nil {
				return out, err
			}
			out.Values[name] = x
		}
	}
	out.RQPSN, out.SQPSN = roce.PSN(out.Values["rq_psn"]), roce.PSN(out.Values["sq_psn"])
	for _, r := range s.regions {
		n, err := within(r.size, v, "the size of "+r.Name, 1<<28)
		if err != nil {
			return out, err
		}
		r.Size = int(n)
		out.Regions = append(out.Regions, r.Region)
	}
	for _, w := range s.windows {
		n, err := within(w.typ, v, "the type of "+w.Name, 2)
		if err != nil {
			return out, err
		}
		w.Type = n
		out.Windows = append(out.Windows, w.Window)
	}
	return out, nil
}

// startTarget sets the target up, or says how the peer is to be.
func (p *player) startTarget() error {
	if p.Target == nil {
		p.note("the peer is to have: " + strings.Join(p.s.wanted, "; "))
		return nil
	}
	s, err := p.s.target.evaluate(p.v)
	if err != nil {
		return err
	}
	found, err := p.Target.Start(s)
	maps.Copy(p.v, found)
	p.ready = err == nil
	return err
}

// errNoTarget is what a statement about the target meets before it is set up.
var errNoTarget = errors.New("there is no target block before it")

// goal makes an action of what is done with the target. Where the peer is not
// in this process, it is told to the user instead.
func goal(l *line, do func(*player) error) action {
	text := l.text
	return func(p *player) error {
		switch {
		case p.Target == nil:
			p.note("the peer: " + text)
			return nil
		case !p.ready:
			return errNoTarget
		}
		return do(p)
	}
}

// look is how often a condition on the target is looked at.
const look = 200 * time.Microsecond

// await waits until something holds, and says what was there instead.
func (p *player) await(s *span, holds func() (bool, string, error)) error {
	earliest, latest, err := s.of(p)
	if err != nil {
		return err
	}
	for {
		ok, what, err := holds()
		now := p.Wire.Now()
		switch {
		case err != nil:
			return err
		case ok && now.Before(earliest):
			return fmt.Errorf("%v too early", earliest.Sub(now))
		case ok:
			return nil
		case !now.Before(latest):
			return errors.New(what)
		}
		if err := p.Wire.Sleep(p.ctx, look); err != nil {
			return err
		}
	}
}
