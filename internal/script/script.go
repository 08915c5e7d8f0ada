package script

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// A Script is a text that was parsed. It does not change when it is played, so
// several goroutines may play it at the same time.
type Script struct {
	name   string
	steps  []step
	target *setup
	local  address
	peer   address
	// lines of the target block, for those who have to set a peer up by hand
	wanted []string
}

// A step is one statement.
type step struct {
	line int
	text string
	do   action
}

// An action carries a statement out.
type action func(*player) error

// Name returns the name that Parse was given.
func (s *Script) Name() string { return s.name }

// HasTarget reports whether the script says how the other side is set up.
func (s *Script) HasTarget() bool { return s.target != nil }

// Local returns the address that the script wants for its own end; it is not
// valid if the script does not say.
func (s *Script) Local() netip.Addr { return s.local.near(netip.Addr{}, netip.Addr{}) }

// Peer returns the address that the script wants for the peer, given that of
// its own end; it is not valid if the script does not say.
func (s *Script) Peer(local netip.Addr) netip.Addr { return s.peer.near(local, netip.Addr{}) }

// maxErrors is how many errors Parse reports.
const maxErrors = 10

// Parse reads a script. The name is for messages. The error lists what is wrong
// with it, each line with name and number.
func Parse(name, text string) (*Script, error) {
	p := &parser{s: &Script{name: name}}
	for _, t := range strings.Split(text, "\n") {
		p.number++
		p.text = strings.TrimSpace(uncomment(strings.TrimSuffix(t, "\r")))
		if p.text != "" && len(p.errs) < maxErrors {
			p.statement()
		}
	}
	if len(p.open) > 0 {
		b := p.open[len(p.open)-1]
		p.number = b.line
		p.wrong(fmt.Errorf("%s has no end", b.what))
	}
	if len(p.errs) > 0 {
		return nil, errors.Join(p.errs...)
	}
	p.s.steps = p.steps
	return p.s, nil
}

// uncomment cuts what stands behind a #, unless it is inside quotation marks.
func uncomment(t string) string {
	quoted := false
	for i := range len(t) {
		switch {
		case t[i] == '"' && (i == 0 || t[i-1] != '\\'):
			quoted = !quoted
		case t[i] == '#' && !quoted:
			return t[:i]
		}
	}
	return t
}

// A parser reads the lines of a script.
type parser struct {
	s      *Script
	number int
	text   string
	errs   []error
	steps  []step // of the innermost block
	open   []block
	target bool // inside the target block
}

// A block is a repeat, or the target block, that has no end yet.
type block struct {
	what  string
	line  int
	text  string
	times expr
	as    string
	outer []step
}

func (p *parser) wrong(err error) {
	p.errs = append(p.errs, fmt.Errorf("%s:%d: %w", p.s.name, p.number, err))
}

// statement reads one line.
func (p *parser) statement() {
	l := &line{text: p.text}
	verb := l.name("a statement")
	switch {
	case l.err != nil:
	case verb == "end":
		p.end(l)
	case p.target:
		p.s.wanted = append(p.s.wanted, p.text)
		p.s.target.read(l, verb)
	case verb == "target":
		p.openTarget(l)
	case verb == "local":
		p.s.local = l.address()
	case verb == "peer":
		p.s.peer = l.address()
	case verb == "repeat":
		p.openRepeat(l)
	case statements[verb] != nil:
		do := statements[verb](l)
		p.add(do)
	default:
		l.wrong("there is no statement %s", verb)
	}
	l.end()
	if l.err != nil {
		p.wrong(l.err)
	}
}

func (p *parser) add(do action) {
	p.steps = append(p.steps, step{p.number, p.text, do})
}

// openTarget begins the target block.
func (p *parser) openTarget(l *line) {
	if p.s.target != nil || len(p.open) > 0 {
		l.wrong("one target block is possible, and not inside another block")
		return
	}
	p.s.target, p.target = new(setup), true
	p.add((*player).startTarget)
	p.open = append(p.open, block{what: "target", line: p.number})
}

// openRepeat begins a block that is carried out several times.
func (p *parser) openRepeat(l *line) {
	b := block{what: "repeat", line: p.number, text: p.text, times: l.expr(arithmetic), outer: p.steps}
	if l.takeWord("as") {
		b.as = l.name("the name of a variable")
	}
	if len(p.open) >= maxDepth {
		l.wrong("blocks are nested too deeply")
	}
	p.open, p.steps = append(p.open, b), nil
}

// end ends the innermost block.
func (p *parser) end(l *line) {
	if len(p.open) == 0 {
		l.wrong("end: no block is open")
		return
	}
	b := p.open[len(p.open)-1]
	p.open = p.open[:len(p.open)-1]
	if p.target {
		p.target = false
		return
	}
	body := p.steps
	p.steps = append(b.outer, step{b.line, b.text, func(y *player) error { return y.repeat(b, body) }})
}
