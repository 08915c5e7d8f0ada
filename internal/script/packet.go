package script

import (
	"fmt"

	"github.com/gantry-rdma/gantry/roce"
)

// A template is a packet that a script sends.
type template struct {
	op      roce.Opcode
	values  []value
	payload payload
	padding expr // bytes of pad: as the pad count says if nil
	tail    []byte
	cut     expr // bytes that are missing at the end
	icrc    string
	from    *address
	to      *address
}

// A value is what a field is set to.
type value struct {
	*field
	to expr
}

// opcode reads an opcode as package roce prints it, or any.
func (l *line) opcode() (o roce.Opcode, any bool) {
	if l.takeWord("any") {
		return 0, true
	}
	n := l.name("a packet, such as RC SEND_ONLY, or any")
	if n != "CNP" && l.err == nil {
		n += " " + l.name("an operation, such as SEND_ONLY")
	}
	o, ok := opcodes[n]
	if !ok {
		l.wrong("there is no packet %s", n)
	}
	return o, false
}

// template reads a packet to send.
func (l *line) template() (t template) {
	o, any := l.opcode()
	if t.op = o; any {
		t.op = roce.CNP // a BTH, and what is given behind it
	}
	t.options(l)
	if any && !t.sets("op") {
		l.wrong("any: say which with op=")
	}
	return t
}

// options reads what is said of a packet.
func (t *template) options(l *line) {
	for !l.done() {
		zero := l.take("!")
		name := l.name("a field")
		f := fieldNamed(name)
		switch {
		case l.err != nil:
		case f != nil && !f.in(t.op):
			l.wrong("%v has no %s", t.op, name)
		case f != nil && f.flag && !l.take("="):
			t.values = append(t.values, value{f, constant(truth(!zero))})
		case f != nil && f.flag:
			t.values = append(t.values, value{f, l.expr(arithmetic)})
		case zero:
			l.wrong("!%s: only a flag can be negated", name)
		case !l.take("="):
			l.wrong("want = behind %s, found %s", name, found(l.rest()))
		case f != nil:
			t.values = append(t.values, value{f, l.expr(arithmetic)})
		case !t.payload.option(l, name) && !t.extra(l, name):
			l.wrong("a packet has no %s", name)
		}
	}
}

// extra reads what is wrong with the packet on purpose.
func (t *template) extra(l *line, name string) bool {
	switch name {
	case "padding":
		t.padding = l.expr(arithmetic)
	case "tail":
		t.tail = l.bytes("tail")
	case "cut":
		t.cut = l.expr(arithmetic)
	case "from":
		a := l.address()
		t.from = &a
	case "to":
		a := l.address()
		t.to = &a
	case "icrc":
		if t.icrc = l.raw("bad or none"); t.icrc != "bad" && t.icrc != "none" && l.err == nil {
			l.wrong("icrc=%s: bad and none are possible", t.icrc)
		}
	default:
		return false
	}
	return true
}

// sets reports whether the template sets a field.
func (t *template) sets(name string) bool {
	for _, x := range t.values {
		if x.name == name {
			return true
		}
	}
	return false
}

// within evaluates e, and wants a value up to max.
func within(e expr, v vars, what string, max uint64) (uint64, error) {
	x, err := e(v)
	if err == nil && x > max {
		err = fmt.Errorf("%s=%#x: up to %#x is possible", what, x, max)
	}
	return x, err
}

// of evaluates the expression for the field: it must fit, or counts round.
func (f *field) of(e expr, v vars) (uint64, error) {
	x, err := e(v)
	if err != nil || f.bits == 64 {
		return x, err
	}
	max := uint64(1)<<f.bits - 1
	if f.wrap {
		return x & max, nil
	}
	if x > max {
		return 0, fmt.Errorf("%s=%#x: it has %d bits", f.name, x, f.bits)
	}
	return x, nil
}

// build makes the packet, from BTH to where the ICRC goes.
func (t *template) build(v vars) ([]byte, error) {
	var head [roce.HeadSize]byte
	h := roce.Build(&head, t.op)
	body, err := t.payload.bytes(v, -1)
	if err != nil {
		return nil, err
	}
	if qpn, ok := v["qpn"]; ok && !t.sets("qp") {
		h.BTH().SetDestQP(uint32(qpn))
	}
	h.BTH().SetPad(roce.PadFor(len(body)))
	if a := h.AETH(); a != nil {
		a.Set(roce.AckUnlimited, 0)
	}
	for _, x := range t.values {
		n, err := x.of(x.to, v)
		if err != nil {
			return nil, err
		}
		x.set(h, n)
	}
	padding := uint64(h.BTH().Pad())
	if t.padding != nil {
		if padding, err = within(t.padding, v, "padding", maxBytes); err != nil {
			return nil, err
		}
	}
	b := append(h.Bytes()[:h.Len():h.Len()], body...)
	return append(append(b, make([]byte, padding)...), t.tail...), nil
}

// ends are the two ends of an exchange, as packets name them.
type ends struct{ path roce.Path }

// seal appends the ICRC, and returns false if the packet is too long for one.
func (e *ends) seal(b []byte) ([]byte, bool) {
	b = append(b, make([]byte, roce.ICRCLen)...)
	var room [roce.Room]byte
	n := e.path.Put(&room, len(b))
	if n == 0 {
		return nil, false
	}
	d, ok := roce.ParseIP(append(room[:n:n], b...))
	if !ok {
		return nil, false
	}
	if sum, ok := d.ICRC(); ok {
		roce.ICRC(sum).Put((*[roce.ICRCLen]byte)(b[len(b)-roce.ICRCLen:]))
	}
	return b, true
}

// damaged reports whether the ICRC of a packet that was received is wrong.
func (e *ends) damaged(p roce.Packet) bool {
	f, ok := roce.NewFlow(e.path.Src, e.path.Dst)
	if !ok {
		return true
	}
	_, good := f.Check(p, roce.Segment(0))
	return !good
}
