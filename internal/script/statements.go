package script

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/gantry-rdma/gantry/roce"
)

// statements reads what stands behind the first word of a line. The statements
// about the target are in goals.go.
var statements map[string]func(*line) action

func init() {
	statements = map[string]func(*line) action{
		"set": readSet, "param": readParam, "limit": readLimit,
		"send": readSend, "raw": readRaw, "ack": readAck, "nak": readNak, "rnr": readRNR,
		"expect": readExpect, "drop": readExpect, "ignore": readIgnore, "silence": readSilence,
		"delay": readDelay, "mark": readMark, "check": readCheck, "note": readNote,

		"post": readPost, "complete": readComplete, "no_completion": readNoCompletion,
		"counter": readCounter, "state": readState, "event": readEvent, "memory": readMemory,
		"fill": readFill, "arm": readArm, "notified": readNotified, "modify": readModify,
		"deregister": readDeregister, "attach": readAttach, "detach": readDetach, "grh": readGRH, "srq": readSRQ,
	}
}

// named reads NAME = EXPR.
func named(l *line) (name string, e expr) {
	name = l.name("the name of a variable")
	if !l.take("=") {
		return name, nil
	}
	return name, l.expr(1)
}

func readSet(l *line) action {
	name, e := named(l)
	if e == nil {
		l.wrong("want = and a value behind %s", name)
	}
	return func(p *player) (err error) {
		p.v[name], err = e(p.v)
		return err
	}
}

// readParam reads a variable that the command line may set.
func readParam(l *line) action {
	name, e := named(l)
	return func(p *player) error {
		if _, given := p.Set[name]; given {
			return nil
		}
		if e == nil {
			return fmt.Errorf("give it with --set %s=VALUE", name)
		}
		v, err := e(p.v)
		p.v[name] = v
		return err
	}
}

func readLimit(l *line) action {
	e := l.expr(arithmetic)
	return func(p *player) (err error) {
		p.Limit, err = duration(e, p.v)
		return err
	}
}

// maxDuration bounds all times of a script.
const maxDuration = 24 * time.Hour

// duration evaluates a time.
func duration(e expr, v vars) (time.Duration, error) {
	n, err := e(v)
	if err == nil && n > uint64(maxDuration) {
		err = fmt.Errorf("%d ns: up to %v is possible", n, maxDuration)
	}
	return time.Duration(n), err
}

func readSend(l *line) action {
	t := l.template()
	return func(p *player) error { return p.send(&t) }
}

// send builds a packet and sends it.
func (p *player) send(t *template) error {
	b, err := t.build(p.v)
	if err != nil {
		return err
	}
	return p.finish(b, t)
}

// finish seals what was built, damages what is to be damaged, and sends it.
func (p *player) finish(b []byte, t *template) error {
	from, to := p.Local.Addr(), p.Peer.Addr()
	if t.from != nil {
		from = p.resolve(*t.from)
	}
	if t.to != nil {
		to = p.resolve(*t.to)
	}
	out := p.out
	out.path.Src = netip.AddrPortFrom(from, p.Local.Port())
	out.path.Dst = netip.AddrPortFrom(to, p.Peer.Port())
	if t.icrc != "none" {
		var ok bool
		if b, ok = out.seal(b); !ok {
			return errors.New("the packet is longer than a UDP datagram, or its addresses are of two families")
		}
		if t.icrc == "bad" {
			b[len(b)-1] ^= 0x80
		}
	}
	if t.cut != nil {
		n, err := within(t.cut, p.v, "cut", uint64(len(b)))
		if err != nil {
			return err
		}
		b = b[:len(b)-int(n)]
	}
	return p.transmit(from, to, b)
}

// readRaw reads bytes, to which an ICRC is added unless the script says not to.
func readRaw(l *line) action {
	b := l.bytes("bytes")
	var t template
	for !l.done() {
		name := l.name("icrc, cut, from or to")
		if !l.take("=") || !t.extra(l, name) || t.padding != nil || t.tail != nil {
			l.wrong("%s: icrc=, cut=, from= and to= are possible", name)
		}
	}
	return func(p *player) error { return p.finish(bytes.Clone(b), &t) }
}

// answer reads an acknowledgement with a syndrome: ack, nak and rnr are short
// for it.
func answer(l *line, syndrome expr) action {
	t := template{op: roce.RCAck, values: []value{{fieldNamed("syndrome"), syndrome}}}
	t.options(l)
	if !t.sets("psn") {
		l.wrong("want psn=")
	}
	return func(p *player) error { return p.send(&t) }
}

func readAck(l *line) action { return answer(l, constant(uint64(roce.AckUnlimited))) }
func readRNR(l *line) action {
	timer := l.expr(arithmetic)
	return answer(l, func(v vars) (uint64, error) {
		t, err := within(timer, v, "the RNR timer", 31)
		return uint64(roce.RNRNak(roce.RNRTimer(t))), err
	})
}

