package script

import (
	"fmt"

	"github.com/gantry-rdma/gantry/roce"
)

// Statements about a target that receives datagrams, and about one that shares
// its receives.

func readAttach(l *line) action { return group(l, true) }
func readDetach(l *line) action { return group(l, false) }

// group reads the multicast group that the queue pair is to be in, or not.
func group(l *line, member bool) action {
	a := l.address()
	return goal(l, func(p *player) error { return p.Target.Group(p.resolve(a), member) })
}

// readGRH reads what the 40 bytes before a datagram are to say.
func readGRH(l *line) action {
	region, off := l.name("the name of a region"), constant(0)
	from, to := address{end: "local"}, address{end: "peer"}
	for !l.done() {
		name := l.name("off, from or to")
		switch {
		case !l.take("="):
			l.wrong("want = behind %s, found %s", name, found(l.rest()))
		case name == "off":
			off = l.expr(arithmetic)
		case name == "from":
			from = l.address()
		case name == "to":
			to = l.address()
		default:
			l.wrong("a GRH has no %s", name)
		}
	}
	return goal(l, func(p *player) error {
		w := payload{len: constant(roce.GRHLen)}
		return p.touch(region, off, &w, func(mem []byte) error {
			return p.checkGRH((*roce.GRH)(mem), from, to)
		})
	})
}

// checkGRH compares the addresses of a GRH, and the form that it has.
func (p *player) checkGRH(g *roce.GRH, from, to address) error {
	src, dst := p.resolve(from), p.resolve(to)
	if g.Is4() && [20]byte(g[:20]) != [20]byte{} {
		return fmt.Errorf("the 20 bytes before the IPv4 header are %x", g[:20])
	}
	if g.Is4() != src.Is4() || g.Src() != src || g.Dst() != dst {
		return fmt.Errorf("it is from %v to %v, want %v to %v", g.Src(), g.Dst(), src, dst)
	}
	return nil
}

// readSRQ reads what to do to the shared receive queue.
func readSRQ(l *line) action {
	if l.takeWord("fail") {
		return goal(l, func(p *player) error { return p.Target.FailReceives() })
	}
	if !l.takeWord("limit") {
		l.wrong("srq: limit and fail are possible")
		return nil
	}
	e := l.expr(arithmetic)
	return goal(l, func(p *player) error {
		n, err := within(e, p.v, "the limit", numbers["srq_limit"].max)
		if err != nil {
			return err
		}
		return p.Target.LimitReceives(int(n))
	})
}
