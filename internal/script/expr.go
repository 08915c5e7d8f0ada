package script

import (
	"fmt"

	"github.com/gantry-rdma/gantry/roce"
)

// vars are the variables of a script.
type vars map[string]uint64

// An expr is something that has a value once variables have theirs. Numbers
// are 64 bits wide and wrap.
type expr func(vars) (uint64, error)

// constants are names that always have the same value.
var constants = map[string]uint64{
	"ACK": uint64(roce.AckUnlimited), "NAK_SEQUENCE": uint64(roce.NakSequence),
	"NAK_INVALID_REQUEST": uint64(roce.NakInvalidRequest), "NAK_REMOTE_ACCESS": uint64(roce.NakRemoteAccess),
	"NAK_REMOTE_OPERATIONAL": uint64(roce.NakRemoteOperational), "NAK_INVALID_RD": uint64(roce.NakInvalidRD),
	"RANGE": uint64(roce.FlushRange), "REGION": uint64(roce.FlushRegion),
	"GLOBAL": uint64(roce.PlaceGlobal), "PERSISTENT": uint64(roce.PlacePersistent),
}

// functions of one argument.
var functions = map[string]func(uint64) uint64{
	"psn":         func(v uint64) uint64 { return uint64(roce.NewPSN(uint32(v))) },
	"rnr":         func(v uint64) uint64 { return uint64(roce.RNRNak(roce.RNRTimer(v & 31))) },
	"credits":     func(v uint64) uint64 { return uint64(roce.AckCredits(int(v & 0xffff))) },
	"rnr_time":    func(v uint64) uint64 { return uint64(roce.RNRTimer(v & 31).Nanoseconds()) },
	"ack_timeout": func(v uint64) uint64 { return 4096 << (v & 31) },
	"pad":         func(v uint64) uint64 { return -v & 3 },
}

// An operator joins two values. Those that bind more tightly have a higher
// rank, as in Go; a longer one comes before one that it begins with.
type operator struct {
	text string
	rank int
	do   func(a, b uint64) uint64
}

// arithmetic is the lowest rank that is not a comparison.
const arithmetic = 2

var operators = []operator{
	{"==", 1, func(a, b uint64) uint64 { return truth(a == b) }},
	{"!=", 1, func(a, b uint64) uint64 { return truth(a != b) }},
	{"<<", 3, func(a, b uint64) uint64 { return a << min(b, 64) }},
	{">>", 3, func(a, b uint64) uint64 { return a >> min(b, 64) }},
	{"<=", 1, func(a, b uint64) uint64 { return truth(a <= b) }},
	{">=", 1, func(a, b uint64) uint64 { return truth(a >= b) }},
	{"<", 1, func(a, b uint64) uint64 { return truth(a < b) }},
	{">", 1, func(a, b uint64) uint64 { return truth(a > b) }},
	{"|", 2, func(a, b uint64) uint64 { return a | b }},
	{"^", 2, func(a, b uint64) uint64 { return a ^ b }},
	{"&", 3, func(a, b uint64) uint64 { return a & b }},
	{"+", 2, func(a, b uint64) uint64 { return a + b }},
	{"-", 2, func(a, b uint64) uint64 { return a - b }},
	{"*", 3, func(a, b uint64) uint64 { return a * b }},
	{"/", 3, nil}, // the two that can fail
	{"%", 3, nil},
}

// The comparisons, which a condition on a field may have too.
func compare(op string, a, b uint64) bool {
	for _, o := range operators {
		if o.text == op && o.rank == 1 {
			return o.do(a, b) != 0
		}
	}
	return op == "=" && a == b
}

func truth(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// maxDepth bounds how deeply an expression, and a block, may be nested.
const maxDepth = 32

// expr reads an expression with operators of at least that rank.
func (l *line) expr(rank int) expr { return l.nested(rank, 0) }

func (l *line) nested(rank, depth int) expr {
	a := l.operand(depth)
	for l.err == nil {
		o := l.operator(rank)
		if o == nil {
			break
		}
		a = join(*o, a, l.nested(o.rank+1, depth+1))
	}
	return a
}

// operator reads an operator of at least that rank, if one comes next.
func (l *line) operator(rank int) *operator {
	for i := range operators {
		o := &operators[i]
		if next := l.rest(); len(next) >= len(o.text) && next[:len(o.text)] == o.text {
			if o.rank < rank {
				return nil
			}
			l.at += len(o.text)
			return o
		}
	}
	return nil
}

// join makes the expression that an operator has with two others.
func join(o operator, a, b expr) expr {
	return func(v vars) (uint64, error) {
		x, err := a(v)
		if err != nil {
			return 0, err
		}
		y, err := b(v)
		switch {
		case err != nil:
			return 0, err
		case o.do != nil:
			return o.do(x, y), nil
		case y == 0:
			return 0, fmt.Errorf("%d %s 0 has no value", x, o.text)
		case o.text == "/":
			return x / y, nil
		}
		return x % y, nil
	}
}

// operand reads a number, a name, a call, or something in parentheses.
func (l *line) operand(depth int) expr {
	if depth > maxDepth {
		l.wrong("the expression is nested too deeply")
	}
	switch s := l.rest(); {
	case l.err != nil:
		return constant(0)
	case l.take("("):
		e := l.nested(1, depth+1)
		if !l.take(")") {
			l.wrong("want ), found %s", found(l.rest()))
		}
		return e
	case l.take("-"):
		return join(operator{do: func(a, b uint64) uint64 { return a - b }}, constant(0), l.operand(depth+1))
	case l.take("~"):
		return join(operator{do: func(a, b uint64) uint64 { return a ^ b }}, constant(^uint64(0)), l.operand(depth+1))
	case s != "" && s[0] >= '0' && s[0] <= '9':
		return constant(l.number())
	}
	n := l.name("a value")
	if f := functions[n]; f != nil && l.take("(") {
		e := l.nested(1, depth+1)
		if !l.take(")") {
			l.wrong("want ), found %s", found(l.rest()))
		}
		return join(operator{do: func(a, _ uint64) uint64 { return f(a) }}, e, constant(0))
	}
	if v, ok := constants[n]; ok {
		return constant(v)
	}
	return variable(n)
}

func constant(v uint64) expr { return func(vars) (uint64, error) { return v, nil } }

func variable(n string) expr {
	return func(v vars) (uint64, error) {
		if x, ok := v[n]; ok {
			return x, nil
		}
		return 0, fmt.Errorf("%s has no value: set it in the script or with --set %s=VALUE", n, n)
	}
}

// ParseValue reads the value of a variable as a command line gives it: an
// expression without variables.
func ParseValue(text string) (uint64, error) {
	l := &line{text: text}
	e := l.expr(1)
	l.end()
	if l.err != nil {
		return 0, l.err
	}
	return e(nil)
}
