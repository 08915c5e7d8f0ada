package script

import (
	"fmt"
	"strings"

	"github.com/gantry-rdma/gantry/roce"
)

// A pattern is a packet that a script waits for.
type pattern struct {
	op      roce.Opcode
	any     bool
	wants   []condition
	keeps   []capture
	payload payload
}

// A condition is what a field is to be.
type condition struct {
	*field
	op string // =, !=, <, <=, >, >=
	to expr
}

// A capture is the variable that a field's value goes to.
type capture struct {
	name string // of the field, or len
	to   string
}

// pattern reads a packet to wait for. What it does not know of, more may.
func (l *line) pattern(more func(name string) bool) (p pattern) {
	p.op, p.any = l.opcode()
	for !l.done() {
		zero := l.take("!")
		name := l.name("a field")
		f := fieldNamed(name)
		if name == "len" {
			f = &lenField
		}
		switch {
		case l.err != nil:
		case f != nil && !p.any && !f.in(p.op):
			l.wrong("%v has no %s", p.op, name)
		case zero && (f == nil || !f.flag):
			l.wrong("!%s: only a flag can be negated", name)
		case f != nil && f.flag && (zero || !l.comparisonNext()):
			p.wants = append(p.wants, condition{f, "=", constant(truth(!zero))})
		case f != nil:
			p.condition(l, f)
		case !l.take("="):
			l.wrong("want = behind %s, found %s", name, found(l.rest()))
		case !p.payload.option(l, name) && !more(name):
			l.wrong("a packet has no %s", name)
		}
	}
	return p
}

// lenField stands for the length of the payload, which no header has.
var lenField = field{name: "len", bits: 64, in: always}

// comparisons are what may stand between a field and a value; longer ones
// first.
var comparisons = []string{"==", "!=", "<=", ">=", "=", "<", ">"}

func (l *line) comparisonNext() bool {
	for _, c := range comparisons {
		if strings.HasPrefix(l.rest(), c) {
			return true
		}
	}
	return false
}

func (l *line) comparison(behind string) string {
	for _, c := range comparisons {
		if l.take(c) {
			return c
		}
	}
	l.wrong("want =, != or another comparison behind %s, found %s", behind, found(l.rest()))
	return ""
}

// condition reads what is wanted of f, or where its value goes.
func (p *pattern) condition(l *line, f *field) {
	op := l.comparison(f.name)
	if op == "=" && l.take("?") {
		p.keeps = append(p.keeps, capture{f.name, l.name("the name of a variable")})
		return
	}
	p.wants = append(p.wants, condition{f, op, l.expr(arithmetic)})
}

// mismatch says why a packet is not the one; "" if it is.
func (p *pattern) mismatch(v vars, x roce.Packet) (string, error) {
	if !p.any && x.Opcode() != p.op {
		return fmt.Sprintf("it is %v", x.Opcode()), nil
	}
	checked := false
	for _, c := range p.wants {
		checked = checked || c.name == "qp"
		if !c.in(x.Opcode()) {
			return fmt.Sprintf("it has no %s", c.name), nil
		}
		want, err := c.of(c.to, v)
		if err != nil {
			return "", err
		}
		if got := fieldOf(c.name, x); !compare(c.op, got, want) {
			return fmt.Sprintf("%s is %s, want %s%s", c.name, show(c.name, got), strings.Trim(c.op, "="), show(c.name, want)), nil
		}
	}
	if qpn, ok := v["local_qpn"]; ok && !checked && uint64(x.BTH().DestQP()) != qpn {
		return fmt.Sprintf("it is for queue pair %#x, want %#x", x.BTH().DestQP(), qpn), nil
	}
	return p.payload.differs(v, x.Payload())
}

// keep stores what the pattern captures.
func (p *pattern) keep(v vars, x roce.Packet) error {
	for _, k := range p.keeps {
		if f := fieldNamed(k.name); f != nil && !f.in(x.Opcode()) {
			return fmt.Errorf("%v has no %s to keep", x.Opcode(), k.name)
		}
		v[k.to] = fieldOf(k.name, x)
	}
	return nil
}

// fieldOf returns the value of a field that the packet has.
func fieldOf(name string, x roce.Packet) uint64 {
	if name == "len" {
		return uint64(len(x.Payload()))
	}
	return fieldNamed(name).get(x.Headers)
}

// show prints the value of a field as package roce does.
func show(name string, v uint64) string {
	switch name {
	case "syndrome":
		return roce.Syndrome(v).String()
	case "psn", "pad", "len", "msn", "dma", "ver":
		return fmt.Sprint(v)
	}
	return fmt.Sprintf("%#x", v)
}

func badLength(got, want int) string {
	return fmt.Sprintf("it has %d bytes, want at least %d", got, want)
}

func badByte(at int, got, want byte) string {
	return fmt.Sprintf("byte %d is %#02x, want %#02x", at, got, want)
}
