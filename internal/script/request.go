package script

import "fmt"

// A Request is a work request for the target.
type Request struct {
	Op    string // recv, send, write, read, compare_swap, fetch_add, local_inv
	Flags map[string]bool
	SG    []Segment

	// Values holds the numbers that were given: id, va, rkey, imm, inv, add,
	// swap, compare, key.
	Values map[string]uint64
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
	"flush": true, "atomic_write": true,
}

// requestValues and requestFlags are what may be said of a work request.
var (
	requestValues = map[string]bool{
		"id": true, "va": true, "rkey": true, "imm": true, "inv": true, "add": true, "swap": true, "compare": true, "key": true,
		"dest": true, "qkey": true, "place": true, "level": true,
	}
	requestFlags = map[string]bool{"solicited": true, "fence": true, "unsignaled": true, "inline": true}
)

// A segmentSpec is a segment that was read.
type segmentSpec struct {
	region        string
	off, len, key expr
}

// readPost reads a work request.
func readPost(l *line) action {
	op := l.name("an operation")
	if !operations[op] {
		l.wrong("post %s: there is no such operation", op)
	}
	values, flags := map[string]expr{}, map[string]bool{}
	var sg []segmentSpec
	for !l.done() {
		name := l.name("an attribute")
		switch {
		case l.err != nil:
		case requestFlags[name]:
			flags[name] = true
		case !l.take("="):
			l.wrong("want = behind %s, found %s", name, found(l.rest()))
		case name == "mr":
			sg = append(sg, segmentSpec{region: l.name("a region")})
		case requestValues[name]:
			values[name] = l.expr(arithmetic)
		case len(sg) == 0:
			l.wrong("%s: a work request has no %s, or not before mr=", name, name)
		default:
			sg[len(sg)-1].option(l, name)
		}
	}
	return goal(l, func(p *player) error {
		r := Request{Op: op, Flags: flags, Values: map[string]uint64{}}
		for name, e := range values {
			x, err := e(p.v)
			if err != nil {
				return err
			}
			r.Values[name] = x
		}
		for _, s := range sg {
			x, err := s.evaluate(p.v)
			if err != nil {
				return err
			}
			r.SG = append(r.SG, x)
		}
		return p.Target.Post(r)
	})
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