// naks are the words behind nak.
var naks = map[string]roce.Syndrome{
	"sequence": roce.NakSequence, "invalid_request": roce.NakInvalidRequest, "remote_access": roce.NakRemoteAccess,
	"remote_operational": roce.NakRemoteOperational, "invalid_rd": roce.NakInvalidRD,
}

func readNak(l *line) action {
	n := l.name("which NAK")
	s, ok := naks[n]
	if !ok {
		l.wrong("nak %s: sequence, invalid_request, remote_access, remote_operational and invalid_rd are possible", n)
	}
	return answer(l, constant(uint64(s)))
}

// A span is when something is to happen: after one time and within another,
// both counted from the mark.
type span struct{ after, within expr }

// option reads after= or within=.
func (s *span) option(l *line, name string) bool {
	switch name {
	case "after":
		s.after = l.expr(arithmetic)
	case "within":
		s.within = l.expr(arithmetic)
	default:
		return false
	}
	return true
}

// of returns the two times. Without within, the limit counts from now.
func (s *span) of(p *player) (earliest, latest time.Time, err error) {
	latest = p.Wire.Now().Add(p.Limit)
	if s.after != nil {
		d, err := duration(s.after, p.v)
		if err != nil {
			return earliest, latest, err
		}
		earliest = p.marked.Add(d)
		latest = earliest.Add(p.Limit)
	}
	if s.within != nil {
		d, err := duration(s.within, p.v)
		if err != nil {
			return earliest, latest, err
		}
		latest = p.marked.Add(d)
	}
	return earliest, latest, nil
}

func readExpect(l *line) action {
	var s span
	w := l.pattern(func(name string) bool { return s.option(l, name) })
	return func(p *player) error { return p.expect(&w, &s) }
}

// expect waits for a packet. Another one is an error, unless it is ignored.
func (p *player) expect(w *pattern, s *span) error {
	earliest, latest, err := s.of(p)
	if err != nil {
		return err
	}
	for {
		x, ok, err := p.receive(latest)
		if err != nil {
			return err
		}
		now := p.Wire.Now()
		if !ok {
			return fmt.Errorf("nothing came in %v", now.Sub(p.marked).Round(time.Millisecond))
		}
		why, err := w.mismatch(p.v, x)
		if err != nil {
			return err
		}
		if why == "" && now.Before(earliest) {
			why = fmt.Sprintf("it came %v too early", earliest.Sub(now))
		}
		ignored, err := p.ignores(x)
		switch {
		case err != nil:
			return err
		case why == "":
			return w.keep(p.v, x)
		case !ignored:
			return fmt.Errorf("%v came: %s", x, why)
		}
	}
}

// ignores reports whether a packet may be passed over, and remembers it.
func (p *player) ignores(x roce.Packet) (bool, error) {
	key := bytes.Clone(x.Headers.Bytes())
	key[8] &^= 0x80 // the same packet may ask for an acknowledgement the second time
	text := string(append(key, x.Padded()...))
	was := p.seen[text]
	p.seen[text] = true
	if was && p.repeats {
		return true, nil
	}
	for i := range p.ignored {
		why, err := p.ignored[i].mismatch(p.v, x)
		if why == "" || err != nil {
			return true, err
		}
	}
	return false, nil
}

func readIgnore(l *line) action {
	if l.takeWord("repeats") {
		return func(p *player) error { p.repeats = true; return nil }
	}
	if l.takeWord("nothing") {
		return func(p *player) error { p.repeats, p.ignored = false, nil; return nil }
	}
	w := l.pattern(func(string) bool { return false })
	if len(w.keeps) > 0 {
		l.wrong("what is ignored keeps nothing")
	}
	return func(p *player) error { p.ignored = append(p.ignored, w); return nil }
}

func readSilence(l *line) action {
	e := l.expr(arithmetic)
	return func(p *player) error {
		d, err := duration(e, p.v)
		if err != nil {
			return err
		}
		until := p.Wire.Now().Add(d)
		for {
			x, ok, err := p.receive(until)
			if err != nil || !ok {
				return err
			}
			ignored, err := p.ignores(x)
			if err != nil {
				return err
			}
			if !ignored {
				return fmt.Errorf("%v came", x)
			}
		}
	}
}

func readDelay(l *line) action {
	e := l.expr(arithmetic)
	return func(p *player) error {
		d, err := duration(e, p.v)
		if err != nil {
			return err
		}
		return p.Wire.Sleep(p.ctx, d)
	}
}

func readMark(*line) action {
	return func(p *player) error { p.marked = p.Wire.Now(); return nil }
}

func readCheck(l *line) action {
	e := l.expr(1)
	return func(p *player) error {
		v, err := e(p.v)
		if err == nil && v == 0 {
			err = errors.New("it is not true")
		}
		return err
	}
}

func readNote(l *line) action {
	text := string(l.bytes("a text in quotation marks"))
	return func(p *player) error { p.note(text); return nil }
}

// note tells the user something.
func (p *player) note(text string) {
	if p.Note != nil {
		p.Note(text)
	}
}
