package script

// Pattern fills b with the bytes that fill=seed stands for, from offset at on.
// Neighbours differ, and so do the same places of different packets.
func Pattern(b []byte, seed, at uint64) {
	for i := range b {
		n := at + uint64(i)
		b[i] = byte(seed + 7*n + n/256)
	}
}

// A payload is what a packet, or memory, is to hold: given bytes, or a pattern.
type payload struct {
	data []byte // with data=
	seed expr   // with fill=
	at   expr   // with at=: the offset in the pattern
	len  expr   // with len=
}

// option reads one of data=, fill=, at= and len=, and reports whether name is
// one.
func (p *payload) option(l *line, name string) bool {
	switch name {
	case "data":
		p.data = l.bytes("data")
		if p.data == nil {
			p.data = []byte{}
		}
	case "fill":
		p.seed = l.expr(arithmetic)
	case "at":
		p.at = l.expr(arithmetic)
	case "len":
		p.len = l.expr(arithmetic)
	default:
		return false
	}
	return true
}

// bytes returns n bytes of the payload, or as many as it says itself when n is
// negative. What is behind the given bytes is of the pattern, or zero.
func (p *payload) bytes(v vars, n int) (b []byte, err error) {
	if n < 0 {
		n = len(p.data)
		if p.len != nil {
			size, err := within(p.len, v, "len", maxBytes)
			if err != nil {
				return nil, err
			}
			n = int(size)
		}
	}
	b = make([]byte, n)
	copy(b, p.data)
	if p.seed == nil {
		return b, nil
	}
	seed, err := p.seed(v)
	if err != nil {
		return nil, err
	}
	at := uint64(0)
	if p.at != nil {
		if at, err = p.at(v); err != nil {
			return nil, err
		}
	}
	Pattern(b[min(len(p.data), n):], seed, at)
	return b, nil
}

// differs says where got is not what the payload is to be; "" if nowhere. What
// nothing was said of is not compared.
func (p *payload) differs(v vars, got []byte) (string, error) {
	if p.data == nil && p.seed == nil {
		return "", nil
	}
	want, err := p.bytes(v, len(got))
	if err != nil {
		return "", err
	}
	if len(p.data) > len(got) {
		return badLength(len(got), len(p.data)), nil
	}
	end := len(got)
	if p.seed == nil {
		end = len(p.data)
	}
	for i := range end {
		if got[i] != want[i] {
			return badByte(i, got[i], want[i]), nil
		}
	}
	return "", nil
}
