package script

import (
	"encoding/hex"
	"fmt"
	"math"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// A line is a statement that is being read, from left to right. After the first
// error nothing is read any more.
type line struct {
	text string
	at   int
	err  error
}

// wrong notes the first error.
func (l *line) wrong(format string, args ...any) {
	if l.err == nil {
		l.err = fmt.Errorf(format, args...)
		l.at = len(l.text)
	}
}

// rest returns what is not read yet, without the space before it.
func (l *line) rest() string {
	for l.at < len(l.text) && (l.text[l.at] == ' ' || l.text[l.at] == '\t') {
		l.at++
	}
	return l.text[l.at:]
}

// done reports whether all is read.
func (l *line) done() bool { return l.rest() == "" }

// end wants nothing more.
func (l *line) end() {
	if !l.done() {
		l.wrong("%q is too much", l.rest())
	}
}

// take reads the given text if it comes next.
func (l *line) take(text string) bool {
	if !strings.HasPrefix(l.rest(), text) {
		return false
	}
	l.at += len(text)
	return true
}

// takeWord reads the given word if it comes next.
func (l *line) takeWord(w string) bool {
	if nameAt(l.rest()) != w {
		return false
	}
	l.at += len(w)
	return true
}

// name reads a name: a letter or underscore, and digits and dots behind it.
func (l *line) name(what string) string {
	n := nameAt(l.rest())
	if n == "" {
		l.wrong("want %s, found %s", what, found(l.rest()))
	}
	l.at += len(n)
	return n
}

// nameAt returns the name that s begins with, or "".
func nameAt(s string) string {
	for i := range len(s) {
		c := s[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_'
		if !letter && (i == 0 || c != '.' && (c < '0' || c > '9')) {
			return s[:i]
		}
	}
	return s
}

// found names what is there instead of what was wanted.
func found(s string) string {
	if s == "" {
		return "the end of the line"
	}
	return strconv.Quote(s)
}

// raw reads up to the next space.
func (l *line) raw(what string) string {
	s := l.rest()
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		s = s[:i]
	}
	if s == "" {
		l.wrong("want %s, found the end of the line", what)
	}
	l.at += len(s)
	return s
}

// maxBytes is how much data a script can write down at once.
const maxBytes = 1 << 16

// bytes reads hexadecimal digits in pairs, or a text in quotation marks.
func (l *line) bytes(what string) []byte {
	if s := l.rest(); strings.HasPrefix(s, `"`) {
		q, err := strconv.QuotedPrefix(s)
		if err != nil {
			l.wrong("%s: the quotation mark has no end", what)
			return nil
		}
		l.at += len(q)
		text, _ := strconv.Unquote(q)
		return []byte(text)
	}
	s := l.raw(what)
	b, err := hex.DecodeString(strings.TrimPrefix(s, "0x"))
	if err != nil && l.err == nil {
		l.wrong("%s: want hexadecimal digits in pairs, found %q", what, s)
	}
	return b
}

// An address is an IP address, or one near an end of the exchange.
type address struct {
	ip   netip.Addr
	end  string // "local", "peer" or "group" where ip is not valid
	plus int
}

// near returns the address, given those of both ends.
func (a address) near(local, peer netip.Addr) netip.Addr {
	ip := a.ip
	switch a.end {
	case "local":
		ip = local
	case "peer":
		ip = peer
	case "group":
		ip = groupNear(local)
	}
	for range a.plus {
		ip = ip.Next()
	}
	return ip
}

// groupNear returns a multicast group that is made of the address of an end: who
// plays a script elsewhere has another one.
func groupNear(local netip.Addr) netip.Addr {
	switch {
	case local.Is4():
		b := local.As4()
		b[0] = 239
		return netip.AddrFrom4(b)
	case local.IsValid():
		b := local.As16()
		copy(b[:8], []byte{0xff, 0x15, 0, 0, 0, 0, 0, 0}) // of a site, and not a well-known one
		return netip.AddrFrom16(b)
	}
	return local
}

// address reads 192.0.2.1, 2001:db8::1, local, peer, peer+2 or group.
func (l *line) address() (a address) {
	s := l.raw("an address")
	end, plus, more := strings.Cut(s, "+")
	if end == "local" || end == "peer" || end == "group" {
		a.end = end
		n, err := strconv.ParseUint(plus, 10, 8)
		if more && err != nil {
			l.wrong("%s: want a number up to 255 after +", s)
		}
		a.plus = int(n)
		return a
	}
	ip, err := netip.ParseAddr(s)
	if err != nil && l.err == nil {
		l.wrong("want an IP address, local, peer, group or peer+N, found %q", s)
	}
	a.ip = ip
	return a
}

// units are what may stand behind a number: times are in nanoseconds.
var units = []struct {
	name  string
	times float64
}{
	{"ns", 1}, {"us", float64(time.Microsecond)}, {"ms", float64(time.Millisecond)}, {"s", float64(time.Second)},
	{"K", 1 << 10}, {"M", 1 << 20}, {"", 1},
}

// number reads 12, 0x1f, 0b101, 4K, 10ms or 1.5ms.
func (l *line) number() uint64 {
	s := l.rest()
	n := 0
	for n < len(s) && (nameAt("_"+s[:n+1]) == "_"+s[:n+1]) {
		n++
	}
	s = s[:n]
	l.at += n
	if v, err := strconv.ParseUint(s, 0, 64); err == nil {
		return v
	}
	for _, u := range units {
		digits, has := strings.CutSuffix(s, u.name)
		if !has || strings.ContainsAny(digits, "xXbBeEpP_iInN") {
			continue
		}
		if v, err := strconv.ParseFloat(digits, 64); err == nil && v*u.times < math.MaxInt64 {
			return uint64(math.Round(v * u.times))
		}
	}
	l.wrong("%s is no number: write 12, 0x1f, 4K or 10ms", found(s))
	return 0
}
