package mem

// MaxElements is how many bufs one inventory or pool can have. It keeps a
// wrong number from taking all the memory there is.
const MaxElements = 1 << 24

// A shelf holds bufs that nobody has taken.
type shelf struct {
	free  *Buf // chained by next, the last one returned first: it is in the cache
	n     int  // elements, free or taken
	nfree int
}

// stock adds n new elements, numbered from slot on, so that the lowest number
// is taken first.
func (s *shelf) stock(n int) {
	bufs := make([]Buf, n)
	for i := n - 1; i >= 0; i-- {
		b := &bufs[i]
		b.home, b.slot = s, s.n+i
		b.next, s.free = s.free, b
	}
	s.n += n
	s.nfree += n
}

// take hands out an element that is a list of one, with one reference and no
// data: the n bytes of head, which are at addr of m, data off bytes into them.
// It is nil when the shelf is empty.
func (s *shelf) take(m *Map, head []byte, addr Addr, off, n int) *Buf {
	b := s.free
	if b == nil {
		return nil
	}
	s.free = b.next
	s.nfree--
	b.next, b.last, b.count = nil, b, 1
	b.refs = 1
	b.m = m
	b.head, b.addr, b.off, b.n = head, addr, off, n
	if m.safe {
		b.flags = safe
		return b
	}
	if m.foreign {
		b.flags = foreign
	}
	m.bufs++
	return b
}

// put takes an element back. What it described is forgotten: a stale pointer
// finds no bytes, and the map is not kept in memory.
func (s *shelf) put(b *Buf) {
	if b.flags&safe == 0 {
		b.m.bufs--
	}
	b.refs, b.flags = 0, 0
	b.head, b.addr, b.off, b.n = nil, 0, 0, 0
	b.m, b.last, b.count = nil, nil, 0
	b.next, s.free = s.free, b
	s.nfree++
}
