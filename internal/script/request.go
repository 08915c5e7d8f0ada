package script

import (
	"fmt"
	"maps"
	"net/netip"
)

// A Request is a work request for the target.
type Request struct {
	Op    string // one of those that post takes
	Flags map[string]bool
	SG    []Segment

	// Values holds the numbers that were given: id, va, rkey, dma, imm, inv,
	// add, swap, compare, key, place, level, dest, qkey.
	Values map[string]uint64

	To     netip.Addr // of a datagram: where it goes
	Window string     // that is bound, to the one segment
	Rights []string   // that the window gives
}

// A Segment is a scatter entry.
type Segment struct {
	Region   string
	Off, Len uint64
	Key      uint64 // instead of the region's, if HasKey
	HasKey   bool
}

// operations are what can be posted.
var operations = map[string]bool{
	"recv": true, "send": true, "write": true, "read": true, "compare_swap": true, "fetch_add": true, "local_inv": true,
	"flush": true, "atomic_write": true, "bind": true,
}

// requestValues and requestFlags are what may be said of a work request.
var (
	requestValues = map[string]bool{
		"id": true, "va": true, "rkey": true, "imm": true, "inv": true, "add": true, "swap": true, "compare": true, "key": true,
		"dma": true, "dest": true, "qkey": true, "place": true, "level": true,
	}
	requestFlags = map[string]bool{"solicited": true, "fence": true, "unsignaled": true, "inline": true}
)

// A requestSpec is a work request that was read.
type requestSpec struct {
	op     string
	values map[string]expr
	flags  map[string]bool
	sg     []segmentSpec
	to     address
	window string
	rights []string
}

// A segmentSpec is a segment that was read.
type segmentSpec struct {
	region        string
	off, len, key expr
}

// readPost reads a work request.
func readPost(l *line) action {
	s := requestSpec{op: l.name("an operation"), values: map[string]expr{}, flags: map[string]bool{}}
	s.to.end = "local"
	if !operations[s.op] {
		l.wrong("post %s: there is no such operation", s.op)
	}
	for !l.done() {
		s.option(l, l.name("an attribute"))
	}
	return goal(l, func(p *player) error {
		r, err := s.evaluate(p)
		if err != nil {
			return err
		}
		changed, err := p.Target.Post(r)
		maps.Copy(p.v, changed)
		return err
	})
}

// option reads what is said of a work request.
func (s *requestSpec) option(l *line, name string) {
	switch {
	case l.err != nil:
	case requestFlags[name]:
		s.flags[name] = true
	case regionRights[name]:
		s.rights = append(s.rights, name)
	case !l.take("="):
		l.wrong("want = behind %s, found %s", name, found(l.rest()))
	case name == "mr":
		s.sg = append(s.sg, segmentSpec{region: l.name("a region")})
	case name == "mw":
		s.window = l.name("a window")
	case name == "to":
		s.to = l.address()
	case requestValues[name]:
		s.values[name] = l.expr(arithmetic)
	case len(s.sg) == 0:
		l.wrong("%s: a work request has no %s, or not before mr=", name, name)
	default:
		s.sg[len(s.sg)-1].option(l, name)
	}
}

// evaluate gives the request its values.
func (s *requestSpec) evaluate(p *player) (Request, error) {
	r := Request{
		Op: s.op, Flags: s.flags, Values: map[string]uint64{}, To: p.resolve(s.to), Window: s.window, Rights: s.rights,
	}
	for name, e := range s.values {
		x, err := e(p.v)
		if err != nil {
			return r, err
		}
		r.Values[name] = x
	}
	for _, part := range s.sg {
		x, err := part.evaluate(p.v)
		if err != nil {
			return r, err
		}
		r.SG = append(r.SG, x)
	}
	return r, nil
}

// option reads what is said of a segment.
func (s *segmentSpec) option(l *line, name string) {
	switch name {
	case "off":
		s.off = l.expr(arithmetic)
	case "len":
		s.len = l.expr(arithmetic)
	case "lkey":
		s.key = l.expr(arithmetic)
	default:
		l.wrong("a work request has no %s", name)
	}
}

// evaluate gives the segment its values. Without len it is the whole region.
func (s *segmentSpec) evaluate(v vars) (x Segment, err error) {
	x = Segment{Region: s.region, Len: v[s.region+".len"], HasKey: s.key != nil}
	for _, part := range []struct {
		e  expr
		to *uint64
	}{{s.off, &x.Off}, {s.len, &x.Len}, {s.key, &x.Key}} {
		if part.e == nil {
			continue
		}
		if *part.to, err = part.e(v); err != nil {
			return x, fmt.Errorf("mr=%s: %w", s.region, err)
		}
	}
	return x, nil
}
