package qp

import "github.com/gantry-rdma/gantry/internal/frame"

// A place is a position in a list of scatter entries.
type place struct {
	i   int    // the entry
	off uint32 // bytes of it that lie before
}

// seek returns the place that is n bytes from the start.
func seek(sg []SGE, n uint64) (p place) {
	for p.i < len(sg) && n >= uint64(sg[p.i].Len) {
		n -= uint64(sg[p.i].Len)
		p.i++
	}
	p.off = uint32(n)
	return p
}

// next returns up to n bytes that lie together at the place, and moves it
// behind them. It is not ok behind the last entry, and for memory that may not
// be used.
func (p *place) next(env Env, sg []SGE, n int, write bool) (mem []byte, ok bool) {
	for p.i < len(sg) {
		e := &sg[p.i]
		if p.off == e.Len {
			p.i, p.off = p.i+1, 0
			continue
		}
		n = min(n, int(min(e.Len-p.off, 1<<30)))
		mem, ok = env.Local(e.LKey, e.Addr+uint64(p.off), n, write)
		p.off += uint32(n)
		return mem, ok
	}
	return nil, false
}

// copyIn copies b to the place and moves it behind. It reports whether all of
// it could be stored.
func (p *place) copyIn(env Env, sg []SGE, b []byte) bool {
	s := scatter{n: len(b)}
	return p.copyPart(env, sg, &s, b)
}

// A scatter is the state of a copy of n bytes that come in parts. Memory that
// lies together is opened once for all of them: to look up its key costs as
// much as to copy some hundred bytes.
type scatter struct {
	n   int    // bytes that are to be opened yet
	mem []byte // is open, and not written
}

// copyPart is copyIn for the next part.
func (p *place) copyPart(env Env, sg []SGE, s *scatter, b []byte) bool {
	for len(b) > 0 {
		if len(s.mem) == 0 {
			mem, ok := p.next(env, sg, max(s.n, len(b)), true)
			if !ok {
				return false
			}
			s.mem, s.n = mem, s.n-len(mem)
		}
		n := copy(s.mem, b)
		s.mem, b = s.mem[n:], b[n:]
	}
	return true
}

// gather appends n bytes from the place to the payload of f, without copying
// them.
func (p *place) gather(env Env, sg []SGE, f *frame.Frame, n int) bool {
	for n > 0 {
		mem, ok := p.next(env, sg, n, false)
		if !ok {
			return false
		}
		f.Payload = append(f.Payload, mem)
		n -= len(mem)
	}
	return true
}
